"""The parts of a bundle, each read as its requester would read it now; and what the log says of those that cannot be.

A read is one here as anywhere: who asks, existence and retention, sources, key, commitment; then the leaf, its proof.
Records of all of a group are committed before any of it is handed on. Groups bound what is held at a time.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec

from policies.availability import metadata_visible
from policies.reasons import Reason
from policies.revocation import cleared
from store.db import Connection, Database
from store.errors import Corrupt, Refused
from store.keyring import Keyring
from store.log_tree.proofs import HashAt
from store.services.access import READ, AccessLog
from store.services.content import Opened, meta_of, opened, permit, purpose_needed
from store.services.export.tree import Proven, Tree
from store.services.metrics import Metrics
from store.services.paging import Reader
from store.tables import contents, export_items
from store.tables.accesses import Access
from store.tables.contents import ReadRow
from store.tables.export_items import Leaf

PART: Final = "part"
KINDS: Final = (PART, "purge", "expire")

_MOST_TOGETHER: Final = 64
_MOST_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Given:
    """A part that the requester may read, with what its commitments open with."""

    evidence: UUID
    opened: Opened
    meta_opening: bytes
    proven: Proven


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that is not given: why, what the log says of it by kind of leaf, and its metadata with their opening."""

    evidence: UUID
    reason: Reason
    proven: Mapping[str, Proven]
    meta: tuple[bytes, bytes] | None = None


class PartReads:
    """Reads the parts of exports."""

    def __init__(self, database: Database, keyring: Keyring, accesses: AccessLog, metrics: Metrics) -> None:
        self._database = database
        self._keyring = keyring
        self._accesses = accesses
        self._metrics = metrics

    async def read(
        self, reader: Reader, evidence: Sequence[UUID], purpose: str | None, tree: Tree
    ) -> AsyncGenerator[list[Given | Missing], None]:
        """Yield what became of the parts, in their order, some at a time."""
        for at in range(0, len(evidence), _MOST_TOGETHER):
            some = evidence[at : at + _MOST_TOGETHER]
            async with self._database.connection() as connection:
                sizes = await export_items.size_classes(connection, reader.scope, some)
            for group in _bounded(some, sizes):
                yield await self._group(reader, group, purpose, tree)

    async def _group(
        self, reader: Reader, evidence: Sequence[UUID], purpose: str | None, tree: Tree
    ) -> list[Given | Missing]:
        async with self._database.connection() as connection:
            rows = await _rows(connection, reader, evidence)
            known = await _Known.about(connection, tree, rows)
        reading = _Reading(self._keyring, reader, purpose, known)
        found = await asyncio.to_thread(lambda: [reading.one(each, rows.get(each)) for each in evidence])
        found = [await self._again(reading, each) if _corrupt(each) else each for each in found]
        await self._record(reader, purpose, [each for each in found if each.evidence in rows])
        return found

    async def _again(self, reading: "_Reading", missing: "Given | Missing") -> "Given | Missing":
        """Look once more: it may have expired since the row was read, and its key be gone with it."""
        async with self._database.connection() as connection:
            rows = await _rows(connection, reading.reader, [missing.evidence])
        return await asyncio.to_thread(reading.one, missing.evidence, rows.get(missing.evidence))

    async def _record(self, reader: Reader, purpose: str | None, found: Sequence["Given | Missing"]) -> None:
        for each in found:
            if isinstance(each, Missing) and _corrupt(each):
                self._metrics.corrupt(each.reason)
        outcomes = [(each.evidence, each.reason if isinstance(each, Missing) else READ) for each in found]
        await self._accesses.record_all(
            [
                Access(reader.scope, reader.key_id, reader.role, evidence, purpose, str(outcome))
                for evidence, outcome in outcomes
            ]
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the log says of some parts, and the hashes that prove it."""

    tree: Tree
    leaves: Mapping[tuple[UUID, str], Leaf]
    hash_at: HashAt

    @classmethod
    async def about(cls, connection: Connection, tree: Tree, rows: Mapping[UUID, ReadRow]) -> "_Known":
        subjects = {*rows, *(row.bucket_id for row in rows.values())}
        leaves: dict[tuple[UUID, str], Leaf] = {}
        for leaf in await tree.leaves(connection, subjects, KINDS):
            leaves.setdefault((leaf.subject, leaf.kind), leaf)
        return cls(tree, leaves, await tree.hashes(connection, tree.inclusion_nodes(leaves.values())))

    def proven(self, subject: UUID, kind: str) -> Proven | None:
        """Return a leaf with its proof; None where there is none, Corrupt where it does not lead to the checkpoint."""
        leaf = self.leaves.get((subject, kind))
        return None if leaf is None else self.tree.proven(leaf, self.hash_at)

    def shown(self, row: ReadRow) -> dict[str, Proven]:
        """Return all that can be shown of a part that is not given; what has no proof that holds is left out."""
        found: dict[str, Proven] = {}
        for kind in KINDS:
            try:
                proven = self.proven(row.bucket_id if kind == "expire" else row.evidence, kind)
            except Corrupt:
                continue
            if proven is not None:
                found[kind] = proven
        return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """One group being read. Nothing in it waits for anything but the key directory: it runs in a thread."""

    keyring: Keyring
    reader: Reader
    purpose: str | None
    known: _Known

    def one(self, evidence: UUID, row: ReadRow | None) -> Given | Missing:
        """Read one part, or say why not."""
        if row is None:
            # Another scope's part, and one that never was.
            return Missing(evidence, Reason.NOT_FOUND, {})
        try:
            return self._given(row)
        except (Refused, Corrupt) as refusal:
            shown = self.known.shown(row)
            return Missing(evidence, refusal.reason, shown, self._meta(row, shown.get(PART)))

    def _given(self, row: ReadRow) -> Given:
        permit(self.reader, row)
        if self.purpose is None and purpose_needed(self.reader, row):
            # A custodian who does not say what for reads what everybody reads.
            raise Refused(Reason.EXPIRED_HELD)
        found = opened(self.keyring, self.reader.scope, row)
        proven = self.known.proven(row.evidence, PART)
        if proven is None or not _speaks_of(proven.leaf, row):
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the log says otherwise than the row")
        return Given(row.evidence, found, row.meta_opening, proven)

    def _meta(self, row: ReadRow, proven: Proven | None) -> tuple[bytes, bytes] | None:
        """Return the metadata with their opening, where this viewer may see all of them and the log has them."""
        sources = cleared(row.ground.bindings, row.ground.sources, self.reader.clearances)
        if proven is None or not (
            sources and metadata_visible(self.reader.role) and _speaks_of(proven.leaf, row)
        ):
            return None
        try:
            return meta_of(self.reader.scope, row), row.meta_opening
        except Corrupt:
            return None


class _Said(msgspec.Struct, frozen=True, gc=False):
    """What a part's leaf commits to."""

    b: UUID
    c: bytes
    m: bytes
    p: UUID


_said: Final = msgspec.json.Decoder(_Said)


def _speaks_of(leaf: bytes, row: ReadRow) -> bool:
    """Say whether a part's leaf commits to what its row says, and names it and its bucket."""
    try:
        said = _said.decode(leaf)
    except msgspec.DecodeError:
        return False
    return said == _Said(row.bucket_id, row.commitment, row.meta_commitment, row.evidence)


def _corrupt(found: Given | Missing) -> bool:
    return isinstance(found, Missing) and found.reason in {Reason.KEY_LOST, Reason.INTEGRITY_MISMATCH}


async def _rows(connection: Connection, reader: Reader, evidence: Sequence[UUID]) -> dict[UUID, ReadRow]:
    rows = await contents.read(connection, {(reader.scope, each) for each in evidence})
    return {each: row for (_, each), row in rows.items()}


def _bounded(evidence: Sequence[UUID], sizes: Mapping[UUID, int]) -> Iterator[list[UUID]]:
    """Cut what is read at once so that its contents are bounded; a part alone may be as large as parts may be."""
    group: list[UUID] = []
    held = 0
    for each in evidence:
        size = sizes.get(each, 0)
        if group and held + size > _MOST_BYTES:
            yield group
            group, held = [], 0
        group.append(each)
        held += size
    if group:
        yield group
