"""Two attempts held together: request against request, output against output. Each of the four is a guarded read."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from litestar import Response, Router, get
from litestar.params import FromPath

from console.guards import AnyRequest, Signed, reads, services, signed
from console.pages.attempts import reading
from console.pages.sides import Side, side_of
from console.rendering import page
from console.showing.comparing import Comparison, compare
from policies.kinds import Kind
from store.errors import Malformed, NotFound
from store.ids import caller_id
from store.services.readback import PartIdentity
from store.wiring import Services

_TITLES: Final = {Kind.LOGICAL_REQUEST: "Requests", Kind.OBSERVABLE_OUTPUT: "Outputs"}


@dataclass(frozen=True, slots=True)
class _Named:
    """One attempt; `latest`: only its exchange was named, and this is the last of its attempts."""

    exchange: str
    attempt: str
    latest: bool


@dataclass(frozen=True, slots=True)
class _Both:
    """One kind of both attempts; `found` is there where both could be read."""

    title: str
    left: Side
    right: Side
    found: Comparison | None


@get("/runs/{run:str}/compare", guards=[reads()])
async def show_comparison(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Compare two attempts of a run; asks which where none are named."""
    who, opened, run = signed(request), services(request), caller_id(run)
    left, right = (request.query_params.get(name, "").strip() for name in ("left", "right"))
    facts: dict[str, Any] = {"run": run, "left": None, "right": None, "pairs": []}
    if left or right:
        facts["left"], facts["right"] = [await _named(opened, who, run, text) for text in (left, right)]
        facts["pairs"] = [
            await _both(opened, who, run, facts["left"], facts["right"], kind) for kind in _TITLES
        ]
    else:
        # Whether there is such a run is said before anybody fills in a form.
        await opened.run_reads.run(who.reader, run)
    sides = [side for both in facts["pairs"] for side in (both.left, both.right)]
    return page(request, "compare.html", said_left=left, said_right=right, **facts, **reading(who, sides))


async def _named(opened: Services, who: Signed, run: str, text: str) -> _Named:
    exchange, _, attempt = text.partition("/")
    if not exchange:
        raise Malformed(detail="left and right each name an attempt: exchange/attempt, or an exchange alone")
    among = await opened.run_reads.attempt_among(
        who.reader, run, caller_id(exchange), caller_id(attempt) if attempt else None
    )
    if among is None:
        raise NotFound
    return _Named(exchange, among.item.attempt_id, latest=not attempt)


async def _both(opened: Services, who: Signed, run: str, left: _Named, right: _Named, kind: Kind) -> _Both:
    was, now = [
        await side_of(opened, who, PartIdentity(run, each.exchange, each.attempt, kind))
        for each in (left, right)
    ]
    found = None
    if was.content is not None and now.content is not None:
        found = await asyncio.to_thread(compare, was.content.content, now.content.content)
    return _Both(_TITLES[kind], was, now, found)


router = Router("/", route_handlers=[show_comparison])
