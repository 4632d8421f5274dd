"""The closings of a bundle's runs: of each the last that is in its tree, since the last counts."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from store import commitments
from store.db import Database
from store.log_tree.facts import facts
from store.logging import logger
from store.services.paging import Reader
from store.services.proofs import Proof, Tree
from store.tables import export_items
from store.tables.export_items import Closing

_TOGETHER: Final = 64


@dataclass(frozen=True, slots=True)
class Closed:
    """A run's closing: its leaf, and the record that opens it; `record` None where no record is left."""

    run_uid: UUID
    proof: Proof
    record: bytes | None
    opening: bytes


async def closings(
    database: Database, reader: Reader, runs: Sequence[UUID], tree: Tree
) -> AsyncGenerator[list[Closed], None]:
    """Yield the closings of runs that have one, some at a time."""
    for at in range(0, len(runs), _TOGETHER):
        some = runs[at : at + _TOGETHER]
        async with database.connection() as connection:
            # What a run that was forgotten was closed with is forgotten too.
            records = await export_items.closings(connection, reader.scope, some)
            found = await export_items.leaves(connection, records, ["close"], tree.size)
            leaves = {leaf.subject: leaf for leaf in found}
            proofs = [await tree.inclusion(connection, leaf.idx, leaf.leaf) for leaf in leaves.values()]
        yield [_closed(run, proof, records[run]) for run, proof in zip(leaves, proofs, strict=True)]


def _closed(run: UUID, proof: Proof, of_run: Sequence[Closing]) -> Closed:
    right = next((each for each in of_run if _opens(each, proof.entry)), None)
    if right is None:
        # What is there is shown as it is, and fails; the bundle must not look as if the run had never been closed.
        logger().error("closing_mismatch", run_uid=run)
        right = next(iter(of_run), None)
    return Closed(run, proof, None, b"") if right is None else Closed(run, proof, right.record, right.opening)


def _opens(closing: Closing, leaf: bytes) -> bool:
    committed = facts(leaf).m
    return committed is not None and commitments.same(
        commitments.close_commitment(closing.opening, closing.record), committed
    )
