"""Sources and their versions: add, withdraw, revoke, restore, and when what they closed is destroyed."""

import re
from datetime import datetime, timedelta
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console import policy_words
from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import MOST_ROWS, Filled, field_of, filled, paged, words
from console.rendering import page, redirect
from policies.scope_policy import ScopePolicy
from store.errors import Conflict, Malformed
from store.ids import caller_id

_SEE_OTHER: Final = 303
_BAD: Final = 400
_CONFLICT: Final = 409
_FIELDS: Final = ("source", "earlier", "audience", "nobody")
_DONE: Final = frozenset({"added", "revoked", "restored", "withdrawn", "readable"})
_MOST_VERSIONS: Final = 100
_MOST_VERSION: Final = 2**31 - 1
_VERSION: Final = re.compile(r"[1-9][0-9]{0,9}")


@get("/sources", guards=[operates()])
async def list_sources(request: AnyRequest) -> Response[Any]:
    """The scope's sources by id."""
    return await _list(request, Filled())


async def _list(request: AnyRequest, form: Filled, *, status: int = 200) -> Response[Any]:
    opened, listing = services(request), paged(request, services(request), "sources")
    found = await opened.sources.page(
        listing.scope, listing.after_name(request.query_params.get("cursor")), MOST_ROWS
    )
    policy = signed(request).in_scope.policy
    rows = [(row, destroyed_at(policy, row.revoked_at)) for row in found.rows]
    return page(
        request,
        "desk_sources.html",
        status=status,
        form=form,
        sources=rows,
        following=listing.following(found.last),
        after=policy_words.destroys(policy),
    )


@post("/sources", guards=[operates()], status_code=_SEE_OTHER)
async def add_version(request: AnyRequest) -> Response[Any]:
    """Add the next version, and make the source where there is none."""
    who, form = signed(request), filled(request, *_FIELDS)
    source, tags = form.get("source"), words(form.get("audience"))
    if tags and form.get("nobody"):
        return await _list(
            request, form.wrong({"audience": "leave it empty, or do not take every tag away"}), status=_BAD
        )
    field = "source"
    try:
        _ = caller_id(source)
        field = "audience"
        await services(request).sources.put_version(
            who.in_scope.scope_id,
            source,
            who.caller.key_id,
            withdraw_earlier=form.get("earlier") == "withdrawn",
            audience=tags if tags or form.get("nobody") else None,
        )
    except Malformed as fault:
        return await _list(request, form.wrong({field: fault.detail}), status=_BAD)
    return redirect(f"/desk/sources/{source}", done="added")


@get("/sources/{source:str}", guards=[operates()])
async def show_source(request: AnyRequest, source: FromPath[str]) -> Response[Any]:
    """One source with its newest versions."""
    done = request.query_params.get("done", "")
    return await _source(request, source, "desk_source.html", done=done if done in _DONE else "", late=False)


@get("/sources/{source:str}/revoke", guards=[operates()])
async def ask_revoke(request: AnyRequest, source: FromPath[str]) -> Response[Any]:
    """Ask before a source, or a version, is closed."""
    version = _version(request.query_params.get("version", ""))
    policy = signed(request).in_scope.policy
    return await _source(
        request,
        source,
        "desk_source_revoke.html",
        version=version,
        after=policy_words.destroys(policy),
    )


@post("/sources/{source:str}/revoke", guards=[operates()], status_code=_SEE_OTHER)
async def revoke(request: AnyRequest, source: FromPath[str]) -> Response[Any]:
    """Close the whole source, or one version, to readers and captures."""
    who, version = signed(request), _version(field_of(request, "version"))
    await services(request).sources.revoke(
        who.in_scope.scope_id, caller_id(source), version, who.caller.key_id
    )
    return redirect(f"/desk/sources/{source}", done="withdrawn" if version else "revoked")


@post("/sources/{source:str}/restore", guards=[operates()], status_code=_SEE_OTHER)
async def restore(request: AnyRequest, source: FromPath[str]) -> Response[Any]:
    """Open again what was closed, as long as nothing of it has been destroyed."""
    who, version = signed(request), _version(field_of(request, "version"))
    try:
        await services(request).sources.restore(
            who.in_scope.scope_id, caller_id(source), version, who.caller.key_id
        )
    except Conflict:
        # What closed it has destroyed it since the page was made.
        return await _source(request, source, "desk_source.html", status=_CONFLICT, done="", late=True)
    return redirect(f"/desk/sources/{source}", done="readable" if version else "restored")


HANDLERS: Final = (list_sources, add_version, show_source, ask_revoke, revoke, restore)


def destroyed_at(policy: ScopePolicy, closed_at: datetime | None) -> datetime | None:
    """Return from when on what was closed then is destroyed; None where it is open, or kept for good."""
    if closed_at is None or policy.destroy_after_s is None:
        return None
    return closed_at + timedelta(seconds=policy.destroy_after_s)


async def _source(
    request: AnyRequest, source: str, template: str, *, status: int = 200, **facts: Any
) -> Response[Any]:
    scope = signed(request).in_scope
    row, versions = await services(request).sources.one(scope.scope_id, caller_id(source), _MOST_VERSIONS)
    return page(
        request,
        template,
        status=status,
        source=row,
        destroyed_at=destroyed_at(scope.policy, row.revoked_at),
        versions=[(each, destroyed_at(scope.policy, each.withdrawn_at)) for each in versions],
        most=_MOST_VERSIONS,
        **facts,
    )


def _version(text: str) -> int | None:
    if not text:
        return None
    if _VERSION.fullmatch(text) is None or int(text) > _MOST_VERSION:
        raise Malformed(detail="a version is a number from 1")
    return int(text)
