"""What lies in the stream: headers without content and without exact sizes, and how an entry is read.

Every entry says its version. A writer reads its own and the one before; a version it does not know it leaves to a
newer writer. Fields are only ever added at the end of a header, with a default. Redis cannot read headers: what its
scripts need of an entry stands in fields of its own.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias
from uuid import UUID

import msgspec

from policies.kinds import SaidBy
from policies.reasons import Reason
from store.queue.frames import Outcome, Settlement
from store.queue.keys import RunKey

VERSION: Final = b"1"

EntryType: TypeAlias = Literal["part", "state", "gap", "fact"]


class PartHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A part without its content; `captured_at` and `received_at` are microseconds since 1970."""

    scope: bytes
    run_uid: bytes
    run: str
    exchange: str
    attempt: str
    kind: str
    evidence: bytes
    session: str | None
    sequence: int | None
    media_type: str
    completeness: str
    vantage: str
    captured_at: int | None
    received_at: int
    dispatch: str
    settlement: str
    sources: list[tuple[str, int | None]]
    policy_version: int
    key_id: bytes


class StateHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a runtime told of an attempt; `refs` are keyed hashes, `at` is microseconds since 1970."""

    scope: bytes
    run_uid: bytes
    run: str
    exchange: str
    attempt: str
    dispatch: str
    settlement: str
    refs: list[bytes]
    at: int


class GapHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is not there: numbers `first` to `last` of a session, or one identity, or both."""

    scope: bytes
    run_uid: bytes
    run: str
    said_by: str
    reason: str | None
    session: str | None
    first: int | None
    last: int | None
    exchange: str | None
    attempt: str | None
    kind: str | None
    at: int


class FactHeader(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One fact of a toolchain: its JSON as the store writes it; `fact_uid` is time-ordered, minted when it was told."""

    scope: bytes
    run_uid: bytes
    run: str
    fact_uid: bytes
    body: bytes


Header: TypeAlias = PartHeader | StateHeader | GapHeader | FactHeader

_encoder: Final = msgspec.msgpack.Encoder()
_part: Final = msgspec.msgpack.Decoder(PartHeader)
_state: Final = msgspec.msgpack.Decoder(StateHeader)
_gap: Final = msgspec.msgpack.Decoder(GapHeader)
_fact: Final = msgspec.msgpack.Decoder(FactHeader)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One delivery of one entry. `sealed` is there for parts only, `deliveries` counts this one.

    `unclear` says that whoever has it tried to write it, and does not know what came of that.
    """

    id: str
    type: EntryType
    header: Header
    sealed: bytes | None
    reason: Reason | None
    deliveries: int = 1
    unclear: bool = False

    @property
    def again(self) -> bool:
        """Whether it may have been written before."""
        return self.unclear or self.deliveries > 1

    @property
    def key(self) -> RunKey:
        """The run it belongs to."""
        return _key(self.header.scope, self.header.run)

    def settle(self, outcome: Outcome, reason: Reason | None = None) -> Settlement:
        """Say what became of this entry."""
        header = self.header
        if isinstance(header, PartHeader):
            return Settlement(
                self.id, self.key, "part", outcome, reason,
                exchange=header.exchange, attempt=header.attempt, kind=header.kind,
                evidence=header.evidence, sealed_bytes=len(self.sealed or b""),
            )  # fmt: skip
        return Settlement(self.id, self.key, self.type, outcome, reason)


@lru_cache(maxsize=1024)
def _key(scope: bytes, run: str) -> RunKey:
    # Asked for every entry, and the runs of a batch are few.
    return RunKey(UUID(bytes=scope), run)


def encode(header: Header) -> bytes:
    """Return a header as it stands in an entry."""
    return _encoder.encode(header)


def gap_header(header: bytes) -> bytes:
    """Shorten a part's header to what its gap needs: source bindings alone could be longer than a note may be."""
    return _encoder.encode(msgspec.structs.replace(_part.decode(header), sources=[]))


def read(entry_id: bytes, fields: Mapping[bytes, bytes], deliveries: int) -> Entry | None:
    """Read an entry, or return None if it is of a version or form that this writer does not know."""
    if fields.get(b"v") != VERSION:
        return None
    try:
        return _read(entry_id.decode(), fields, deliveries)
    except (KeyError, ValueError, msgspec.DecodeError):
        return None


def _read(entry_id: str, fields: Mapping[bytes, bytes], deliveries: int) -> Entry:
    kind, header = fields[b"t"], fields[b"h"]
    if kind == b"part":
        return Entry(entry_id, "part", _part.decode(header), fields[b"b"], None, deliveries)
    if kind == b"state":
        return Entry(entry_id, "state", _state.decode(header), None, None, deliveries)
    if kind == b"fact":
        return Entry(entry_id, "fact", _fact.decode(header), None, None, deliveries)
    if kind != b"gap":
        raise KeyError(kind)
    reason = Reason(fields[b"r"].decode()) if b"r" in fields else None
    gap = _gap_of(_part.decode(header)) if fields.get(b"k") == b"part" else _gap.decode(header)
    return Entry(entry_id, "gap", gap, None, reason, deliveries)


def _gap_of(part: PartHeader) -> GapHeader:
    """Read a refused part's header, which the append script put in as its gap, as the store's word about it."""
    return GapHeader(
        part.scope, part.run_uid, part.run, SaidBy.STORE.value, None,
        part.session, part.sequence, part.sequence,
        part.exchange, part.attempt, part.kind, part.received_at,
    )  # fmt: skip
