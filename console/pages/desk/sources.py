"""Sources and their versions: add, withdraw, revoke, restore, and when what they closed is destroyed."""

from datetime import datetime, timedelta
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console import policy_words
from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import MOST_ROWS, field, paged, words
from console.rendering import page, redirect
from policies.scope_policy import ScopePolicy
from store.errors import Malformed
from store.ids import caller_id

_SEE_OTHER: Final = 303
_MOST_VERSIONS: Final = 200
_MOST_VERSION: Final = 2**31 - 1


@get("/sources", guards=[operates()])
async def list_sources(request: AnyRequest) -> Response[Any]:
    """The scope's sources by id."""
    opened, listing = services(request), paged(request, services(request), "sources")
    found = await opened.sources.page(
        listing.scope, listing.after_name(request.query_params.get("cursor")), MOST_ROWS
    )
    policy = signed(request).in_scope.policy
    rows = [(row, destroyed_at(policy, row.revoked_at)) for row in found.rows]
    return page(
        request,
        "desk_sources.html",
        sources=rows,
        following=listing.following(found.last),
        after=policy_words.destroys(policy),
    )


@post("/sources", guards=[operates()], status_code=_SEE_OTHER)
async def add_version(request: AnyRequest) -> Response[Any]:
    """Add the next version, and make the source where there is none."""
    who, source = signed(request), caller_id(field(request, "source"))
    tags = words(field(request, "audience"))
    replaces = bool(tags) or bool(field(request, "nobody"))
    added = await services(request).sources.put_version(
        who.in_scope.scope_id,
        source,
        who.caller.key_id,
        withdraw_earlier=field(request, "earlier") == "withdrawn",
        audience=tags if replaces else None,
    )
    return redirect(f"/desk/sources/{source}", done=f"version {added.version} added")


@get("/sources/{source:str}", guards=[operates()])
async def show_source(request: AnyRequest, source: FromPath[str]) -> Response[Any]:
    """One source with its newest versions."""
    return await _source(
        request, source, "desk_source.html", done=request.query_params.get("done") is not None
    )


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
    who, version = signed(request), _version(field(request, "version"))
    await services(request).sources.revoke(
        who.in_scope.scope_id, caller_id(source), version, who.caller.key_id
    )
    return redirect(f"/desk/sources/{source}", done="closed")


@post("/sources/{source:str}/restore", guards=[operates()], status_code=_SEE_OTHER)
async def restore(request: AnyRequest, source: FromPath[str]) -> Response[Any]:
    """Open again what was closed, as long as nothing of it has been destroyed."""
    who, version = signed(request), _version(field(request, "version"))
    await services(request).sources.restore(
        who.in_scope.scope_id, caller_id(source), version, who.caller.key_id
    )
    return redirect(f"/desk/sources/{source}", done="opened")


HANDLERS: Final = (list_sources, add_version, show_source, ask_revoke, revoke, restore)


def destroyed_at(policy: ScopePolicy, closed_at: datetime | None) -> datetime | None:
    """Return from when on what was closed then is destroyed; None where it is open, or kept for good."""
    if closed_at is None or policy.destroy_after_s is None:
        return None
    return closed_at + timedelta(seconds=policy.destroy_after_s)


async def _source(request: AnyRequest, source: str, template: str, **facts: Any) -> Response[Any]:
    scope = signed(request).in_scope
    row, versions = await services(request).sources.one(scope.scope_id, caller_id(source), _MOST_VERSIONS)
    return page(
        request,
        template,
        source=row,
        destroyed_at=destroyed_at(scope.policy, row.revoked_at),
        versions=[(each, destroyed_at(scope.policy, each.withdrawn_at)) for each in versions],
        most=_MOST_VERSIONS,
        **facts,
    )


def _version(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:11]) <= _MOST_VERSION:
        raise Malformed(detail="a version is a number from 1")
    return int(text)
