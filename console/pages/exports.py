"""Bundles: asked for by runs or parts, made anew whenever the key that asked fetches one, verified elsewhere."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from litestar import Response, Router, get, post
from litestar.params import FromPath

from console.guards import AnyRequest, Signed, reads, services, signed
from console.rendering import fragment, page, redirect, wants_fragment
from console.streamed import Streamed
from policies.kinds import Role
from policies.reasons import Reason
from store.errors import Malformed, NotFound, Unavailable
from store.ids import caller_id
from store.services.content import MOST_PURPOSE, checked_purpose
from store.services.export.asking import MOST_ANCHORS, MOST_PARTS, Wanted
from store.services.exports import MOST_SHOWN, Standing
from store.services.questions import evidence_named, evidence_of

_ROLES: Final = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR)
_FIELDS: Final = ("runs", "evidence", "anchors", "purpose")
_EMPTY: Final = dict.fromkeys(_FIELDS, "")
_APART: Final = re.compile(r"[\s,]+")
_SIZE: Final = re.compile("[0-9]{1,18}")
_BEHIND: Final = (
    "It was not taken down: the log has not published all of these parts yet, or the database is away. "
    "Ask again in a moment."
)


@get("/exports", guards=[reads(*_ROLES)])
async def list_exports(request: AnyRequest) -> Response[Any]:
    """Show what this key asked for in the last day, and the form to ask; the address may fill its fields."""
    filled = {name: request.query_params.get(name, "") for name in ("runs", "evidence")}
    return await _shown(request, filled, "", HTTPStatus.OK)


@post("/exports", guards=[reads(*_ROLES)], status_code=HTTPStatus.SEE_OTHER)
async def ask_export(request: AnyRequest) -> Response[Any]:
    """Take an export down and lead to it; what stands against it is said beside the form as it was filled in."""
    who = signed(request)
    filled = {name: str(who.form.get(name) or "") for name in _FIELDS}
    try:
        purpose = _purpose(who, filled["purpose"])
        asked = await services(request).exports.ask(who.reader, _wanted(filled), purpose)
    except (Malformed, NotFound) as fault:
        status = HTTPStatus.NOT_FOUND if isinstance(fault, NotFound) else HTTPStatus.BAD_REQUEST
        return await _shown(request, filled, fault.detail, status)
    except Unavailable as outage:
        if outage.reason is Reason.READS_CLOSED:
            raise
        return await _shown(request, filled, _BEHIND, HTTPStatus.SERVICE_UNAVAILABLE)
    return redirect(f"/exports/{asked.export_id}")


@get("/exports/{export:str}", guards=[reads(*_ROLES)])
async def show_export(request: AnyRequest, export: FromPath[str]) -> Response[Any]:
    """Show one export, or only how far it is."""
    standing = await services(request).exports.standing(signed(request).reader, evidence_of(export))
    facts: dict[str, Any] = {"export": standing, "file": _file(standing)}
    if wants_fragment(request):
        return fragment(request, "export_state.html", **facts)
    return page(request, "export.html", **facts)


@post("/exports/{export:str}/bundle", guards=[reads(*_ROLES)], status_code=HTTPStatus.OK)
async def fetch_bundle(request: AnyRequest, export: FromPath[str]) -> Response[bytes]:
    """Send the bundle while it is made. A form, not a link: each part in it is read, and recorded as read."""
    opened, reader = services(request).exports, signed(request).reader
    standing = await opened.standing(reader, evidence_of(export))
    pieces = opened.bundle(reader, standing.export_id)
    # What stands against all of it is an answer, and no archive that breaks off.
    first = await anext(pieces)
    return Streamed(first, pieces, _file(standing), "application/zip")


router = Router("/", route_handlers=[list_exports, ask_export, show_export, fetch_bundle])


async def _shown(
    request: AnyRequest, filled: dict[str, str], fault: str, status: HTTPStatus
) -> Response[Any]:
    who = signed(request)
    return page(
        request,
        "exports.html",
        status=status,
        exports=await services(request).exports.mine(who.reader),
        filled=_EMPTY | {"purpose": who.purpose or ""} | filled,
        fault=fault,
        needs_purpose=who.in_scope.policy.purpose_required,
        most_parts=MOST_PARTS,
        most_shown=MOST_SHOWN,
        most_purpose=MOST_PURPOSE,
    )


def _file(standing: Standing) -> str:
    return f"custody-{standing.export_id.hex}.zip"


def _wanted(filled: Mapping[str, str]) -> Wanted:
    runs, evidence, anchors = (_words(filled[name]) for name in ("runs", "evidence", "anchors"))
    if max(len(runs), len(evidence)) > MOST_PARTS or len(anchors) > MOST_ANCHORS:
        raise Malformed(detail=f"an export has at most {MOST_PARTS} parts and {MOST_ANCHORS} anchors")
    if not all(_SIZE.fullmatch(each) for each in anchors):
        raise Malformed(detail="anchors are sizes of checkpoints: numbers")
    return Wanted(
        [caller_id(each) for each in runs],
        [evidence_named(each) for each in evidence],
        [int(each) for each in anchors],
    )


def _words(text: str) -> list[str]:
    return [word for word in _APART.split(text) if word]


def _purpose(who: Signed, said: str) -> str | None:
    purpose = said.strip() or None
    if purpose is None and who.in_scope.policy.purpose_required:
        raise Malformed(detail="say what this export is for: this scope demands it")
    try:
        return checked_purpose(purpose)
    except Malformed:
        raise Malformed(
            detail=f"a purpose is one line of at most {MOST_PURPOSE} printable characters"
        ) from None
