"""Between the reservation and the execution: whatever breaks there, nothing runs, and the receipt says so."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from custody_toolchain.facts import StageFact, Status
from custody_toolchain.tools import Refuse
from toolchain.tests.owned import ROWS, TURN, Runtime, action


def kept(runtime) -> Any:
    return runtime.kept["run-1", "a1"]


class InThreads:
    """Lets one function of the owner's work in a thread, and holds it there until it may go on."""

    def __init__(self, piece, name):
        self.begun, self.go_on = asyncio.Event(), threading.Event()
        self._loop, self._real = asyncio.get_running_loop(), getattr(piece, name)
        setattr(piece, name, self)

    async def __call__(self, *given):
        return await asyncio.to_thread(self._work, *given)

    def _work(self, *given):
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(10)
        return self._real(*given)

    async def cancelled_within(self, task):
        """Cancel a task while this is under way, see that it waits, and let it go on."""
        await self.begun.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done(), "what was begun is brought to its end"
        self.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("repeatable", [True, False])
def test_cancelled_while_its_mark_is_saved_nothing_runs_and_the_next_run_executes_once(repeatable):
    runtime = Runtime()

    async def main():
        owner = runtime.owner()
        host = runtime.host(runtime.tool(repeatable=repeatable), owner=owner)
        save = InThreads(owner.receipts, "save")
        await save.cancelled_within(asyncio.create_task(host.arun(TURN, action())))
        assert runtime.executed == []
        assert kept(runtime).execution is None
        first, second = await host.arun(TURN, action()), await host.arun(TURN, action())
        assert (first.replayed, second.replayed) == (False, True)
        assert first.answer.ok
        assert first.receipt.executions == len(runtime.executed) == 1
        assert kept(runtime).execution.status is Status.SUCCEEDED

    asyncio.run(main())
    assert runtime.balanced
    assert [settlement.execution for settlement in runtime.settlements] == [1]


def test_cancelled_while_it_reserves_the_reservation_is_released_after_it_was_made():
    runtime = Runtime()

    async def main():
        owner = runtime.owner()
        reserve = InThreads(owner.reservations, "reserve")
        task = asyncio.create_task(runtime.host(owner=owner).arun(TURN, action()))
        await reserve.cancelled_within(task)

    asyncio.run(main())
    assert [what for what, _ in runtime.book] == ["made", "closed"]
    assert runtime.saved == []
    assert runtime.executed == []


def saves_and_raises(runtime, *errors):
    """Return an owner whose saves work, and raise these all the same, one after the other."""
    owner, left = runtime.owner(), list(errors)
    real = owner.receipts.save

    def save(receipt):
        real(receipt)
        if left:
            raise left.pop(0)

    owner.receipts.save = save
    return owner


@pytest.mark.parametrize("error", [ConnectionError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("reservations", [True, False])
def test_a_mark_that_was_saved_and_raised_does_not_say_that_it_was_started(error, repeatable, reservations):
    runtime = Runtime()
    owner = saves_and_raises(runtime, error)
    owner = owner if reservations else replace(owner, reservations=None)
    host = runtime.host(runtime.tool(repeatable=repeatable), owner=owner)
    try:
        refusal = host.run(TURN, action()).answer.refusal
    except KeyboardInterrupt:
        assert isinstance(error, KeyboardInterrupt)
    else:
        assert (refusal.code, refusal.retryable) == ("receipts_unavailable", True)
    assert kept(runtime).execution is None
    assert kept(runtime).answer().refusal.code == "not_executed"
    again = host.run(TURN, action())
    assert again.answer.ok
    assert not again.replayed
    assert again.receipt.executions == len(runtime.executed) == 1
    assert runtime.balanced


def test_a_mark_that_nothing_could_be_saved_over_is_known_in_this_process_to_have_started_nothing():
    runtime = Runtime()
    owner = saves_and_raises(runtime, ConnectionError())
    real = owner.receipts.save

    def save(receipt):
        if receipt.execution is None:
            raise ConnectionError
        real(receipt)

    owner.receipts.save = save
    host = runtime.host(runtime.tool(repeatable=False), owner=owner)
    assert host.run(TURN, action()).answer.refusal.code == "receipts_unavailable"
    assert kept(runtime).execution.status is Status.STARTED
    again = host.run(TURN, action())
    assert again.answer.ok
    assert again.receipt.executions == len(runtime.executed) == 1
    assert host.run(TURN, action()).replayed
    assert runtime.balanced


def test_executed_anew_in_vain_at_its_mark_the_result_before_is_still_there():
    runtime = Runtime()
    owner = saves_and_raises(runtime)
    host = runtime.host(owner=owner)
    first = host.run(TURN, action())
    broken = runtime.host(owner=saves_and_raises(runtime, ConnectionError()))
    assert broken.run(TURN, action(), anew=True).answer.refusal.code == "receipts_unavailable"
    assert kept(runtime) == first.receipt
    assert host.run(TURN, action()).answer.view == {"rows": ROWS}
    again = host.run(TURN, action(), anew=True)
    assert again.receipt.executions == len(runtime.executed) == 2
    assert runtime.balanced


def test_killed_before_a_reservation_of_what_never_started_was_released_it_is_released_once():
    runtime = Runtime()
    host = runtime.host(owner=saves_and_raises(runtime, ConnectionError()))
    host.run(TURN, action())
    runtime.book.pop()
    assert not runtime.balanced
    runtime.answers["admit"] = 0
    for _ in range(2):
        runtime.host().run(TURN, action())
        assert [what for what, _ in runtime.book] == ["made", "closed"]
    assert runtime.settlements == []


def test_a_cancellation_that_waited_for_an_old_settlement_keeps_the_action_from_being_executed():
    runtime = Runtime()

    async def main():
        runtime.host().run(TURN, action())
        runtime.book.pop()
        owner = runtime.owner()
        settle = InThreads(owner.reservations, "settle")
        task: Any = asyncio.create_task(runtime.host(owner=owner).arun(TURN, action(), anew=True))
        await settle.cancelled_within(task)

    asyncio.run(main())
    assert runtime.balanced
    assert len(runtime.executed) == 1


def broken_off_at_its_start(runtime):
    """Run the action in a process that ends with a receipt of a start that was broken off."""
    runtime.host(owner=saves_and_raises(runtime, ConnectionError())).run(TURN, action())
    assert kept(runtime).never_started


@pytest.mark.parametrize("refused_by", ["admit", "authorise", "reserve"])
def test_a_final_no_after_a_start_that_was_broken_off_stays_one(refused_by):
    runtime = Runtime()
    broken_off_at_its_start(runtime)
    runtime.answers[refused_by] = Refuse("not_allowed", retryable=True)
    assert not runtime.host().run(TURN, action()).persisted
    assert kept(runtime).never_started, "one that may be retried leaves what was there"
    runtime.answers[refused_by] = Refuse("not_allowed")
    no = runtime.host().run(TURN, action())
    assert no.persisted
    del runtime.answers[refused_by]
    again = runtime.host().run(TURN, action())
    assert again.replayed
    assert again.answer == no.answer
    assert runtime.executed == []
    assert runtime.balanced


def test_a_final_no_is_saved_also_after_a_mark_that_nothing_could_be_saved_over():
    runtime = Runtime()
    host = runtime.host()
    runtime.fail["save"] = ConnectionError()
    host.run(TURN, action())
    runtime.fail.clear()
    runtime.answers["admit"] = Refuse("not_allowed")
    assert host.run(TURN, action()).persisted
    runtime.answers.clear()
    assert runtime.host().run(TURN, action()).answer.refusal.code == "not_allowed"
    assert runtime.executed == []


def test_a_start_that_was_broken_off_holds_its_action_to_no_version_of_the_schema_and_to_itself():
    runtime = Runtime()
    broken_off_at_its_start(runtime)
    newer = runtime.host(runtime.tool(version=3))
    other = action(arguments={"ticker": "INIT"})
    assert newer.run(TURN, other).answer.refusal.code == "identity_conflict"
    done = newer.run(TURN, action())
    assert done.answer.ok
    assert done.receipt.schema_version == kept(runtime).schema_version == 3
    assert len(runtime.executed) == 1
    assert runtime.balanced


class Hangs:
    """Lets one function of the owner's wait for ever, after its work or before it, as often as it is to."""

    def __init__(self, piece, name, *, works=True, times=1, when=lambda *_: True):
        self.ended, self._works, self._times, self._when = 0, works, times, when
        self._real = getattr(piece, name)
        setattr(piece, name, self)

    async def __call__(self, *given):
        if not self._times or not self._when(*given):
            return self._real(*given)
        self._times -= 1
        if self._works:
            self._real(*given)
        try:
            await asyncio.Event().wait()
        finally:
            # Whoever broke this off waits for it.
            await asyncio.sleep(0)
            self.ended += 1


@pytest.mark.parametrize("works", [True, False])
def test_a_reservation_that_waits_too_long_has_failed_and_is_released(works):
    runtime = Runtime()

    async def main():
        owner = replace(runtime.owner(), timeout_s=0.01)
        reserve = Hangs(owner.reservations, "reserve", works=works)
        host = runtime.host(owner=owner)
        outcome = await host.arun(TURN, action())
        assert outcome.answer.refusal.code == "reservation_failed"
        assert isinstance(outcome.cause, TimeoutError)
        assert reserve.ended == 1
        assert runtime.calls[-1] == "release"
        assert not runtime.saved
        assert not runtime.executed
        if not works:
            runtime.book.clear()
        assert (await host.arun(TURN, action())).answer.ok

    asyncio.run(main())
    assert runtime.balanced


def test_a_deadline_of_the_callers_ends_a_reservation_that_waits_as_soon_as_its_own_time_is_over():
    runtime = Runtime()

    async def main():
        owner = replace(runtime.owner(), timeout_s=0.05)
        reserve = Hangs(owner.reservations, "reserve")
        host = runtime.host(owner=owner)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await host.arun(TURN, action())
        assert reserve.ended == 1

    asyncio.run(main())
    assert [what for what, _ in runtime.book] == ["made", "closed"]
    assert not runtime.saved
    assert not runtime.executed


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_a_mark_whose_save_takes_too_long_has_failed_and_nothing_is_executed(times, repeatable):
    runtime = Runtime()

    async def main():
        owner = replace(runtime.owner(), timeout_s=0.01)
        save = Hangs(owner.receipts, "save", times=times)
        host = runtime.host(runtime.tool(repeatable=repeatable), owner=owner)
        refusal = (await host.arun(TURN, action())).answer.refusal
        assert (refusal.code, refusal.retryable) == ("receipts_unavailable", True)
        assert save.ended == times
        assert runtime.executed == []
        assert [what for what, _ in runtime.book] == ["made", "closed"]
        assert (await host.arun(TURN, action())).receipt.executions == len(runtime.executed) == 1

    asyncio.run(main())
    assert kept(runtime).execution.status is Status.SUCCEEDED
    assert runtime.balanced


def test_a_receipt_or_a_settlement_that_takes_too_long_takes_no_result_away():
    runtime = Runtime()

    async def main():
        owner = replace(runtime.owner(), timeout_s=0.01)
        host = runtime.host(owner=owner)
        save = Hangs(owner.receipts, "save", works=False, when=lambda receipt: receipt.finished)
        settle = Hangs(owner.reservations, "settle")
        outcome = await host.arun(TURN, action())
        assert outcome.answer.ok
        assert not outcome.persisted
        assert save.ended == settle.ended == 1
        again = await host.arun(TURN, action())
        assert (again.replayed, again.persisted) == (True, True)

    asyncio.run(main())
    failed = [
        fact.code for fact in runtime.facts if isinstance(fact, StageFact) and fact.status is Status.FAILED
    ]
    assert failed == ["receipts_unavailable", "settlement_failed"]
    assert len(runtime.executed) == 1
    assert runtime.balanced
