"""From a queued body to what is written of it, ahead of the transaction: opened, committed to, sealed for its bucket.

The writer's hot path. The frame is decrypted and encrypted again as it is; it is inflated once, for the commitment.
What depends on a key or a run alone is made once a batch, and is gone with it: keys are not kept longer than may be.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import Kind
from policies.revocation import Binding
from store import commitments, ids
from store.commitments import SECRET_BYTES, Identity, Keyed, Wrapping, lp
from store.errors import Corrupt
from store.keyring import Keyring
from store.queue import Entry
from store.queue.entries import PartHeader
from store.services import marks, sizes
from store.tables.batch import BucketSpan, Key
from store.tables.bodies import NewBody
from store.tables.parts import NewPart
from store.tables.source_sets import SourceSet

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_KINDS: Final = frozenset(kind.value for kind in Kind)

# What one part needs of chance: its secret, the opening of its metadata, and a nonce for each sealing.
_META: Final = 2 * SECRET_BYTES
_NONCE: Final = _META + 12
_DRAWN: Final = _NONCE + 12


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """Everything of a part that does not depend on the instant at which it is stored."""

    row: NewPart
    body: NewBody
    source_set: SourceSet | None


class Place(msgspec.Struct, frozen=True, gc=False):
    """What all parts of one run share within a batch. Without `wrapping` its bucket, or the key of it, is not there."""

    key: Key
    run: str
    # Scope and run as every identity of the run begins.
    named: bytes
    bucket: BucketSpan | None
    wrapping: Wrapping | None


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A part that waits to be written. Without `sealed` there is no bucket for it yet, or it is at fault itself."""

    entry: Entry
    header: PartHeader
    place: Place
    # Its identity, joined: one order for all writers, and what names it wherever bytes are bound to it.
    named: bytes
    evidence: UUID
    received_at: datetime
    bindings: tuple[Binding, ...]
    sealed: Sealed | None
    faulty: bool

    @property
    def scope(self) -> UUID:
        """The scope it belongs to."""
        return self.place.key[0]

    @property
    def identity(self) -> Identity:
        """What names it for ever."""
        header = self.header
        return Identity(self.scope, header.run, header.exchange, header.attempt, header.kind)


@lru_cache(maxsize=256)
def instant(microseconds: int) -> datetime:
    """Return a header's time, exactly; ValueError for one beyond the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise ValueError("not a time") from None


class Sealing:
    """Makes candidates of the entries of one batch, under the keys of this process."""

    def __init__(
        self, keyring: Keyring, most_bytes: int, buckets: Mapping[Key, BucketSpan], parts: int
    ) -> None:
        self._keyring = keyring
        self._most_bytes = most_bytes
        self._buckets = buckets
        self._drawn = ids.secrets(_DRAWN, parts)
        self._places: dict[tuple[Key, str], Place] = {}
        self._intakes: dict[bytes, Keyed] = {}

    def candidate(self, entry: Entry, header: PartHeader, run: Key) -> Candidate:
        """Open and seal one entry; ValueError for one that no part can be made of.

        Unavailable where keys cannot be reached, which is no fault of the entry.
        """
        if header.kind not in _KINDS:
            raise ValueError("not a kind")
        place = self._places.get((run, header.run)) or self._place(run, header.run)
        names = lp(header.exchange.encode(), header.attempt.encode(), header.kind.encode())
        bare = Candidate(
            entry=entry,
            header=header,
            place=place,
            named=place.named + names,
            evidence=UUID(bytes=header.evidence),
            received_at=instant(header.received_at),
            bindings=tuple([Binding(source, version) for source, version in header.sources]),
            sealed=None,
            faulty=False,
        )
        if place.bucket is None or place.wrapping is None:
            return bare
        try:
            sealed = self._seal(bare, place.bucket, place.wrapping)
        except (Corrupt, ValueError):
            return msgspec.structs.replace(bare, faulty=True)
        return msgspec.structs.replace(bare, sealed=sealed)

    def _place(self, run: Key, name: str) -> Place:
        bucket = self._buckets.get(run)
        wrapping = None if bucket is None else self._wrapping(run[0], bucket.key_id)
        place = Place(run, name, lp(run[0].bytes, name.encode()), bucket, wrapping)
        self._places[run, name] = place
        return place

    def _wrapping(self, scope: UUID, key: UUID) -> Wrapping | None:
        try:
            return Wrapping(self._keyring.bucket_key(scope, key), scope, key)
        except Corrupt:
            # No key yet, or none any more: the bucket's state tells which, and is read under its lock.
            return None

    def _opened(self, part: Candidate, bound: bytes) -> bytes:
        """Return the frame of a queued body."""
        sealed = part.entry.sealed or b""
        key_id = commitments.intake_key_id(sealed)
        intake = self._intakes.get(key_id)
        if intake is None:
            intake = self._intakes[key_id] = Keyed(self._keyring.intake_secret(key_id))
        return commitments.open_taken(intake, sealed, bound)

    def _seal(self, part: Candidate, bucket: BucketSpan, wrapping: Wrapping) -> Sealed:
        header, scope, evidence = part.header, part.scope, part.evidence
        bound = commitments.bound(part.named, evidence)
        frame = self._opened(part, bound)
        content = commitments.frame_decode(frame, self._most_bytes)
        drawn = next(self._drawn)
        part_secret, meta_opening = drawn[:SECRET_BYTES], drawn[SECRET_BYTES:_META]
        enc_key, opening = commitments.part_keys(part_secret)
        size_class = commitments.size_class(len(content))
        captured_at = None if header.captured_at is None else instant(header.captured_at)
        meta = commitments.meta_bytes(
            part.identity,
            bucket=bucket.bucket_id,
            captured_at=captured_at,
            completeness=header.completeness,
            media_type=header.media_type,
            received_at=part.received_at,
            sequence=header.sequence,
            session=header.session,
            size_class=size_class,
            sources=header.sources,
            vantage=header.vantage,
        )
        source_set = self._source_set(part) if part.bindings else None
        # In the order of their columns: naming them takes as long as an encryption.
        row = NewPart(
            scope, evidence, part.place.key[1], header.exchange, header.attempt, header.kind, bucket.bucket_id,
            bucket.span_start, header.session, header.sequence, size_class, header.media_type, header.completeness,
            header.vantage, None if source_set is None else source_set.set_id, captured_at, part.received_at,
            commitments.commitment(opening, content), commitments.meta_commitment(meta_opening, meta), meta_opening,
        )  # fmt: skip
        body = NewBody(
            bucket.span_start, scope, evidence, bucket.key_id,
            wrapping.wrap(part_secret, evidence, drawn[_META:_NONCE]),
            sizes.masked(self._keyring.token_key("lookup"), evidence, len(content)),
            commitments.seal_frame(enc_key, frame, bound, drawn[_NONCE:]),
        )  # fmt: skip
        return Sealed(row, body, source_set)

    def _source_set(self, part: Candidate) -> SourceSet:
        ordered = marks.in_order(part.bindings)
        return SourceSet(
            part.scope,
            marks.source_set_id(self._keyring.token_key("lookup"), part.scope, ordered),
            [binding.source for binding in ordered],
            [binding.version for binding in ordered],
        )
