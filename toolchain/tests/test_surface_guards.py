"""A refused request is settled once, whatever its owner's callback does, and nothing else is touched."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from custody_toolchain.driving import MustBeAwaited
from custody_toolchain.facts import Check, Verdict, encode
from custody_toolchain.surface import AsyncGuard, Guard, PreDispatchRejected, Reason, Rejection, Surface

TOOLS = [{"name": "search", "description": "SECRET-CANARY", "input_schema": {"type": "object"}}]
OTHER = [{"name": "search", "description": "another CANARY", "input_schema": {"type": "object"}}]


@pytest.fixture
def told():
    return []


@pytest.fixture
def surface(told):
    return Surface.admit(TOOLS, told.append)


def refused(call, *arguments):
    with pytest.raises(PreDispatchRejected) as raised:
        call(*arguments)
    return raised.value


def test_it_passes_only_after_both_checks(surface):
    guard = Guard(surface, "call-1", lambda _: pytest.fail("settled"))
    assert not guard.passed
    guard.check_early(TOOLS)
    assert not guard.passed
    guard.check_final(TOOLS)
    assert guard.passed
    assert guard.rejection is None


def test_a_final_check_without_the_early_one_is_refused(surface, told):
    settled: list[Rejection] = []
    guard = Guard(surface, "call-1", settled.append)
    error = refused(guard.check_final, TOOLS)
    assert error.rejection.reason is Reason.EARLY_CHECK_MISSING
    assert settled == [error.rejection]
    assert [(each.check, each.verdict, each.tools) for each in told] == [
        (Check.FINAL, Verdict.MATCH, 1),
        (Check.EARLY, Verdict.NOT_CHECKED, 1),
    ]


def test_a_refused_request_stays_refused_and_is_settled_once(surface):
    settled: list[Rejection] = []
    guard = Guard(surface, "call-1", settled.append)
    first = refused(guard.check_early, OTHER)
    for check in (guard.check_early, guard.check_final):
        assert refused(check, TOOLS).rejection is first.rejection
    assert refused(guard.fit, 10**6).rejection is first.rejection
    assert settled == [first.rejection]
    assert not guard.passed


def test_one_refusal_touches_no_other_request(surface):
    settled: list[Rejection] = []
    guards = [Guard(surface, f"call-{at}", settled.append) for at in range(3)]
    refused(guards[1].check_early, OTHER)
    for guard in (guards[0], guards[2]):
        guard.check_early(TOOLS)
        guard.check_final(TOOLS)
    assert [guard.passed for guard in guards] == [True, False, True]
    assert [each.exchange for each in settled] == ["call-1"]


def test_a_callback_that_raises_does_not_let_the_request_pass(surface):
    def settle(_):
        raise KeyError("reservation")

    guard = Guard(surface, "call-1", settle)
    error = refused(guard.check_early, OTHER)
    assert error.settlement_failed
    assert isinstance(error.__cause__, KeyError)
    for check in (guard.check_early, guard.check_final):
        assert refused(check, TOOLS).settlement_failed, "told whenever it is refused"
    assert refused(guard.fit, 10**6).settlement_failed
    assert not guard.passed


def test_a_callback_that_ends_the_program_does_not_let_it_pass_either(surface):
    def settle(_):
        raise KeyboardInterrupt

    guard = Guard(surface, "call-1", settle)
    with pytest.raises(KeyboardInterrupt):
        guard.check_early(OTHER)
    assert refused(guard.check_final, TOOLS).settlement_failed
    assert not guard.passed


def test_an_asynchronous_callback_in_a_plain_guard_is_a_failed_settlement(surface):
    async def settle(_):
        pytest.fail("never awaited")

    error = refused(Guard(surface, "call-1", settle).check_early, OTHER)
    assert error.settlement_failed
    assert isinstance(error.__cause__, MustBeAwaited)


@pytest.mark.parametrize("wrap", [asyncio.ensure_future, asyncio.gather], ids=["task", "future"])
async def test_a_future_that_a_plain_guard_is_given_is_no_settlement(surface, wrap):
    guard = Guard(surface, "call-1", lambda _: wrap(asyncio.sleep(0)))
    assert refused(guard.check_early, OTHER).settlement_failed
    assert refused(guard.check_final, TOOLS).settlement_failed


async def test_awaited_callbacks_settle_before_the_request_is_refused(surface):
    order: list[str] = []

    async def settle(rejection):
        await asyncio.sleep(0)
        order.append(rejection.settlement)

    guard = AsyncGuard(surface, "call-1", settle)
    await guard.check_early(TOOLS)
    with pytest.raises(PreDispatchRejected):
        await guard.check_final(OTHER)
    order.append("refused")
    assert order == ["pre_dispatch_rejected", "refused"]
    with pytest.raises(PreDispatchRejected):
        await guard.check_early(TOOLS)
    assert len(order) == 2


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_an_awaited_callback_that_raises_does_not_let_it_pass(surface, asynchronous):
    def settle(_):
        raise KeyError("reservation")

    async def settle_later(_):
        raise KeyError("reservation")

    guard = AsyncGuard(surface, "call-1", settle_later if asynchronous else settle)
    with pytest.raises(PreDispatchRejected) as raised:
        await guard.check_early(OTHER)
    assert raised.value.settlement_failed
    with pytest.raises(PreDispatchRejected) as raised:
        await guard.check_final(TOOLS)
    assert raised.value.settlement_failed


@pytest.mark.parametrize("fails", [True, False])
async def test_a_settlement_is_brought_to_its_end_when_its_check_is_cancelled(surface, fails):
    begun, go_on, log = asyncio.Event(), asyncio.Event(), []

    async def settle(_):
        begun.set()
        await go_on.wait()
        log.append("closed")
        if fails:
            raise KeyError("reservation")

    guard = AsyncGuard(surface, "call-1", settle)
    task = asyncio.create_task(guard.check_early(OTHER))
    await begun.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["closed"]
    with pytest.raises(PreDispatchRejected) as raised:
        await guard.check_final(TOOLS)
    assert raised.value.settlement_failed is fails
    assert log == ["closed"]
    assert not guard.passed


async def test_a_settlement_that_its_own_end_broke_off_has_failed(surface):
    async def settle(_):
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    guard = AsyncGuard(surface, "call-1", settle)
    for check in (guard.check_early, guard.check_final):
        with pytest.raises(PreDispatchRejected) as raised:
            await check(OTHER)
        assert raised.value.settlement_failed


def test_threads_that_are_refused_at_once_settle_once(surface):
    for _ in range(50):
        settled: list[Rejection] = []
        guard = Guard(surface, "call-1", settled.append)
        ready = threading.Barrier(4)

        def check(_, guard=guard, ready=ready):
            ready.wait(5)
            refused(guard.check_early, OTHER)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(check, range(4)))
        assert len(settled) == 1


def test_tools_that_do_not_fit_are_a_lack_of_room_and_none_is_left_out(told):
    many = [{"name": f"t{at}", "input_schema": {"type": "object"}} for at in range(10)]
    surface = Surface.admit(many, told.append)
    settled: list[Rejection] = []
    guard = Guard(surface, "call-1", settled.append)
    seen: list[int] = []

    def tokens(tools: list[Any]) -> int:
        seen.append(len(tools))
        tools.clear()
        return 100

    guard.fit(100, tokens)
    error = refused(guard.fit, 99, tokens)
    assert error.rejection.reason is Reason.NO_ROOM
    assert (error.rejection.settlement, error.rejection.dispatch) == (
        "pre_dispatch_rejected",
        "not_dispatched",
    )
    assert settled == [error.rejection]
    assert seen == [10, 10]
    assert [(each.verdict, each.tools) for each in told] == [(Verdict.CAPACITY, 10)]
    assert len(surface.names) == 10


def test_room_is_counted_in_bytes_of_json_without_a_measure(surface):
    guard = Guard(surface, "call-1", lambda _: None)
    needed = surface.written_bytes()
    guard.fit(needed)
    refused(guard.fit, needed - 1)


async def test_room_is_looked_for_where_checks_are_awaited(surface):
    guard = AsyncGuard(surface, "call-1", lambda _: None)
    await guard.fit(10**6)
    with pytest.raises(PreDispatchRejected):
        await guard.fit(1)


def test_a_measure_that_raises_does_not_let_it_pass(surface, told):
    def measure(_):
        raise ZeroDivisionError

    settled: list[Rejection] = []
    error = refused(Guard(surface, "call-1", settled.append).fit, 1, measure)
    assert error.rejection.reason is Reason.NOT_CHECKED
    assert len(settled) == 1
    assert [(each.check, each.verdict) for each in told] == [(Check.EARLY, Verdict.NOT_CHECKED)]


@pytest.mark.parametrize("check", list(Check))
def test_what_cannot_be_checked_is_not_sent_and_reported_as_such(surface, told, monkeypatch, check):
    def broken(_):
        raise MemoryError

    monkeypatch.setattr(surface, "differences", broken)
    settled: list[Rejection] = []
    guard = Guard(surface, "call-1", settled.append)
    error = refused(guard.check_early if check is Check.EARLY else guard.check_final, TOOLS)
    assert error.rejection.reason is Reason.NOT_CHECKED
    assert len(settled) == 1
    assert [(each.check, each.verdict, each.tools, each.differences) for each in told] == [
        (check, Verdict.NOT_CHECKED, 1, ())
    ]


def test_a_report_that_raises_changes_no_verdict():
    def report(_):
        raise RuntimeError

    guard = Guard(Surface.admit(TOOLS, report), "call-1", lambda _: None)
    guard.check_early(TOOLS)
    refused(guard.check_final, OTHER)
    assert guard.reports_failed == 2


def test_no_content_is_in_errors_facts_and_rejections(surface, told):
    error = refused(Guard(surface, "call-1", lambda _: None).check_early, OTHER)
    assert "CANARY" not in f"{error} {error!r} {error.rejection}"
    assert str(error) == "tools_changed (description)"
    assert b"CANARY" not in b"".join(map(encode, told))


def test_each_check_of_each_attempt_is_a_fact_of_its_own(surface, told):
    for attempt in ("p1", "p2"):
        guard = Guard(surface, "call-1", lambda _: None, attempt)
        guard.check_early(TOOLS)
        guard.check_final(TOOLS)
    assert len({each.fact for each in told}) == len(told) == 4
    assert [each.attempt for each in told] == ["p1", "p1", "p2", "p2"]
    guard.check_final(TOOLS)
    assert told[-1].fact == told[-2].fact


@pytest.mark.parametrize(("exchange", "attempt"), [("call 1", None), ("call-1", "../p1")])
def test_names_that_are_no_ids_are_refused_at_once(surface, exchange, attempt):
    with pytest.raises(ValueError, match="id is 1 to 128"):
        Guard(surface, exchange, lambda _: None, attempt)
