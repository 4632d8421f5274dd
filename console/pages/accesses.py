"""Who read what: access records of a scope, of one part, or of one key."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from litestar import Response, Router, get

from console import api_calls
from console.filters import Filters, filters, without
from console.guards import AnyRequest, reads, services, signed
from console.proof_words import Said, of_outcome
from console.rendering import page
from console.streamed import MOST_ROWS
from policies.kinds import Role
from store.errors import Malformed, NotFound
from store.ids import caller_id
from store.services.access import AccessItem
from store.services.paging import Page
from store.services.questions import evidence_of

PATH: Final = "/accesses"
NAMES: Final = ("evidence", "key_id")
READS_THEM: Final = (Role.AUDITOR, Role.OPERATOR, Role.CUSTODIAN)

_BAD_REQUEST: Final = 400


@dataclass(frozen=True, slots=True)
class Row:
    """One record and its outcome in words."""

    item: AccessItem
    said: Said


@get(PATH, guards=[reads(*READS_THEM)])
async def list_accesses(request: AnyRequest) -> Response[Any]:
    """One page of records, newest first unless asked otherwise; what is no question is said beside the form."""
    try:
        asked = filters(request, *NAMES)
        found = await page_of(request, asked)
    except Malformed as fault:
        return _shown(request, without(request, NAMES), None, fault.detail)
    return _shown(request, asked, found, "")


async def page_of(request: AnyRequest, asked: Filters) -> Page[AccessItem]:
    """Return a page as the filters ask for it; Malformed for two filters that are only offered alone."""
    evidence, key = wanted(asked)
    return await services(request).accesses.page(signed(request).reader, evidence, key, asked.asked)


def wanted(asked: Filters) -> tuple[UUID | None, str | None]:
    """Return the part and the key that are asked for."""
    evidence, key = asked.get("evidence"), asked.get("key_id")
    if evidence and key:
        raise Malformed(detail="filters are offered alone: evidence, or key_id; with each of them: from, to")
    return _part(evidence) if evidence else None, caller_id(key) if key else None


def _part(text: str) -> UUID:
    try:
        return evidence_of(text)
    except NotFound:
        raise Malformed(detail="a part is named by its evidence reference, as its page shows it") from None


def rows(items: Iterable[AccessItem]) -> list[Row]:
    """Return records as a table shows them."""
    return [Row(item, of_outcome(item.outcome)) for item in items]


def link_key() -> Callable[[str], str]:
    """Return what leads from a key's id to what it read."""
    return lambda key_id: f"{PATH}?key_id={key_id}"


def _shown(request: AnyRequest, asked: Filters, found: Page[AccessItem] | None, fault: str) -> Response[Any]:
    who = signed(request)
    url = api_calls.address(services(request).settings, "/v1/accesses", _as_api(asked))
    return page(
        request,
        "accesses.html",
        status=_BAD_REQUEST if fault else 200,
        filters=asked,
        rows=rows(found.items) if found else [],
        info=found.page if found else None,
        link_key=link_key(),
        fault=fault,
        most_rows=MOST_ROWS,
        curl=api_calls.curl(url, who.in_scope.name if who.of_store else None),
    )


def _as_api(asked: Filters) -> dict[str, str]:
    """Say the filters as the api takes them: its times have an offset."""
    times = {"from": asked.asked.since, "to": asked.asked.until}
    return {**asked.said, **{name: at.isoformat() for name, at in times.items() if at is not None}}


router = Router("/", route_handlers=[list_accesses])
