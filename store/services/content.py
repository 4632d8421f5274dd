"""Reading content, in this order: viewer, existence and retention, sources, key, commitment, access record, bytes.

Nothing is taken from a cache but the bucket's key, which opens nothing that the row's own state does not allow. No byte
leaves before the record of the read is committed, and refused reads of what exists are recorded too.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from policies.availability import destroyed, ended
from policies.decisions import Refuse
from policies.kinds import Kind, Role
from policies.reasons import Reason
from store import commitments
from store.commitments import Identity
from store.db import Database
from store.errors import Corrupt, CustodyError, Gone, Malformed, NotFound, Refused
from store.keyring import Keyring
from store.services import lost, sizes
from store.services.access import READ, AccessLog
from store.services.metrics import Metrics
from store.services.paging import Reader
from store.services.part_views import decide
from store.services.readback import PartIdentity, key_of
from store.services.together import Together
from store.tables import contents
from store.tables.accesses import Access
from store.tables.contents import Key, ReadRow

MOST_PURPOSE: Final = 200

# Reads that are asked for at once, and how many such groups are asked at a time: bodies are held whole in memory.
_MOST_TOGETHER: Final = 16
_LANES: Final = 2

_TEXTUAL: Final = frozenset({"json", "xml", "yaml", "x-ndjson", "jsonl", "x-www-form-urlencoded"})


@dataclass(frozen=True, slots=True)
class ContentView:
    """The exact bytes that were posted, and what is said about them."""

    content: bytes
    evidence: UUID
    run: str
    exchange: str
    attempt: str
    kind: Kind
    media_type: str
    commitment: bytes
    text: bool

    @property
    def etag(self) -> str:
        """The commitment: it names these bytes and lets nobody test a guess of them."""
        return f'"{base64.b64encode(self.commitment).decode()}"'

    def repr_digest(self) -> str:
        """Return the digest of RFC 9530, computed now and kept nowhere."""
        return f"sha-256=:{base64.b64encode(hashlib.sha256(self.content).digest()).decode()}:"


class ContentReads:
    """Opens one part at a time for one reader."""

    def __init__(self, database: Database, keyring: Keyring, accesses: AccessLog, metrics: Metrics) -> None:
        self._database = database
        self._keyring = keyring
        self._accesses = accesses
        self._metrics = metrics
        self._rows: Together[Key, ReadRow | None] = Together(self._read, most=_MOST_TOGETHER, lanes=_LANES)

    async def read(self, reader: Reader, named: UUID | PartIdentity, purpose: str | None) -> ContentView:
        """Return the content, or raise what stands against it; what exists is recorded either way."""
        checked_purpose(purpose)
        try:
            row = await self._row(reader, named)
        except NotFound:
            if isinstance(named, UUID):
                await self._refuse_lost(reader, named, purpose)
            raise
        try:
            view = await self._opened(reader, row, purpose)
        except CustodyError as refusal:
            if isinstance(refusal, Corrupt):
                self._metrics.corrupt(refusal.reason)
            await self._record(reader, row.evidence, purpose, refusal.reason.value)
            raise
        await self._record(reader, row.evidence, purpose, READ)
        return view

    async def _refuse_lost(self, reader: Reader, evidence: UUID, purpose: str | None) -> None:
        async with self._database.connection() as connection:
            refusal = await lost.refusal(connection, reader.scope, evidence, reader.role, content=True)
        if refusal is not None:
            await self._record(reader, evidence, purpose, refusal.reason.value)
            raise refusal

    async def _row(self, reader: Reader, named: UUID | PartIdentity) -> ReadRow:
        if isinstance(named, PartIdentity):
            async with self._database.connection() as connection:
                key = await key_of(connection, reader.scope, named)
            if key is None:
                raise NotFound
            named = key.evidence
        row = await self._rows.ask((reader.scope, named))
        if row is None:
            raise NotFound
        return row

    async def _read(self, wanted: Sequence[Key]) -> Sequence[ReadRow | None]:
        async with self._database.connection() as connection:
            rows = await contents.read(connection, set(wanted))
        return [rows.get(key) for key in wanted]

    async def _opened(self, reader: Reader, row: ReadRow, purpose: str | None) -> ContentView:
        try:
            return self._open(reader, row, purpose)
        except Corrupt:
            # It may have expired since the row was read, and its key be gone with it: what is corrupt still is so.
            return self._open(reader, await self._row(reader, row.evidence), purpose)

    def _open(self, reader: Reader, row: ReadRow, purpose: str | None) -> ContentView:
        permit(reader, row)
        if purpose is None and purpose_needed(reader, row):
            raise Malformed(detail="say in Custody-Purpose what this read is for: here it is required")
        content = opened(self._keyring, reader.scope, row).content
        return ContentView(
            content=content,
            evidence=row.evidence,
            run=row.run,
            exchange=row.exchange,
            attempt=row.attempt,
            kind=row.kind,
            media_type=row.media_type,
            commitment=row.commitment,
            text=_is_textual(row.media_type) and _is_utf8(content),
        )

    async def _record(self, reader: Reader, evidence: UUID, purpose: str | None, outcome: str) -> None:
        access = Access(reader.scope, reader.key_id, reader.role, evidence, purpose, outcome)
        await self._accesses.record(access)


@dataclass(frozen=True, slots=True)
class Opened:
    """The bytes that a part's commitments are about, with the opening of that of its content."""

    content: bytes = field(repr=False)
    opening: bytes = field(repr=False)
    meta: bytes


def permit(reader: Reader, row: ReadRow) -> None:
    """Raise Refused, or Gone where it will not come back, unless this reader may read this part now."""
    decision = decide(row.ground, reader)
    if isinstance(decision, Refuse):
        raise (Gone if destroyed(row.ground.facts) else Refused)(decision.reason)


def purpose_needed(reader: Reader, row: ReadRow) -> bool:
    """Say whether this read must say what it is for: by the scope's policy, or because it has expired and is held."""
    kept_for_custodians = reader.role is Role.CUSTODIAN and ended(row.ground.facts, row.ground.observed_at)
    return row.purpose_required or kept_for_custodians


def opened(keyring: Keyring, scope: UUID, row: ReadRow) -> Opened:
    """Return the bytes that were committed to; Corrupt (key_lost, integrity_mismatch) and never others.

    AES-GCM alone does not commit to its key: what opens is only right once its commitment is that of the row, and of
    the leaf, once the log has that.
    """
    body = row.body
    if body is None:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the part has no body")
    identity = Identity(scope, row.run, row.exchange, row.attempt, row.kind.value)
    bucket_key = keyring.bucket_key(scope, body.wrapped_in)
    secret = commitments.unwrap_secret(bucket_key, body.wrapped, scope, body.wrapped_in, row.evidence)
    frame = commitments.open_part(secret, body.ciphertext, identity, row.evidence)
    size = sizes.exact(keyring.token_key("lookup"), row.evidence, body.exact_bytes)
    content = commitments.frame_decode(frame, size)
    _, opening = commitments.part_keys(secret)
    whole = len(content) == size and commitments.size_class(len(content)) == row.size_class
    if not (whole and commitments.same(commitments.commitment(opening, content), row.commitment)):
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the content is not what was committed to")
    if row.leaf is not None and row.leaf.entry != leaf_of(row):
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the log says otherwise of the part")
    return Opened(content, opening, meta_of(scope, row))


def checked_purpose(purpose: str | None) -> str | None:
    """Refuse a purpose that no record could show."""
    if purpose is not None and not (1 <= len(purpose) <= MOST_PURPOSE and purpose.isprintable()):
        raise Malformed(detail=f"Custody-Purpose is 1 to {MOST_PURPOSE} printable characters")
    return purpose


def meta_of(scope: UUID, row: ReadRow) -> bytes:
    """Return the exact metadata that was committed to; Corrupt where the row says otherwise by now."""
    meta = commitments.meta_bytes(
        Identity(scope, row.run, row.exchange, row.attempt, row.kind.value),
        bucket=row.bucket_id,
        captured_at=row.captured_at,
        completeness=row.completeness,
        media_type=row.media_type,
        received_at=row.received_at,
        sequence=row.sequence,
        session=row.session,
        size_class=row.size_class,
        sources=[(binding.source, binding.version) for binding in row.ground.bindings],
        vantage=row.vantage,
    )
    if not commitments.same(commitments.meta_commitment(row.meta_opening, meta), row.meta_commitment):
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the metadata is not what was committed to")
    return meta


def leaf_of(row: ReadRow) -> bytes:
    """Return the leaf that a part has by its row."""
    return commitments.leaf(
        "part", b=row.bucket_id, c=row.commitment, m=row.meta_commitment, p=row.evidence, t=row.stored_at
    )


def _is_textual(media_type: str) -> bool:
    kind, _, name = media_type.partition("/")
    return kind == "text" or name in _TEXTUAL or name.endswith(("+json", "+xml"))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return False
    return True
