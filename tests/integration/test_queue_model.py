"""The scripts against a model in Python that decides with `policies.capacity`: whatever happens, in whatever order."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from policies.capacity import Use, Waiting, admit_fact, admit_note, admit_part
from policies.decisions import Refuse
from policies.limits import RunLimits, ScopeLimits, ShardLimits
from policies.reasons import Reason
from store.queue import Entry, NoteFrame, PartFrame, Queue, RunKey
from tests.support.queue_frames import FAR, fact, gap, open_run, part, state

# Small enough that a few steps reach every bound, from every side.
RUN = RunLimits(
    part_bytes=50, run_parts=5, run_bytes=100, run_waiting_parts=3, run_waiting_bytes=300, run_waiting_notes=3
)
SCOPE = ScopeLimits(waiting_parts=4, waiting_bytes=400, share=0.5)
SHARD = ShardLimits(parts=8, bytes=900, notes=10)

SCOPES = (UUID(int=1), UUID(int=2))
KEYS = tuple(RunKey(scope, run) for scope in SCOPES for run in ("a", "b"))
WORDS = ("run_closed", "content_opt_out", "erased", "temporary_mode")
RANK = {"open": 0, "closing": 1, "run_closed": 2, "erased": 4}

_Answer = TypeVar("_Answer")


async def _awaited(work: Awaitable[_Answer]) -> _Answer:
    return await work


@dataclass
class Held:
    """A part that the run knows: pending, or stored where `sealed` is None."""

    evidence: UUID
    exact: int
    sealed: int | None


@dataclass
class Run:
    state: str = "open"
    temporary: bool = False
    expired: bool = False
    announced: dict[str, int] = field(default_factory=dict)
    identities: dict[str, Held] = field(default_factory=dict)
    notes: int = 0
    stored_bytes: int = 0
    known: bool = True

    def waiting(self) -> Use:
        sizes = [held.sealed for held in self.identities.values() if held.sealed is not None]
        return Use(len(sizes), sum(sizes))

    def captured(self) -> Use:
        pending = sum(held.exact for held in self.identities.values() if held.sealed is not None)
        return Use(len(self.identities), self.stored_bytes + pending)


frames = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(["x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8"]),
    st.sampled_from([1, 25, 50, 51]),
    st.sampled_from([50, 100, 150]),
    st.sampled_from([None, ("s", 1), ("s", 3)]),
)
NOTES: dict[str, Callable[[RunKey], NoteFrame]] = {"state": state, "gap": gap, "fact": fact}
notes = st.tuples(st.sampled_from(KEYS), st.sampled_from(sorted(NOTES)))


class Machine(RuleBasedStateMachine):
    """Steps are what callers, writers, duties and accidents do."""

    url = ""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.queue = Queue(self.url, shards=1, shard_limits=SHARD)
        self.do(self.command("FLUSHDB"))
        self.runs = {key: Run() for key in KEYS}
        self.stream: dict[str, tuple[RunKey, str | None, Held | None]] = {}
        self.expected: list[tuple[RunKey, str | None, Held | None]] = []
        self.delivered: dict[str, Entry] = {}
        self.settled: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        for key in KEYS:
            self.do(open_run(self.queue, key, run_limits=RUN, scope_limits=SCOPE))

    def do(self, work: Awaitable[_Answer]) -> _Answer:
        return self.loop.run_until_complete(_awaited(work))

    async def command(self, *words: Any) -> Any:
        return await self.queue._links.calls.execute_command(*words)

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.do(self.queue.close())
            self.loop.close()

    # --- callers

    @rule(wanted=st.lists(frames, min_size=3, max_size=8))
    def append_parts(self, wanted: list[Any]) -> None:
        self.append(wanted)

    @rule(wanted=st.lists(st.one_of(frames, notes), min_size=1, max_size=5))
    def append(self, wanted: list[Any]) -> None:
        made = [
            part(w[0], w[1], exact=w[2], sealed=w[3], session=w[4] and w[4][0], sequence=w[4] and w[4][1])
            if len(w) == 5 else NOTES[w[1]](w[0])
            for w in wanted
        ]  # fmt: skip
        answers = self.do(self.queue.append(made))
        # A call serves run by run, and of each run parts before notes.
        order = list(dict.fromkeys(frame.key for frame in made))
        for place in sorted(
            range(len(made)), key=lambda p: (order.index(made[p].key), not isinstance(made[p], PartFrame), p)
        ):
            frame, answer = made[place], answers[place]
            run = self.runs[frame.key]
            if not run.known:
                assert answer.outcome == "absent"
            elif isinstance(frame, PartFrame):
                self.expect_part(run, frame, answer)
            else:
                self.expect_note(run, frame, answer)

    def expect_part(self, run: Run, frame: PartFrame, answer: Any) -> None:
        held = run.identities.get(frame.exchange)
        reason = self.refusal(run, frame, held)
        if reason is None and held is not None:
            assert (answer.outcome, answer.evidence) == ("exists", held.evidence)
            assert answer.pending == (held.sealed is not None)
            return
        if reason is None:
            assert answer.outcome == "queued", answer
            taken = Held(frame.evidence, frame.exact_bytes, len(frame.sealed))
            run.identities[frame.exchange] = taken
            self.expected.append((frame.key, frame.exchange, taken))
            return
        room = self.takes_note(frame.key, "gap")
        assert (answer.outcome, answer.reason) == ("refused", reason)
        assert answer.recorded == room
        self.outcomes[reason.value] += 1
        if room:
            run.notes += 1
            self.expected.append((frame.key, None, None))

    def refusal(self, run: Run, frame: PartFrame, held: Held | None) -> Reason | None:
        if RANK.get(run.state, 3) > 2:
            return Reason(run.state)
        if run.expired:
            return Reason.RETENTION_EXPIRED
        if held is not None:
            return None
        announced = frame.session is not None and (frame.sequence or 0) <= run.announced.get(frame.session, 0)
        if run.state == "run_closed" or (run.state == "closing" and not announced):
            return Reason.RUN_CLOSED
        waiting = Waiting(
            run.waiting(), run.notes, run.captured(), self.waits_of(frame.key.scope), self.waits_of(None)
        )
        decision = admit_part(waiting, frame.exact_bytes, len(frame.sealed), RUN, SCOPE, SHARD)
        return decision.reason if isinstance(decision, Refuse) else None

    def expect_note(self, run: Run, frame: Any, answer: Any) -> None:
        refused = (
            (run.temporary and frame.type != "gap")
            or run.expired
            or (frame.type == "state" and run.state in {"run_closed", "erased"})
            or (frame.type == "fact" and RANK.get(run.state, 3) > 1)
            or not self.takes_note(frame.key, frame.type)
        )
        assert answer.outcome == ("refused" if refused else "queued")
        if not refused:
            run.notes += 1
            self.expected.append((frame.key, None, None))

    def takes_note(self, key: RunKey, kind: str) -> bool:
        waiting = Waiting(
            run_notes=self.runs[key].notes,
            scope_notes=self.notes_of(key.scope),
            shard_notes=self.notes_of(None),
        )
        fits = admit_fact(waiting, RUN, SCOPE, SHARD) if kind == "fact" else admit_note(waiting, RUN, SHARD)
        return not isinstance(fits, Refuse)

    def in_stream(self) -> list[tuple[RunKey, str | None, Held | None]]:
        return [*self.stream.values(), *self.expected]

    def waits_of(self, scope: UUID | None) -> Use:
        sizes = [
            held.sealed or 0
            for key, _, held in self.in_stream()
            if held is not None and scope in {None, key.scope}
        ]
        return Use(len(sizes), sum(sizes))

    def notes_of(self, scope: UUID | None) -> int:
        return sum(held is None and scope in {None, key.scope} for key, _, held in self.in_stream())

    # --- writers

    @rule(consumer=st.sampled_from(["w1", "w2"]), count=st.integers(1, 5))
    def take(self, consumer: str, count: int) -> None:
        entries = self.do(self.queue.take(0, consumer, count, 0))
        assert len(entries) == min(count, len(self.expected))
        for entry in entries:
            self.stream[entry.id] = self.expected.pop(0)
            self.delivered[entry.id] = entry

    @rule(consumer=st.sampled_from(["w1", "w2"]), count=st.integers(1, 5))
    def take_over(self, consumer: str, count: int) -> None:
        """Of a writer that died, or that is only slow and will still try to settle."""
        for entry in self.do(self.queue.reclaim(0, consumer, 0, count)):
            assert entry.id in self.stream
            assert entry.deliveries > 1
            self.delivered[entry.id] = entry

    @precondition(lambda self: self.delivered)
    @rule(data=st.data(), stored=st.booleans())
    def settle(self, data: st.DataObject, stored: bool) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.delivered)), min_size=1, max_size=4))
        settlements = [
            self.delivered[name].settle("noted") if self.delivered[name].type != "part"
            else self.delivered[name].settle("stored") if stored
            else self.delivered[name].settle("refused", Reason.SOURCE_REVOKED)
            for name in chosen
        ]  # fmt: skip
        answers = self.do(self.queue.settle(0, settlements))
        for name, answer in zip(chosen, answers, strict=True):
            assert answer == (name in self.stream)
            if answer:
                self.settled[name] += 1
                self.end(*self.stream.pop(name), stored=stored)

    def end(self, key: RunKey, exchange: str | None, held: Held | None, *, stored: bool) -> None:
        run = self.runs[key]
        if held is None or exchange is None:
            run.notes -= 1
            return
        self.outcomes["stored" if stored else "source_revoked"] += 1
        if stored:
            held.sealed = None
            run.stored_bytes += held.exact
        else:
            del run.identities[exchange]

    # --- runs and their accidents

    def may_narrow(self) -> bool:
        """Narrowing is for good: some runs stay open to the end, or nothing would reach a bound."""
        return sum(run.state == "open" and not run.expired for run in self.runs.values()) > 2

    @rule(word=st.sampled_from(WORDS), key=st.sampled_from(KEYS))
    @precondition(lambda self: self.may_narrow())
    def narrow(self, key: RunKey, word: str) -> None:
        run = self.runs[key]
        self.do(self.queue.narrow_run(key, state=word))
        if RANK.get(word, 3) > RANK.get(run.state, 3):
            run.state = word
        run.temporary = run.temporary or word == "temporary_mode"

    @precondition(lambda self: self.may_narrow())
    @rule(key=st.sampled_from(KEYS))
    def expire(self, key: RunKey) -> None:
        self.do(self.queue.narrow_run(key, retain_until=datetime.now(UTC) - timedelta(seconds=1)))
        self.runs[key].expired = True

    @precondition(lambda self: self.may_narrow())
    @rule(key=st.sampled_from(KEYS), last=st.integers(0, 4))
    def close(self, key: RunKey, last: int) -> None:
        run = self.runs[key]
        assert self.do(self.queue.close_run(key, {"s": last}, FAR)) == run.known
        if run.known:
            run.announced["s"] = max(last, run.announced.get("s", 0))
            run.state = "closing" if run.state == "open" else run.state

    @rule(key=st.sampled_from(KEYS))
    def lose_its_hash_and_bring_it_back(self, key: RunKey) -> None:
        run = self.runs[key]
        self.do(self.command("DEL", f"custody:{{q0}}:run:{key.scope.hex}:{key.run}"))
        stored = [
            (name, "a", "logical-request", h.evidence)
            for name, h in run.identities.items()
            if h.sealed is None
        ]
        self.do(
            open_run(
                self.queue, key, state=run.state, temporary=run.temporary, run_limits=RUN, scope_limits=SCOPE,
                retain_until=datetime.now(UTC) - timedelta(seconds=1) if run.expired else FAR,
                captured_parts=len(stored), captured_bytes=run.stored_bytes, stored=stored,
            )
        )  # fmt: skip
        if run.state == "closing":
            self.do(self.queue.close_run(key, run.announced, FAR))
        else:
            run.announced.clear()

    @rule(key=st.sampled_from(KEYS))
    def forget(self, key: RunKey) -> None:
        waits = any(where == key for where, _, _ in self.in_stream())
        assert self.do(self.queue.forget_run(key)) != waits
        if not waits:
            self.lose_its_hash_and_bring_it_back(key)

    @rule(noise=st.integers(0, 9))
    def recount(self, noise: int) -> None:
        """A repair where nothing is wrong changes nothing; where something is, it is put right."""
        if noise > 6:
            key = KEYS[0]
            self.do(self.command("HINCRBY", "custody:{q0}:pending", "parts", noise))
            name = "bytes" if noise > 7 else "notes"
            self.do(self.command("HINCRBY", f"custody:{{q0}}:scope:{key.scope.hex}", name, noise))
        assert (self.do(self.queue.recount(0)) > 0) == (noise > 6)

    # --- what always holds

    async def look(self) -> list[Any]:
        """Read everything at once: the shard's counters, its outcomes and length, its scopes, its runs."""
        pipeline = self.queue._links.calls.pipeline(transaction=True)
        for name in ("pending", "outcomes"):
            pipeline.execute_command("HGETALL", f"custody:{{q0}}:{name}")
        for scope in SCOPES:
            pipeline.execute_command("HGETALL", f"custody:{{q0}}:scope:{scope.hex}")
        for key in KEYS:
            pipeline.execute_command("HGETALL", f"custody:{{q0}}:run:{key.scope.hex}:{key.run}")
        pipeline.execute_command("XLEN", "custody:{q0}:entries")
        *hashes, length = await pipeline.execute()
        return [*({k.decode(): v.decode() for k, v in fields.items()} for fields in hashes), length]

    @invariant()
    def counters_say_what_the_stream_holds(self) -> None:
        if not hasattr(self, "queue"):
            return
        pending, outcomes, *rest, length = self.do(self.look())
        shard = self.waits_of(None)
        assert length == len(self.in_stream())
        assert [int(pending.get(name, 0)) for name in ("parts", "bytes")] == [shard.parts, shard.bytes]
        assert int(pending.get("notes", 0)) == length - shard.parts
        assert shard.parts <= SHARD.parts
        assert shard.bytes <= SHARD.bytes
        assert self.notes_of(None) <= SHARD.notes
        assert max(self.settled.values(), default=1) == 1
        assert {word: int(n) for word, n in outcomes.items()} == dict(self.outcomes)
        for scope, says in zip(SCOPES, rest[: len(SCOPES)], strict=True):
            self.a_scope_says_what_waits_of_it(scope, says)
        for key, says in zip(KEYS, rest[len(SCOPES) :], strict=True):
            self.a_run_says_what_waits_of_it(self.runs[key], says)

    def a_scope_says_what_waits_of_it(self, scope: UUID, says: dict[str, str]) -> None:
        use = self.waits_of(scope)
        assert use.parts <= SCOPE.waiting_parts
        assert use.bytes <= SCOPE.waiting_bytes
        entries = Counter(f"r:{key.run}" for key, _, _ in self.in_stream() if key.scope == scope)
        counts = {"parts": use.parts, "bytes": use.bytes, "notes": self.notes_of(scope)}
        expected = {**counts, **entries} if entries else {}
        assert {name: int(value) for name, value in says.items()} == expected

    def a_run_says_what_waits_of_it(self, run: Run, says: dict[str, str]) -> None:
        counted = [int(says[name]) for name in ("parts", "bytes", "wparts", "wbytes", "wnotes")]
        captured, waiting = run.captured(), run.waiting()
        assert counted == [captured.parts, captured.bytes, waiting.parts, waiting.bytes, run.notes]
        assert {name.split("/")[0][2:] for name in says if name.startswith("i:")} == set(run.identities)
        assert waiting.parts <= RUN.run_waiting_parts
        assert waiting.bytes <= RUN.run_waiting_bytes
        assert run.notes <= RUN.run_waiting_notes
        assert captured.parts <= RUN.run_parts
        assert captured.bytes <= RUN.run_bytes


def test_the_scripts_do_what_the_model_says(redis_url: str) -> None:
    Machine.url = redis_url
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=30, stateful_step_count=25, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )  # fmt: skip
