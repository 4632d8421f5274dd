"""One bundle being made: everything in its order, into a bag of which only the last pieces are held.

Between two steps others get their turn. Whatever goes wrong leaves an archive without an end.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from store.commitments import canonical_json
from store.db import Database
from store.log_tree.notes import Signer
from store.services.export import files, records
from store.services.export.bag import Bag
from store.services.export.closings import closings
from store.services.export.parts import Given, Missing, PartReads
from store.services.export.turns import in_turn
from store.services.paging import Reader
from store.services.proofs import Tree
from store.tables.exports import ExportRow


@dataclass(slots=True)
class Making:
    """Makes the bundle of one export for its requester."""

    database: Database
    reads: PartReads
    reader: Reader
    export: ExportRow
    tree: Tree
    signer: Signer
    policy: str
    given: int = 0
    missing: list[bytes] = field(default_factory=list)
    closed: int = 0

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the archive; if it cannot be made to its end, it has none."""
        bag = Bag(self.export.export_id, self.export.requested_at.date())
        try:
            async with aclosing(self._filled(bag)) as filled:
                async for _ in filled:
                    if piece := bag.take():
                        yield piece
            await asyncio.to_thread(bag.seal, self.signer)
            yield bag.take()
        except BaseException:
            bag.abandon()
            raise

    async def _filled(self, bag: Bag) -> AsyncGenerator[None, None]:
        async for group in self.reads.read(self.reader, self.export.evidence, self.export.purpose, self.tree):
            for part in group:
                await self._add_part(bag, part)
            yield
        async for some in closings(self.database, self.reader, self.export.runs, self.tree):
            self.closed += len(some)
            for closed in some:
                await in_turn(0, partial(bag.add, files.closing_files(closed)))
            yield
        for facts in await self._facts():
            await in_turn(0, partial(bag.add, facts))
        yield
        for name, lines in (
            ("accesses.jsonl", records.accesses(self.database, self.reader, self.export.evidence)),
            ("actions.jsonl", records.actions(self.database, self.reader)),
        ):
            async with aclosing(_written(bag, name, lines)) as written:
                async for _ in written:
                    yield

    async def _add_part(self, bag: Bag, part: Given | Missing) -> None:
        if isinstance(part, Given):
            self.given += 1
            await in_turn(len(part.opened.content), partial(bag.add, files.part_files(part)))
        else:
            self.missing.append(canonical_json(files.missing_entry(part)))
            await in_turn(0, partial(bag.add, files.missing_files(part)))

    async def _facts(self) -> list[files.Files]:
        """Return what the bundle says of itself, and what all its proofs are under."""
        facts = {
            "closings": self.closed,
            "export": self.export.export_id.hex,
            "origin": self.tree.checkpoint.origin,
            "parts": self.given,
            "requested_at": int(self.export.requested_at.timestamp()),
            "scope": self.reader.scope.hex,
            "tree_size": self.tree.size,
            "unavailable": len(self.missing),
            "v": 1,
        }
        found: list[files.Files] = [
            {
                "bundle.json": canonical_json(facts),
                "checkpoint": self.tree.note,
                "policy.txt": self.policy.encode(),
                "unavailable.json": b"[" + b",".join(self.missing) + b"]",
            }
        ]
        for anchor in self.export.anchors:
            async with self.database.connection() as connection:
                found.append(files.consistency_file(anchor, await self.tree.consistency(connection, anchor)))
        return found


async def _written(
    bag: Bag, name: str, lines: AsyncGenerator[list[bytes], None]
) -> AsyncGenerator[None, None]:
    """Write a file of lines as they come."""
    file = bag.lines(name)
    try:
        async for some in lines:
            file.write(some)
            yield
    finally:
        file.close()
