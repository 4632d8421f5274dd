"""What waits to be sent, and the bytes of a flush: an array of frames `[type, header map, bytes?]` in MessagePack."""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic, time
from typing import Any, Final

import msgspec

from custody_client.ranges import Ranges

SourcePairs = tuple[tuple[str, int | None], ...]


class Part(msgspec.Struct, gc=False):
    """One captured part that waits; `at` is when it was captured, by the monotonic clock."""

    number: int
    exchange: str
    attempt: str
    kind: str
    content: bytes
    at: float
    content_type: str
    completeness: str
    vantage: str
    sources: SourcePairs
    size: int
    """What it takes of the room, also after the mask made it another size."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What is captured once in a run."""
        return self.exchange, self.attempt, self.kind


class State(msgspec.Struct):
    """What is to be said of one attempt; later words are added to what waits."""

    exchange: str
    attempt: str
    dispatch: str | None = None
    settlement: str | None = None
    refs: tuple[str, ...] = ()
    tries: int = 0


class Batch(msgspec.Struct):
    """One flush: its bytes, which stay the same however often they are sent, and what they hold, in order."""

    body: bytes
    parts: list[Part]
    states: list[State]
    tries: int = 0
    renewed: bool = False

    @property
    def sequences(self) -> str:
        """The numbers in it, as its header names them."""
        return Ranges((part.number, part.number + 1) for part in self.parts).to_text()


_encoder: Final = msgspec.msgpack.Encoder()


def batch_of(parts: list[Part], states: list[State]) -> Batch:
    """Write a flush."""
    # The clock that people read may have been set since; what was captured before is dated by how long ago it was.
    begin = time() - monotonic()
    frames: list[Sequence[Any]] = [("part", _header(part, begin), part.content) for part in parts]
    frames += [("state", _said(state)) for state in states]
    return Batch(_encoder.encode(frames), parts, states)


def _header(part: Part, begin: float) -> dict[str, Any]:
    header: dict[str, Any] = {
        "exchange": part.exchange,
        "attempt": part.attempt,
        "kind": part.kind,
        "sequence": part.number,
        "content-type": part.content_type,
        "completeness": part.completeness,
        "captured-at": datetime.fromtimestamp(begin + part.at, UTC).isoformat(),
        "vantage": part.vantage,
    }
    if part.sources:
        header["sources"] = part.sources
    return header


def _said(state: State) -> dict[str, Any]:
    said: dict[str, Any] = {"exchange": state.exchange, "attempt": state.attempt}
    if state.dispatch is not None:
        said["dispatch"] = state.dispatch
    if state.settlement is not None:
        said["settlement"] = state.settlement
    if state.refs:
        said["refs"] = state.refs
    return said
