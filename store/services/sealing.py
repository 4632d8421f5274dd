"""From a queued body to what is written of it, ahead of the transaction: opened, committed to, sealed for its bucket.

The writer's hot path. The frame is decrypted and encrypted again as it is; it is inflated once, for the commitment.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from policies.kinds import Kind
from policies.revocation import Binding
from store import commitments, ids
from store.commitments import Identity
from store.errors import Corrupt
from store.keyring import Keyring
from store.queue import Entry
from store.queue.entries import PartHeader
from store.services import marks
from store.tables.batch import BucketSpan, Key
from store.tables.bodies import NewBody
from store.tables.parts import NewPart
from store.tables.source_sets import SourceSet

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Sealed:
    """Everything of a part that does not depend on the instant at which it is stored."""

    row: NewPart
    body: NewBody
    source_set: SourceSet | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part that waits to be written. Without `sealed` there is no bucket for it yet, or it is at fault itself."""

    entry: Entry
    header: PartHeader
    identity: Identity
    run_uid: UUID
    evidence: UUID
    received_at: datetime
    bindings: tuple[Binding, ...]
    marks: tuple[bytes, ...]
    bucket: BucketSpan | None
    sealed: Sealed | None = None
    faulty: bool = False

    @property
    def scope(self) -> UUID:
        """The scope it belongs to."""
        return self.identity.scope


def instant(microseconds: int) -> datetime:
    """Return a header's time, exactly; ValueError for one beyond the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise ValueError("not a time") from None


class Sealer:
    """Makes candidates of entries, under the keys of this process."""

    def __init__(self, keyring: Keyring, most_bytes: int) -> None:
        self._keyring = keyring
        self._most_bytes = most_bytes

    def candidate(self, entry: Entry, header: PartHeader, run: Key, bucket: BucketSpan | None) -> Candidate:
        """Open and seal one entry. Unavailable where keys cannot be reached, which is no fault of the entry."""
        (scope, run_uid), evidence = run, UUID(bytes=header.evidence)
        identity = Identity(scope, header.run, header.exchange, header.attempt, header.kind)
        lookup = self._keyring.token_key("lookup")
        bare = Candidate(
            entry=entry,
            header=header,
            identity=identity,
            run_uid=run_uid,
            evidence=evidence,
            received_at=instant(header.received_at),
            bindings=tuple(Binding(source, version) for source, version in header.sources),
            marks=(marks.evidence_mark(lookup, scope, evidence), marks.identity_mark(lookup, identity)),
            bucket=bucket,
        )
        return bare if bucket is None else self._sealed(bare, bucket, lookup)

    def _sealed(self, bare: Candidate, bucket: BucketSpan, lookup: bytes) -> Candidate:
        try:
            bucket_key = self._keyring.bucket_key(bare.scope, bucket.bucket_id)
        except Corrupt:
            # No key yet, or none any more: the bucket's state tells which, and is read under its lock.
            return bare
        try:
            sealed = self._seal(bare, bucket, bucket_key, lookup)
        except (Corrupt, ValueError):
            return _with(bare, None, faulty=True)
        return _with(bare, sealed, faulty=False)

    def _seal(self, bare: Candidate, bucket: BucketSpan, bucket_key: bytes, lookup: bytes) -> Sealed:
        header, identity, evidence = bare.header, bare.identity, bare.evidence
        frame = commitments.open_intake(
            self._keyring.intake_secret, bare.entry.sealed or b"", identity, evidence
        )
        content = commitments.frame_decode(frame, self._most_bytes)
        part_secret = ids.secret(commitments.SECRET_BYTES)
        _, opening = commitments.part_keys(part_secret)
        meta_opening = ids.secret(commitments.SECRET_BYTES)
        captured_at = None if header.captured_at is None else instant(header.captured_at)
        meta = commitments.meta_bytes(
            identity,
            bucket=bucket.bucket_id,
            captured_at=captured_at,
            completeness=header.completeness,
            media_type=header.media_type,
            received_at=bare.received_at,
            sequence=header.sequence,
            session=header.session,
            size_class=commitments.size_class(len(content)),
            sources=header.sources,
            vantage=header.vantage,
        )
        source_set = _source_set(lookup, bare)
        row = NewPart(
            scope_id=identity.scope,
            evidence=evidence,
            run_uid=bare.run_uid,
            exchange=header.exchange,
            attempt=header.attempt,
            kind=Kind(header.kind),
            bucket_id=bucket.bucket_id,
            span_start=bucket.span_start,
            session=header.session,
            sequence=header.sequence,
            size_class=commitments.size_class(len(content)),
            media_type=header.media_type,
            completeness=header.completeness,
            vantage=header.vantage,
            source_set=None if source_set is None else source_set.set_id,
            captured_at=captured_at,
            received_at=bare.received_at,
            commitment=commitments.commitment(opening, content),
            meta_commitment=commitments.meta_commitment(meta_opening, meta),
            meta_opening=meta_opening,
        )
        body = NewBody(
            span_start=bucket.span_start,
            scope_id=identity.scope,
            evidence=evidence,
            bucket_id=bucket.bucket_id,
            wrapped=commitments.wrap_secret(
                bucket_key, part_secret, identity.scope, bucket.bucket_id, evidence
            ),
            exact_bytes=len(content),
            ciphertext=commitments.seal_part(part_secret, frame, identity, evidence),
        )
        return Sealed(row, body, source_set)


def _source_set(lookup: bytes, bare: Candidate) -> SourceSet | None:
    if not bare.bindings:
        return None
    ordered = marks.in_order(bare.bindings)
    return SourceSet(
        bare.scope,
        marks.source_set_id(lookup, bare.scope, ordered),
        [binding.source for binding in ordered],
        [binding.version for binding in ordered],
    )


def _with(bare: Candidate, sealed: Sealed | None, *, faulty: bool) -> Candidate:
    # dataclasses.replace costs as much as an encryption; this is done for every part.
    return Candidate(
        bare.entry, bare.header, bare.identity, bare.run_uid, bare.evidence, bare.received_at, bare.bindings,
        bare.marks, bare.bucket, sealed, faulty,
    )  # fmt: skip
