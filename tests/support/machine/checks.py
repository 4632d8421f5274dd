"""Whether a store is what its model says: after each step what is cheap to ask, after an example everything."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from store.commitments import unwrap_secret
from store.errors import Corrupt, CustodyError
from store.log_tree.notes import verify_checkpoint
from store.log_tree.proofs import verify_consistency
from store.services import accounting
from store.services.key_check import KeyCheck
from store.services.proofs import tree_of
from store.services.verify import verify
from tests.support import naive_tree
from tests.support.exporting import LOG, ORIGIN
from tests.support.machine.model import Model
from tests.support.machine.state import Leaf, PartState
from tests.support.machine.store import Store

PURPOSE = "matter 7"
_BODIES = "SELECT evidence, bucket_id, wrapped FROM bodies"
_PARTS = "SELECT evidence, state, purge_reason FROM parts"
_HOLDING = "SELECT bucket_id FROM buckets WHERE span_start IS NULL"
# How the states of rows are called in the model.
_STATES = {"stored": "stored", "purging": "gone", "purged": "gone", "lost_in_restore": "lost"}


@dataclass
class Checks:
    """What was seen of an example before is remembered: it may not become otherwise."""

    store: Store
    model: Model
    # Every wrapped secret that ever lay in the database, with the bucket whose key wraps it; and which of those buckets
    # were of what is held beyond its span. Of what came after a backup that was gone back to, nobody knows any more.
    wraps: dict[UUID, set[tuple[UUID, bytes]]] = field(default_factory=dict)
    holding: set[UUID] = field(default_factory=set)
    # The size and root of each checkpoint that was published.
    published: list[tuple[int, bytes]] = field(default_factory=list)
    turn: int = 0

    # --- after each step

    async def quick(self, reads: int = 4) -> None:
        """Rows, bodies and log are the model's; some parts, each time others, read as they should."""
        await self._rows()
        await self._log()
        parts = sorted(self.model.now.parts.values(), key=lambda part: part.evidence)
        chosen = [parts[(self.turn + at) % len(parts)] for at in range(min(reads, len(parts)))]
        self.turn += len(chosen)
        await self.reads(chosen, custodian=bool(self.turn & 4))

    async def _rows(self) -> None:
        rows = await self.store.owner.fetch(_PARTS)
        found = {row["evidence"]: (_STATES[row["state"]], row["purge_reason"]) for row in rows}
        parts = self.model.now.parts
        expected = {evidence: (part.state, part.reason) for evidence, part in parts.items()}
        wrong = {each for each in found.keys() | parts.keys() if found.get(each) != expected.get(each)}
        assert not wrong, [(found.get(each), parts.get(each)) for each in wrong]
        told = {row["evidence"] for row in rows if row["state"] == "purged"}
        bodies = await self.store.owner.fetch(_BODIES)
        there = {row["evidence"] for row in bodies}
        wrong = there ^ {evidence for evidence, part in parts.items() if part.body}
        assert not wrong, [(each in there, parts.get(each)) for each in wrong]
        assert not told & there
        self.model.told_purged |= told
        for row in bodies:
            self.wraps.setdefault(row["evidence"], set()).add((row["bucket_id"], row["wrapped"]))
        self.holding |= {row["bucket_id"] for row in await self.store.owner.fetch(_HOLDING)}

    async def _log(self) -> None:
        """Each leaf has one place, without a hole, and the root is that of a tree that was written apart."""
        rows = await self.store.owner.fetch("SELECT idx, leaf FROM log_entries ORDER BY idx")
        assert [row["idx"] for row in rows] == list(range(len(rows)))
        leaves = [row["leaf"] for row in rows]
        queued = [row["leaf"] for row in await self.store.owner.fetch("SELECT leaf FROM log_queue")]
        for found, expected in ((leaves, self.model.now.entries), (queued, self.model.now.queued)):
            said, about = Counter(map(_said, found)), _about(expected)
            assert said == about, (said - about, about - said)
        hashes = list(map(naive_tree.leaf, leaves))
        state = await self.store.owner.fetchrow("SELECT size, root, published_size FROM log_state")
        assert (state["size"], state["root"]) == (len(leaves), naive_tree.root(hashes))
        self._checkpoints(hashes)

    def _checkpoints(self, hashes: Sequence[bytes]) -> None:
        """What was published is the beginning of what is there, as far as that goes."""
        note = self.store.mirror.checkpoint()
        assert note is not None
        last = verify_checkpoint(note, LOG.key)
        if (last.size, last.root) not in self.published:
            assert all(size < last.size for size, _ in self.published)
            self.published.append((last.size, last.root))
            self._consistent(hashes)
        assert last.size == len(self.model.mirror)

    def _consistent(self, hashes: Sequence[bytes]) -> None:
        assert len(hashes) >= self.published[-1][0]
        assert all(naive_tree.root(hashes[:size]) == root for size, root in self.published)

    async def closed(self) -> None:
        """Nothing is read while the log contradicts what was published, or nobody has looked."""
        reads = self.store.reads()
        for part in list(self.model.now.parts.values())[:2]:
            answer = await self._read(reads, part.evidence, self._scope(part), custodian=True)
            assert answer == "reads_closed"

    # --- reading

    async def reads(self, parts: Iterable[PartState], *, custodian: bool) -> None:
        """Each gives its bytes, or is refused for exactly the reason that the model has."""
        wanted = list(parts)
        reads = self.store.reads()
        found = await asyncio.gather(
            *(self._read(reads, part.evidence, self._scope(part), custodian=custodian) for part in wanted)
        )
        for part, answer in zip(wanted, found, strict=True):
            expected = self.model.answer(part, custodian=custodian)
            assert answer == (part.content if expected is None else expected), part
            assert expected is not None or part.evidence not in self.model.told_purged

    async def _lost(self) -> None:
        reads = self.store.reads()
        for evidence, (place, _) in self.model.now.lost.items():
            if evidence not in self.model.now.parts:
                answer = await self._read(reads, evidence, place[0], custodian=False)
                assert answer == self.model.answer_lost(evidence)

    async def _not_there(self) -> None:
        """Nothing of one scope is there for a reader of the other, and of what was forgotten nothing for anybody."""
        reads = self.store.reads()
        for evidence, scope in self.model.now.forgotten.items():
            assert await self._read(reads, evidence, scope, custodian=True) == "not_found"
        for part in list(self.model.now.parts.values())[:4]:
            other = 1 - self._scope(part)
            assert await self._read(reads, part.evidence, other, custodian=True) == "not_found"

    async def _read(self, reads: Any, evidence: UUID, scope: int, *, custodian: bool) -> bytes | str:
        try:
            view = await reads.read(self.store.reader(scope, custodian=custodian), evidence, PURPOSE)
        except CustodyError as refusal:
            return refusal.reason.value
        assert isinstance(view.content, bytes)
        return view.content

    def _scope(self, part: PartState) -> int:
        return self.model.now.runs[part.run].scope

    # --- after an example

    async def all(self) -> None:
        await self.quick(reads=0)
        for custodian in (False, True):
            await self.reads(self.model.now.parts.values(), custodian=custodian)
        await self._lost()
        await self._not_there()
        await self._counts()
        await self._proofs()
        self._nothing_opens()
        await self._verified()

    async def _counts(self) -> None:
        for name, run in self.model.now.runs.items():
            async with self.store.duties.connection() as connection:
                record = await accounting.account(connection, self.store.scopes[run.scope], run.uid, name)
            told = json.loads(record)["counts"]
            assert (told["stored"], told["not_captured"]) == self.model.counts(name), name

    async def _proofs(self) -> None:
        """The last checkpoint extends every one before, by proofs that the service gives."""
        async with self.store.duties.connection() as connection:
            tree = await tree_of(connection)
            for size, root in self.published:
                proof = await tree.consistency(connection, size)
                assert verify_consistency(size, tree.size, root, tree.checkpoint.root, proof)

    def _nothing_opens(self) -> None:
        """With all keys that are left no copy of what has expired opens, nor one that was moved of what was purged."""
        moved = {
            evidence: {wrap for wrap in self.wraps.get(evidence, ()) if wrap[0] in self.holding}
            for evidence in self.model.told_purged
        }
        expired = {evidence: self.wraps.get(evidence, set()) for evidence in self.model.told_expired}
        for copies in (moved, expired):
            for evidence, wraps in copies.items():
                open_still = {bucket for bucket, wrapped in wraps if self._opens(evidence, bucket, wrapped)}
                assert not open_still, (evidence, self.model.now.parts.get(evidence), open_still)

    def _opens(self, evidence: UUID, bucket: UUID, wrapped: bytes) -> bool:
        scope = self.store.scopes[self.model.places[evidence][0]]
        try:
            unwrap_secret(self.store.keyring.bucket_key(scope, bucket), wrapped, scope, bucket, evidence)
        except Corrupt:
            return False
        return True

    async def _verified(self) -> None:
        """What `verify` and the daily look at keys find is what the model knows to be lost, and nothing else."""
        services = self.store.services
        report = await verify(services.database, services.keyring, services.queue, self.store.mirror)
        lost = {
            ("secret_unreadable" if part.garbled else "key_lost", str(part.evidence))
            for part in self.model.now.parts.values()
            if part.state == "stored"
            and (part.moved or self.model.bucket(part).state == "live")
            and not self.model.opens(part)
        }
        assert {(fault.kind, fault.id) for fault in report.faults} == lost
        keys = await KeyCheck(self.store.duties, services.keyring, services.queue, ORIGIN).look()
        # A sample of what a key wraps may be one of those.
        assert {fault.what for fault in keys.faults} <= ({"does_not_open"} if lost else set())


def _said(leaf: bytes) -> tuple[object, ...]:
    """What a leaf says, as the model has it."""
    told = json.loads(leaf)
    names = {
        "part": ("p",),
        "close": ("r",),
        "hold": ("h", "op"),
        "revoke": ("si", "op", "sv"),
        "purge": ("p", "w"),
        "expire": ("b",),
        "restore": ("from", "to"),
        "resume": ("size",),
        "key": (),
    }
    return told["k"], *(told[name] for name in names[told["k"]])


def _about(leaves: Iterable[Leaf]) -> Counter[tuple[object, ...]]:
    return Counter((leaf.kind, *leaf.about) for leaf in leaves)
