"""The parts of a bundle, each read as its requester would read it now; and what the log says of those that cannot be.

A read is one here as anywhere: who asks, existence and retention, sources, key, commitment; then the leaf, its proof.
Records of all of a group are committed before any of it is handed on. Groups bound what is held at a time.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from policies.availability import metadata_visible
from policies.reasons import Reason
from policies.revocation import cleared
from store.db import Connection, Database
from store.errors import Corrupt, Refused
from store.keyring import Keyring
from store.services.access import READ, AccessLog
from store.services.content import Opened, leaf_of, meta_of, opened, permit, purpose_needed
from store.services.export.turns import in_turn
from store.services.metrics import Metrics
from store.services.paging import Reader
from store.services.proofs import Proof, Tree
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
    proof: Proof


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that is not given: why, what the log says of it by kind of leaf, and its metadata with their opening."""

    evidence: UUID
    reason: Reason
    proofs: Mapping[str, Proof]
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
        found = [await self._one(reading, each, rows.get(each)) for each in evidence]
        await self._record(reader, purpose, [each for each in found if each.evidence in rows])
        return found

    async def _one(self, reading: "_Reading", evidence: UUID, row: ReadRow | None) -> "Given | Missing":
        size = 0 if row is None else row.size_class
        found = await in_turn(size, partial(reading.one, evidence, row))
        if not _corrupt(found):
            return found
        # It may have expired since the row was read, and its key be gone with it.
        async with self._database.connection() as connection:
            rows = await _rows(connection, reading.reader, [evidence])
        return await in_turn(size, partial(reading.one, evidence, rows.get(evidence)))

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
    """What the log says of some parts: leaves by what they are about and their kind, of which the proof holds."""

    proofs: Mapping[tuple[UUID, str], Proof]

    @classmethod
    async def about(cls, connection: Connection, tree: Tree, rows: Mapping[UUID, ReadRow]) -> "_Known":
        subjects = {*rows, *(row.bucket_id for row in rows.values())}
        leaves: dict[tuple[UUID, str], Leaf] = {}
        for leaf in await export_items.leaves(connection, subjects, KINDS, tree.size):
            leaves[leaf.subject, leaf.kind] = leaf
        found: dict[tuple[UUID, str], Proof] = {}
        for key, leaf in leaves.items():
            with suppress(Corrupt):
                found[key] = await tree.inclusion(connection, leaf.idx, leaf.leaf)
            # Hashing takes a while, and the tiles may all be here: let others have their turn.
            await asyncio.sleep(0)
        return cls(found)

    def of(self, row: ReadRow) -> dict[str, Proof]:
        """Return what the log says of a part, by kind of leaf."""
        about = {kind: row.bucket_id if kind == "expire" else row.evidence for kind in KINDS}
        return {kind: self.proofs[each, kind] for kind, each in about.items() if (each, kind) in self.proofs}


@dataclass(frozen=True, slots=True)
class _Reading:
    """One group being read. Nothing in it waits for anything but the key directory; it may run in a thread."""

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
            proofs = self.known.of(row)
            return Missing(evidence, refusal.reason, proofs, self._meta(row, proofs.get(PART)))

    def _given(self, row: ReadRow) -> Given:
        permit(self.reader, row)
        if self.purpose is None and purpose_needed(self.reader, row):
            # A custodian who does not say what for reads what everybody reads; elsewhere the policy has changed since.
            raise Refused(Reason.PERMISSION_DENIED if row.purpose_required else Reason.EXPIRED_HELD)
        found = opened(self.keyring, self.reader.scope, row)
        proof = self.known.of(row).get(PART)
        if proof is None or proof.entry != leaf_of(row):
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the log says otherwise of the part")
        return Given(row.evidence, found, row.meta_opening, proof)

    def _meta(self, row: ReadRow, proof: Proof | None) -> tuple[bytes, bytes] | None:
        """Return the metadata with their opening, where this viewer may see all of them and the log has them."""
        sources = cleared(row.ground.bindings, row.ground.sources, self.reader.clearances)
        visible = sources and metadata_visible(self.reader.role)
        if not visible or proof is None or proof.entry != leaf_of(row):
            return None
        try:
            return meta_of(self.reader.scope, row), row.meta_opening
        except Corrupt:
            return None


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
