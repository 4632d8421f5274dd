"""What the pages about a run's tools have in common: where they lead, how much each holds, why they may be closed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from litestar import Response

from console import words
from console.guards import AnyRequest, services, signed
from console.pages.two_ways import Turned
from console.rendering import page
from console.words import Words
from policies.reasons import Reason
from store.errors import Gone, Refused
from store.services.lens_views import FactCounts
from store.services.paging import PageInfo, Reader
from store.services.refusals import status_of
from store.wiring import Services

# An exchange and one of its attempts, where that was told.
Attempt = tuple[str, str | None]

_NAMES: Final = (
    ("actions", "Actions"),
    ("surface", "Tools offered"),
    ("coverage", "Files read"),
    ("delivery", "Delivery"),
)


@dataclass(frozen=True, slots=True)
class Tab:
    """One of the lists: its last word in the address, what it is called, and how much it holds."""

    word: str
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Tools:
    """What a run's page says of its tools: how much was told (None: it cannot be read, for `closed`)."""

    counts: FactCounts | None
    closed: Words | None

    @property
    def tabs(self) -> list[Tab]:
        """Return the lists; none where nothing can be read."""
        return [] if self.counts is None else tabs_of(self.counts)


def tabs_of(counts: FactCounts) -> list[Tab]:
    """Return the lists of one run, each with how much it holds."""
    return [Tab(word, name, getattr(counts, word)) for word, name in _NAMES]


async def tools_of(opened: Services, reader: Reader, run: str) -> Tools:
    """Return what there is of a run's tools; NotFound for no run."""
    try:
        return Tools(await opened.lens.counts(reader, run), None)
    except Refused as refused:
        return Tools(None, words.at_read(refused.reason))


def closed(request: AnyRequest, run: str, refused: Refused) -> Response[str]:
    """Answer in the place of what cannot be read, with why."""
    request.scope["state"]["reason"] = refused.reason.value
    status = status_of(refused.reason, str(request.method), destroyed=isinstance(refused, Gone))
    said = words.at_read(refused.reason)
    return page(
        request, "tools_closed.html", status=status, run=run, said=said, reason=refused.reason, action=None
    )


def never_told(request: AnyRequest, run: str, action: str) -> Response[str]:
    """Answer for an action of which nothing was recorded, which is not that it never was."""
    request.scope["state"]["reason"] = Reason.NOT_FOUND.value
    return page(
        request, "tools_closed.html", status=404, run=run, said=None, reason=Reason.NOT_FOUND, action=action
    )


async def pages_of(request: AnyRequest, run: str, named: Iterable[Attempt]) -> dict[Attempt, str]:
    """Return where requests can be looked at, of those that the store knows anything of."""
    wanted = sorted(set(named), key=lambda each: (each[0], each[1] or ""))
    met = await services(request).lens.met(signed(request).reader, run, wanted)
    return {each: _path(run, *each) for each in met}


def _path(run: str, exchange: str, attempt: str | None) -> str:
    of = f"/runs/{run}/exchanges/{exchange}"
    return of if attempt is None else f"{of}/attempts/{attempt}"


def onward(asked: Turned, info: PageInfo) -> dict[str, str | None]:
    """Return where a list begins, where this page is not its first, and where it goes on."""
    return {
        "first": asked.link() if asked.asked.cursor else None,
        "next": None if info.next is None else asked.link(cursor=info.next),
    }


def known(facts: Collection[Any], counts: FactCounts) -> dict[str, Any]:
    """Return what every list says of itself."""
    return {"rows": facts, "tabs": tabs_of(counts), "full": counts.full}
