"""A store and a model of it, whatever happens in whatever order: captures, holds, erasures, expiry, restores."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.databases import drop
from tests.support.machine.checks import Checks
from tests.support.machine.later import AllSteps
from tests.support.machine.model import Model, Waiting
from tests.support.machine.state import Binding, BucketState, Leaf
from tests.support.machine.store import Base, a_copy, make_base

# Bounds of an example: what is declared again and again keeps everything else from happening.
MOST_RUNS, MOST_VERSIONS = 8, 8
# After so many steps everything is looked at; after each, what is cheap to ask.
FULL_EVERY = 16
SUBJECTS = ("ann", "bob")
SOURCES = ("doc-1", "doc-2")
CONTENTS = (b"", b"yes", b"no", b'{"text": "word"}', b"word " * 40)

Ways = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
# How often each step is chosen. What makes something to look at comes most; what ends it for good is seldom.
HAPPENS = {
    "back up": 4, "go back": 4, "stop and resume": 1, "write and die": 4,
    "store": 10, "declare": 2, "post": 5, "write": 2, "repeat": 4, "shorten": 1, "opt out": 1, "close": 2,
    "hold part": 4, "hold run": 2, "hold scope": 1, "release": 4,
    "erase part": 4, "erase run": 1, "erase subject": 1, "erase waiting": 4,
    "version": 2, "revoke": 2, "open again": 2, "erase source": 1,
    "sequence": 1, "publish": 1, "publish all": 6, "purge": 6, "expire": 3, "pass time": 2, "ripen": 1,
    "reconcile": 3, "forget": 4, "change key": 1, "change hold key": 1,
}  # fmt: skip

picks = st.integers(0, 30)
mores = st.integers(0, 2**16)


def weighted(ways: Mapping[str, int]) -> st.SearchStrategy[str]:
    return st.sampled_from([name for name, weight in ways.items() for _ in range(weight)])


class Machine(RuleBasedStateMachine):
    """What runtimes, operators, duties and accidents do; `back`: an older database is in the place of ours."""

    base: ClassVar[Base]
    servers: ClassVar[tuple[str, str]]
    directory: ClassVar[Path]
    taken: ClassVar[Counter[str]]

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.back, self.broken = False, True
        self.steps = self.runner.run(self._opened())
        # Something to begin with: most of what happens needs runs, and parts that depend on something.
        for scope, days, subject in ((0, 1, None), (0, 2, "ann"), (1, 1, "ann")):
            self.do("declare", self.steps.declare(scope, days, subject))
        for scope in (0, 1):
            self.do("version", self.steps.version(scope, SOURCES[0], withdraw=False))
        for more in range(2):
            self.do("store", self.stored(more))

    async def _opened(self) -> AllSteps:
        directory = Path(tempfile.mkdtemp(dir=self.directory)) / "store"
        store = await a_copy(self.base, *self.servers, directory)
        model = Model()
        for row in await store.owner.fetch("SELECT * FROM buckets WHERE span_start IS NOT NULL"):
            place = store.scopes.index(row["scope_id"]), row["span_start"]
            model.now.buckets[place] = BucketState(row["bucket_id"], model.new_key())
        model.now.hold_keys = [model.new_key() for _ in store.scopes]
        model.now.entries.append(Leaf(0, "key", ()))
        model.mirror = list(model.now.entries)
        return AllSteps(store, model, Checks(store, model))

    def do(self, name: str, *work: Coroutine[Any, Any, None]) -> None:
        """Take a step, and look at what came of it."""
        self.broken = True
        for each in work:
            self.runner.run(each)
        self.taken[name] += 1
        if self.taken.total() % FULL_EVERY or self.back:
            self.runner.run(self.steps.checks.quick(0 if self.back else 4))
        else:
            self.runner.run(self.steps.checks.all())
        self.broken = False

    def teardown(self) -> None:
        if not hasattr(self, "steps"):
            return
        try:
            if self.back and not self.broken:
                self.come_back()
            if not self.broken:
                self.runner.run(self.steps.checks.all())
        finally:
            self.runner.run(self.steps.store.drop(name for name, _ in self.steps.backups))
            self.runner.close()

    def run(self, pick: int) -> str:
        return sorted(self.steps.model.now.runs)[pick % len(self.steps.model.now.runs)]

    def part(self, pick: int) -> UUID:
        parts = sorted(self.steps.model.now.parts)
        return parts[pick % len(parts)]

    def possible(self, how: str) -> bool:
        now, steps = self.steps.model.now, self.steps
        bounds = {
            "declare": len(now.runs) < MOST_RUNS,
            "version": sum(source.latest for source in now.sources.values()) < MOST_VERSIONS,
            "write": bool(steps.model.waiting or steps.model.unsettled),
            "write and die": True,
            "store": True,
            "release": bool(now.holds),
            "erase waiting": bool(self.waiting),
            "reconcile": steps.may_reconcile,
            "forget": steps.may_forget,
            "stop and resume": self.taken["stop and resume"] * 50 < self.taken.total(),
            "back up": steps.may_back_up,
            "go back": bool(steps.backups),
        }
        return bounds.get(how, bool(now.parts))

    @property
    def waiting(self) -> list[Waiting]:
        runs = self.steps.model.now.runs
        return [each for each in self.steps.model.waiting if each.evidence and each.run in runs]

    # --- what happens

    @precondition(lambda self: not self.back)
    @rule(how=weighted(HAPPENS), pick=picks, more=mores)
    def happens(self, how: str, pick: int, more: int) -> None:
        if not self.possible(how):
            return
        ways: Ways = {
            "store": lambda: self.stored(more),
            **self.of_runtimes(pick, flag=bool(more % 2)),
            **self.of_holds(pick),
            **self.of_erasures(pick),
            **self.of_sources(pick, None if more % 4 == 0 else more),
            **self.of_duties(pick),
            **self.of_accidents(pick, more),
        }
        self.back = how == "go back"
        self.do(how, ways[how]())

    @precondition(lambda self: self.back)
    @rule(captures=st.booleans(), more=mores)
    def back_there(self, captures: bool, more: int) -> None:
        """Captures go on meanwhile."""
        if captures:
            self.do("store meanwhile", self.stored(more))
        else:
            self.come_back()

    def come_back(self) -> None:
        self.back = False
        self.do("come back", self.steps.come_back())

    async def stored(self, more: int, *, dies: bool = False) -> None:
        """Store a few parts, of which some depend on something; `dies`: by a writer who does not come to say so."""
        chance = Random(more)
        for _ in range(chance.randint(1, 4)):
            names = chance.choices(SOURCES, k=chance.choice((0, 0, 1, 2)))
            bound = {name: Binding(name, chance.choice((None, 1, 2, 3))) for name in names}
            await self.steps.post(
                self.run(chance.randrange(64)), chance.choice(CONTENTS), tuple(bound.values())
            )
        await (self.steps.write_and_die() if dies else self.steps.write())

    def of_runtimes(self, pick: int, *, flag: bool) -> Ways:
        steps = self.steps
        return {
            "declare": lambda: steps.declare(pick % 2, pick % 4 + 1, (None, *SUBJECTS)[pick % 3]),
            "post": lambda: steps.post(self.run(pick), CONTENTS[pick % len(CONTENTS)], ()),
            "write": steps.write,
            "repeat": lambda: steps.repeat(self.part(pick), same=flag),
            "shorten": lambda: steps.shorten(self.run(pick)),
            "opt out": lambda: steps.opt_out(self.run(pick), erase=flag),
            "close": lambda: steps.close(self.run(pick)),
        }

    def of_holds(self, pick: int) -> Ways:
        steps, holds = self.steps, sorted(self.steps.model.now.holds)
        part = steps.model.now.parts[self.part(pick)] if steps.model.now.parts else None
        run = self.run(pick) if part is None else part.run
        scope = steps.model.now.runs[run].scope
        return {
            "hold part": lambda: steps.hold(scope, "part", self.part(pick)),
            "hold run": lambda: steps.hold(scope, "run", run),
            "hold scope": lambda: steps.hold(scope, "scope", None),
            "release": lambda: steps.release(holds[pick % len(holds)]),
        }

    def of_erasures(self, pick: int) -> Ways:
        steps, run = self.steps, self.run(pick)
        scope = steps.model.now.runs[run].scope
        return {
            "erase part": lambda: steps.erase_part(self.part(pick)),
            "erase run": lambda: steps.erase_run(run),
            "erase subject": lambda: steps.erase_subject(scope, SUBJECTS[pick % 2]),
            "erase waiting": lambda: steps.erase_waiting(self.waiting[pick % len(self.waiting)]),
        }

    def of_sources(self, pick: int, version: int | None) -> Ways:
        steps, known = self.steps, sorted(self.steps.model.now.sources)
        scope, name = known[pick % len(known)]
        at = None if version is None else version % steps.model.now.sources[scope, name].latest + 1
        return {
            "version": lambda: steps.version(pick % 2, SOURCES[pick // 2 % 2], withdraw=version is None),
            "revoke": lambda: steps.revoke(scope, name, at),
            "open again": lambda: steps.open_again(scope, name, at),
            "erase source": lambda: steps.erase_source(scope, name),
        }

    def of_duties(self, pick: int) -> Ways:
        steps = self.steps
        place = sorted(steps.model.now.buckets)[pick % len(steps.model.now.buckets)]
        return {
            "sequence": steps.sequence,
            "publish": steps.publish,
            "publish all": steps.publish_all,
            "purge": steps.purge,
            "expire": steps.expire,
            "pass time": steps.pass_time,
            "ripen": steps.ripen,
            "reconcile": steps.reconcile,
            "forget": steps.forget,
            "change key": lambda: steps.change_key(place),
            "change hold key": lambda: steps.change_hold_key(pick % 2),
        }

    def of_accidents(self, pick: int, more: int) -> Ways:
        return {
            "back up": self.steps.back_up,
            "go back": lambda: self.steps.go_back(pick),
            "stop and resume": self.steps.stop_and_resume,
            "write and die": lambda: self.stored(more, dies=True),
        }


@pytest.fixture
def machine(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path: Path
) -> Iterator[type[Machine]]:
    """A machine whose examples begin with copies of one store."""
    (tmp_path / "base").mkdir()
    name, scopes = asyncio.run(make_base(postgres_url, template_database, valkey_url, tmp_path / "base"))
    Machine.base = Base(name, tmp_path / "base", scopes)
    Machine.servers, Machine.directory, Machine.taken = (postgres_url, valkey_url), tmp_path, Counter()
    yield Machine
    asyncio.run(drop(postgres_url, name))


def ran(machine: type[Machine], **more: Any) -> int:
    """Run it, and return how many steps were taken."""
    usual = settings(
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        # Making a failing example smaller takes longer than a test may; its blob is printed, to be tried again.
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=settings(usual, **more))
    print(f"{machine.taken.total()} steps:", dict(machine.taken.most_common()))  # noqa: T201 - for whoever runs it with -s
    return machine.taken.total()


def test_a_store_is_what_its_model_says(machine):
    assert ran(machine, max_examples=4, stateful_step_count=40, derandomize=True) > 50


@pytest.mark.long
@pytest.mark.timeout(600)
def test_over_thousands_of_steps_a_store_is_what_its_model_says(machine):
    assert ran(machine, max_examples=25, stateful_step_count=100) > 2000
