"""What a batch says of attempts, gathered to one row each: the first word stays, another is kept as a conflict."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from policies.kinds import Dispatch, Settlement
from store.queue.entries import PartHeader, StateHeader
from store.services.sealing import instant
from store.tables.attempts import MOST_REFS, Told

_UNKNOWN: Final = ("unknown", "unknown")


class _Said(NamedTuple):
    word: str = "unknown"
    conflict: str | None = None

    def then(self, word: str) -> "_Said":
        """Add a later word."""
        if word in ("unknown", self.word):
            return self
        if self.word == "unknown":
            return _Said(word)
        return self if self.conflict is not None else _Said(self.word, word)


def told(parts: Iterable[PartHeader], states: Iterable[StateHeader]) -> list[Told]:
    """Return what is to be written, in the order of the attempts' keys; what says nothing leaves no row."""
    found: dict[tuple[bytes, bytes, str, str], Told] = {}
    for part in parts:
        if (part.dispatch, part.settlement) != _UNKNOWN:
            _add(found, part, instant(part.received_at), ())
    for state in states:
        _add(found, state, instant(state.at), state.refs)
    return [found[key] for key in sorted(found)]


def _add(
    found: dict[tuple[bytes, bytes, str, str], Told],
    header: PartHeader | StateHeader,
    at: datetime,
    refs: Iterable[bytes],
) -> None:
    key = (header.scope, header.run_uid, header.exchange, header.attempt)
    known = found.get(key)
    if known is None:
        known = Told(
            UUID(bytes=header.scope), UUID(bytes=header.run_uid), header.exchange, header.attempt,
            "unknown", "unknown", None, None, at, (),
        )  # fmt: skip
    dispatch = _Said(known.dispatch, known.dispatch_conflict).then(Dispatch(header.dispatch))
    settlement = _Said(known.settlement, known.settlement_conflict).then(Settlement(header.settlement))
    found[key] = known._replace(
        dispatch=dispatch.word,
        settlement=settlement.word,
        dispatch_conflict=dispatch.conflict,
        settlement_conflict=settlement.conflict,
        first_at=min(known.first_at, at),
        refs=tuple(dict.fromkeys((*known.refs, *refs)))[:MOST_REFS],
    )
