"""What happens to a store, done to it and to its model; each step says whether both answered the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from policies.kinds import Content
from policies.revocation import Binding as Bound
from store.errors import NotFound
from store.services import erasures
from store.services.holds import On, OnPart, OnRun, OnScope
from store.services.log_admin import LogAdmin
from store.tables import publishing
from tests.support.machine.checks import Checks
from tests.support.machine.model import Model, Waiting
from tests.support.machine.state import Binding, ErasureState, RunState, State
from tests.support.machine.store import Store, span_of

BY = "operator-1"
DAY_S = 86_400


@dataclass
class Steps:
    """`backups` are the databases that were copied, each with what it should hold."""

    store: Store
    model: Model
    checks: Checks
    backups: list[tuple[str, State]] = field(default_factory=list)

    # --- runs

    async def declare(self, scope: int, days: int, subject: str | None) -> None:
        now: datetime = await self.store.owner.fetchval("SELECT now()")
        if span_of(now + timedelta(days=days)) in self.model.over:
            return
        name, born = f"run-{next(self.model.numbers)}", next(self.model.numbers)
        found = await self.store.declare(scope, name, retention_s=days * DAY_S, subject=subject)
        assert (found.reason, found.new) == (None, True)
        span = self.store.runs[name].span
        self.model.now.runs[name] = RunState(scope, found.row.run_uid, born, span, days, subject)

    async def shorten(self, name: str) -> None:
        """Let a run's retention end some spans earlier; what it stored before lies in the later one."""
        run = self.model.now.runs[name]
        span = run.span - timedelta(seconds=DAY_S)
        if run.days < 2 or span in self.model.over or run.span in self.model.over:
            return
        await self._again(name, days=run.days - 1)
        run.days, run.span, run.shortened = run.days - 1, span, True

    async def opt_out(self, name: str, *, erase: bool) -> None:
        run = self.model.now.runs[name]
        if not erase:
            await self._again(name, content=Content.OPT_OUT)
            run.opted_out = True
            self._told(name, "content_opt_out")
            return
        await self._again(name, erase=True)
        if not run.erased:
            self._erasure(run.scope, "run", name)
        run.erased = True
        self._told(name, "erased")

    async def _again(self, name: str, *, days: int | None = None, **said: object) -> None:
        run = self.model.now.runs[name]
        known = self.store.runs[name]
        await self.store.declare(run.scope, name, retention_s=(days or run.days) * DAY_S, **said)
        self.store.runs[name] = known

    async def close(self, name: str) -> None:
        run = self.model.now.runs[name]
        caller = self.store.caller(run.scope)
        assert caller.scope_id is not None
        await self.store.services.closing.close(caller.key_id, caller.scope_id, name, {})
        run.open = False
        self._told(name, "run_closed")

    @property
    def may_reconcile(self) -> bool:
        """Whether there is a run to be closed, and nothing waits, which would have to be there first."""
        closing = any(not run.open and not run.closed for run in self.model.now.runs.values())
        return closing and not self.model.waiting and not self.model.unsettled

    async def reconcile(self) -> None:
        await self.store.reconcile()
        for run in self.model.now.runs.values():
            if not run.open and not run.closed:
                run.closed = True
                self.model.leaf("close", run.uid.hex)

    # --- parts

    async def post(self, name: str, content: bytes, bindings: Sequence[Binding]) -> None:
        exchange = f"x-{next(self.model.numbers)}"
        bound = [Bound(*each) for each in bindings]
        receipt = await self.store.capture(name, exchange, content, bound)
        if receipt.reason is None:
            assert receipt.capture == "queued"
            assert self.model.went_back or not self.model.closed_to(name)
            evidence = self.store.evidence_of(receipt, self.model.now.runs[name].scope)
            self.model.waiting.append(Waiting(name, exchange, evidence, content, tuple(bindings)))
            return
        assert receipt.reason in self.model.closed_to(name) | self._ever(name)
        self._refused(name, exchange, receipt.reason, recorded=receipt.recorded)

    async def repeat(self, evidence: UUID, *, same: bool) -> None:
        """Post under the identity of a part that is there, or was."""
        if any(each.evidence == evidence for each in self.model.unsettled):
            return
        part = self.model.now.parts[evidence]
        content = part.content if same else part.content + b"!"
        closed, differs = self.model.closed_to(part.run, again=True), self.model.compared(part, content)
        expected = closed or ({differs} if differs else set())
        receipt = await self.store.capture(part.run, part.exchange, content)
        if receipt.reason is None:
            assert not expected, (part, expected)
            assert (receipt.capture, receipt.evidence) == ("stored", evidence)
            return
        assert receipt.reason in expected | self._ever(part.run), (part, expected)
        self._refused(part.run, part.exchange, receipt.reason, recorded=receipt.recorded)

    async def write(self) -> None:
        if self._may_write():
            await self.store.write()
            self.model.write()

    async def write_and_die(self) -> None:
        if self._may_write():
            await self.store.write_and_die()
            self.model.write_and_die()

    def _may_write(self) -> bool:
        """Whether no writer would wait for a bucket to get another key."""
        entries = (*self.model.waiting, *self.model.unsettled)
        return {self._key_of(entry) for entry in entries} - {None} <= self.model.alive

    def _key_of(self, entry: Waiting) -> int | None:
        run = self.model.now.runs.get(entry.run)
        return (
            None if run is None or entry.evidence is None else self.model.now.buckets[run.scope, run.span].key
        )

    def _refused(self, run: str, exchange: str, reason: str, *, recorded: bool) -> None:
        if recorded:
            self.model.waiting.append(Waiting(run, exchange, reason=str(reason)))

    def _told(self, run: str, reason: str) -> None:
        self.model.told_queue.setdefault(run, set()).add(reason)

    def _ever(self, run: str) -> set[str]:
        """What the queue was told of a run in a time that the database has forgotten."""
        return self.model.told_queue.get(run, set()) if self.model.went_back else set()

    # --- the log

    async def sequence(self) -> None:
        found = await self.store.sequence()
        assert found == {"sequenced": len(self.model.now.queued), "waiting": 0, "stands_still": 0}, found
        self.model.now.entries += self.model.now.queued
        self.model.now.queued = []

    async def publish(self) -> None:
        assert (await self.store.publish()).stop is None
        self.model.mirror = list(self.model.now.entries)

    async def publish_all(self) -> None:
        await self.sequence()
        await self.publish()

    async def stop_and_resume(self) -> None:
        """A publisher that found the log rolled back; then it was all there again."""
        async with self.store.duties.connection() as connection:
            await publishing.stop(connection, "rolled_back")
        await self._stands_still("rolled_back")
        admin = LogAdmin(self.store.duties, self.store.mirror)
        assert await admin.resume(BY) == len(self.model.now.entries)
        self.model.leaf("resume", len(self.model.now.entries))

    async def _stands_still(self, stop: str | None) -> None:
        """Nobody reads, nothing grows, nothing is destroyed."""
        still = int(bool(self.model.now.queued))
        assert await self.store.sequence() == {"sequenced": 0, "waiting": 0, "stands_still": still}
        for duty in ("purge", "expiry", "metadata"):
            assert await self.store.standing(duty) == {"stands_still": 1}
        await self.checks.closed()
        assert (await self.store.publish()).stop == stop

    # --- holds

    async def hold(self, scope: int, reach: str, target: UUID | str | None) -> None:
        on: On = OnScope()
        if isinstance(target, UUID):
            on = OnPart(target)
        elif target is not None:
            on = OnRun(target)
        row = await self.store.services.holds.place(self.store.scopes[scope], on, "matter 7", BY)
        assert row.answer == self.model.finds(reach, target)
        self.model.placed(row.hold_id, scope, reach, target)

    async def release(self, hold: UUID) -> None:
        found = self.model.now.holds[hold]
        await self.store.services.holds.release(self.store.scopes[found.scope], hold, BY)
        if not found.released:
            self.model.leaf("hold", hold.hex, "release")
        found.released = True

    # --- erasures

    async def _ask(self, scope: int, asked: erasures.Asked) -> str:
        row = await self.store.services.erasures.ask(self.store.scopes[scope], asked, BY)
        return row.state

    def _erasure(self, scope: int, kind: str, target: UUID | str) -> ErasureState:
        made = ErasureState(scope, kind, target, next(self.model.numbers))
        self.model.now.erasures.append(made)
        return made

    async def erase_part(self, evidence: UUID) -> None:
        part = self.model.now.parts[evidence]
        scope = self.model.now.runs[part.run].scope
        await self._ask(scope, erasures.StoredPart(evidence))
        self._erasure(scope, "part", evidence)
        if not self.model.held(part):
            self.model.purged(part, "erased")
        elif part.reason is None:
            part.reason = "erased"

    async def erase_waiting(self, entry: Waiting) -> None:
        """Erase what may still wait, by its name."""
        assert entry.evidence is not None
        scope = self.model.now.runs[entry.run].scope
        named = erasures.Named(entry.run, entry.exchange, "a-1", "logical-request")
        try:
            await self._ask(scope, named)
        except NotFound:
            assert self.model.went_back
            return
        self._erasure(scope, "part", entry.evidence)
        self.model.now.marks.setdefault(entry.evidence, "erased")
        self.model.now.marks.setdefault((entry.run, entry.exchange), "erased")

    async def erase_run(self, name: str) -> None:
        run = self.model.now.runs[name]
        await self._ask(run.scope, erasures.WholeRun(name))
        self._erasure(run.scope, "run", name)
        run.erased = True
        self._told(name, "erased")

    async def erase_subject(self, scope: int, subject: str) -> None:
        runs = self.model.now.runs
        known = [name for name, run in runs.items() if (run.scope, run.subject) == (scope, subject)]
        try:
            await self._ask(scope, erasures.WholeSubject(subject))
        except NotFound:
            assert not known
            return
        assert known
        self.model.erase_subject_s_runs(self._erasure(scope, "subject", subject))
        for name in known:
            self._told(name, "erased")

    async def erase_source(self, scope: int, name: str) -> None:
        source = self.model.now.sources[scope, name]
        await self._ask(scope, erasures.WholeSource(name))
        self._erasure(scope, "source", name)
        if not source.revoked:
            self.model.leaf("revoke", source.uid.hex, "revoke", None)
        source.revoked = source.erased = True
