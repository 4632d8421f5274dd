"""How one part stands in the proof log: everything about it that can be checked without opening its content."""

from uuid import UUID

from store.commitments import same
from store.db import Connection
from store.errors import Corrupt
from store.services.content import leaf_of, meta_of
from store.services.part_views import ProofState
from store.services.proofs import Tree, covers
from store.tables import contents, log_reads


async def state_of(connection: Connection, scope: UUID, evidence: UUID) -> ProofState:
    """Return the proof state of a part, as ProofState means it; `not_checked` where it has gone meanwhile."""
    row = await contents.committed(connection, (scope, evidence))
    if row is None:
        return "not_checked"
    published = await log_reads.published(connection)
    if row.leaf is None or not covers(published, row.leaf.index):
        return "pending"
    try:
        meta_of(scope, row)
        await Tree(published).inclusion(connection, row.leaf.index, row.leaf.entry)
    except Corrupt:
        return "failed"
    return "verified" if same(row.leaf.entry, leaf_of(row)) else "failed"
