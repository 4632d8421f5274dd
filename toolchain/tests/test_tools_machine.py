"""Anything may fail anywhere, in any order: what the host promises holds all the same."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from custody_toolchain.facts import StageFact, Status, encode
from custody_toolchain.tools import Block, Normalise, Project, Refuse, ToolFailed, Withhold
from toolchain.tests.owned import TURN, Runtime, action


class Gone(BaseException):
    """Something that no `except Exception` sees."""


FAILURES = st.sampled_from([ValueError(), ToolFailed("broken"), TimeoutError(), KeyboardInterrupt(), Gone()])
PLACES = st.sampled_from(
    ["load", "admit", "authorise", "reserve", "save", "execute", "settle", "release", "is_open"]
)
BEFORE = st.sampled_from(["none", "block", "normalise", "undeclared", "odd", "raise", "interrupt"])
AFTER = st.sampled_from(["none", "less", "alter", "withhold", "odd", "raise", "interrupt"])
NAMES = st.sampled_from(["a1", "a2", "a3"])


def wish(kind, seen):
    """Return what a hook of this kind gives."""
    if kind == "raise":
        raise ValueError
    if kind == "interrupt":
        raise Gone
    return {
        "none": None,
        "block": Block("blocked"),
        "normalise": Normalise("same"),
        "undeclared": Normalise("other"),
        "odd": 7,
        "less": Project({}),
        "alter": Project({"rows": 0}),
        "withhold": Withhold(),
    }[kind]


class Host(RuleBasedStateMachine):
    """Runs three actions again and again, while gates, stores, tools and hooks fail as they like."""

    @initialize(later=st.booleans())
    def begin(self, later):
        self.runtime = Runtime(later=later)
        self.before = self.after = "none"
        self.failure_hook_fails = False
        self.answers = {}

        def told(_):
            if self.failure_hook_fails:
                raise ValueError

        self.host = self.runtime.host(
            self.runtime.tool(rules={"same": dict}),
            before=[lambda seen: wish(self.before, seen)],
            after=[lambda seen: wish(self.after, seen)],
            on_failure=[told],
        )

    @rule(where=PLACES, how=FAILURES, saves_and_raises=st.booleans())
    def break_something(self, where, how, saves_and_raises):
        self.runtime.fail[where] = how
        self.runtime.saves_and_raises = saves_and_raises

    @rule()
    def mend_everything(self):
        self.runtime.fail.clear()
        self.runtime.answers.clear()
        self.before = self.after = "none"

    @rule(gate=st.sampled_from(["admit", "authorise", "reserve"]), retryable=st.booleans())
    def refuse(self, gate, retryable):
        self.runtime.answers[gate] = Refuse("refused", retryable=retryable)

    @rule(before=BEFORE, after=AFTER, failure_hook_fails=st.booleans())
    def hook(self, before, after, failure_hook_fails):
        self.before, self.after, self.failure_hook_fails = before, after, failure_hook_fails

    @rule(name=NAMES, anew=st.sampled_from([False, False, False, True]))
    def run_one(self, name, anew):
        executed, known = len(self.runtime.executed), self.ended_before(name)
        try:
            if self.runtime.later:
                outcome = asyncio.run(self.host.arun(TURN, action(name), anew=anew))
            else:
                outcome = self.host.run(TURN, action(name), anew=anew)
        except (KeyboardInterrupt, Gone):
            outcome = None
        times = len(self.runtime.executed) - executed
        assert times <= (anew or not known)
        if outcome is None:
            self.answers.pop(name, None)
            return
        if outcome.replayed:
            assert times == 0
            assert self.answers.get(name, outcome.answer) == outcome.answer
        if outcome.replayed or times:
            self.answers[name] = outcome.answer
        self.stages_agree(outcome)

    def ended_before(self, name):
        """Say whether this action has a receipt, saved or not, that tells how it ended."""
        key = (TURN.run, name)
        receipt = self.host._fittings.unsaved.get(key) or self.runtime.kept.get(key)
        return receipt is not None and receipt.finished

    def stages_agree(self, outcome):
        """A stage has a status only if those before it let it, and the answer is one only if all did."""
        receipt = outcome.receipt
        if receipt.execution is not None:
            assert receipt.admission.status is Status.ADMITTED
            assert receipt.reservation.status is Status.RESERVED
        if receipt.projection is not None:
            assert receipt.execution.status is Status.SUCCEEDED
        if outcome.answer.ok:
            assert receipt.projection.status is Status.PROJECTED
            assert receipt.has_held

    @invariant()
    def every_reservation_is_closed_once(self):
        if hasattr(self, "runtime"):
            assert self.runtime.balanced

    @invariant()
    def executions_are_counted_as_they_were(self):
        if hasattr(self, "runtime"):
            for (_, name), receipt in self.runtime.kept.items():
                started = [call.execution for call in self.runtime.executed if call.action == name]
                assert len(set(started)) == len(started)
                assert receipt.executions <= (max(started) if started else 0) + 1

    @invariant()
    def every_fact_is_one(self):
        if hasattr(self, "runtime"):
            for fact in self.runtime.facts:
                assert isinstance(fact, StageFact)
                encode(fact)
            self.runtime.facts.clear()


TestHost = Host.TestCase
TestHost.settings = settings(stateful_step_count=15)
