"""Runs, exchanges and attempts as context managers, sync and async alike; and what is said of attempts."""

import asyncio
import contextlib
import gc
import logging
import signal
import threading
import time
from contextvars import copy_context

import pytest

from custody_client import Custody, current_run
from custody_client.accounts import Account
from custody_client.declarations import Declaration
from tests.support.scripted import KEY, until


def said(service, custody):
    custody.flush(5)
    return {(each["exchange"], each["attempt"]): each.get("settlement") for each in service.states()}


def test_a_run_is_current_within_its_block_and_closed_after_it(service, custody):
    assert current_run() is None
    with custody.run("r-1") as run:
        assert current_run() is run
        with custody.run("r-2").active() as other:
            assert current_run() is other
        assert current_run() is run
    assert current_run() is None
    until(service.closings)
    assert [each.path for each in service.calls("close")] == ["/v1/runs/r-1/close"]


async def test_tasks_have_the_run_in_which_they_were_begun(custody):
    async def inside(run_id):
        async with custody.run(run_id) as run, run.exchange() as exchange, exchange.attempt():
            await asyncio.sleep(0.01)
            return current_run()

    found = await asyncio.gather(*(inside(f"r-{each}") for each in range(5)))
    assert [run.run_id for run in found] == [f"r-{each}" for each in range(5)]
    assert current_run() is None


def test_leaving_in_another_context_leaves_nothing_behind(custody):
    run = custody.run("r-1")
    copy_context().run(run.__enter__)
    run.__exit__(None, None, None)
    assert current_run() is None


class Cancelled(BaseException):
    """As trio's."""


@pytest.mark.parametrize(
    ("error", "settlement"),
    [
        (ValueError, "failed"), (KeyboardInterrupt, "cancelled"), (GeneratorExit, "cancelled"),
        (asyncio.CancelledError, "cancelled"), (Cancelled, "cancelled"), (SystemExit, "failed"),
    ],
)  # fmt: skip
def test_an_exception_settles_an_attempt_and_goes_on(service, custody, error, settlement):
    run = custody.run("r-1", wait=2)
    with pytest.raises(error), run.exchange("x") as exchange, exchange.attempt("a"):
        raise error
    assert said(service, custody) == {("x", "a"): settlement}


async def test_a_cancelled_task_settles_its_attempt(service, custody):
    run = custody.run("r-1", wait=2)

    async def call():
        async with run.exchange("x").attempt("a"):
            await asyncio.sleep(60)

    task = asyncio.create_task(call())
    await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert said(service, custody) == {("x", "a"): "cancelled"}


def test_the_first_word_stays_and_words_of_an_attempt_go_together(service, custody):
    run = custody.run("r-1", wait=2)
    attempt = run.exchange("x").attempt("a")
    attempt.dispatched()
    attempt.settled("completed")
    attempt.refer(trace="t-1", response="chatcmpl-1")
    attempt.refer(request="req-1")
    attempt.settled("failed")
    run.exchange("y").attempt().not_dispatched()
    custody.flush(5)
    assert service.states() == [
        {"exchange": "x", "attempt": "a", "dispatch": "dispatched", "settlement": "completed",
         "refs": ["t-1", "chatcmpl-1", "req-1"]},
        {"exchange": "y", "attempt": "1", "dispatch": "not_dispatched"},
    ]  # fmt: skip


def test_attempts_count_on_in_an_exchange_that_is_begun_again(custody):
    run = custody.run("r-1")
    first, other = run.exchange("x"), run.exchange()
    assert [first.attempt().attempt_id, first.attempt().attempt_id, run.exchange("x").attempt().attempt_id] == [
        "1", "2", "3",
    ]  # fmt: skip
    assert other.attempt().attempt_id == "1"
    assert other.exchange_id != run.exchange().exchange_id


def test_a_refused_run_says_nothing_of_its_attempts(service, custody):
    service.admission |= {"admitted": False, "reason": "temporary_mode"}
    run = custody.run("r-1", wait=2)
    with run.exchange("x").attempt() as attempt:
        attempt.dispatched()
        attempt.refer(trace="t-1")
    run.close()
    until(service.closings)
    assert service.calls("frames") == []


def test_captures_outlive_the_loop_and_come_also_from_finalisers(service, custody):
    run = custody.run("r-1", wait=2)

    async def stream():
        attempt = run.exchange("x").attempt("a")
        try:
            yield 1
            yield 2
        finally:
            attempt.capture_output(b"so far", completeness="interrupted")
            attempt.settled("cancelled")

    async def reads_one():
        async for _ in stream():
            return

    asyncio.run(reads_one())

    class Dying:
        def __init__(self):
            self.me = self
            self.attempt = run.exchange("y").attempt("a")

        def __del__(self):
            self.attempt.capture_output(b"at the end")

    Dying()
    gc.collect()
    custody.flush(5)
    assert {part["exchange"]: part["body"] for part in service.parts()} == {
        "x": b"so far",
        "y": b"at the end",
    }


def test_signals_amid_captures_capture_too_and_nothing_hangs(service, custody):
    """A handler may run at any moment of a capture, also while that holds a lock."""
    run = custody.run("r-1", wait=2)
    signalled, going = [], [True]

    def handle(*_):
        signalled.append(1)
        run.exchange().attempt().capture_request({"from": "a handler"})
        # The next one only now: on a slow machine handlers would meet handlers, until the stack is at its end.
        if going:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    try:
        for _ in range(5000):
            run.exchange().attempt().capture_request({"a": [1]})
    finally:
        going.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert signalled
    run.close()
    until(service.closings)
    (numbered,) = service.closings()[0].values()
    assert numbered == 5000 + len(signalled)
    told = set().union(*service.gaps().values()) | {part["sequence"] for part in service.parts()}
    assert told == set(range(1, numbered + 1))


def test_after_its_end_a_client_does_nothing_more(service, custody):
    run = custody.run("r-1", wait=2)
    attempt = run.exchange().attempt()
    attempt.capture_request(b"before")
    custody.close()
    asked = len(service.asked)
    attempt.capture_output(lambda: pytest.fail("was called"))
    attempt.settled("completed")
    run.close()
    assert not custody.run("r-2").run_id or not custody.run("r-2").admits("logical-request")
    assert not any(thread.name == "custody-sender" and thread.is_alive() for thread in [custody._thread])
    assert [part["body"] for part in service.parts()] == [b"before"]
    assert len(service.asked) == asked


def test_an_interrupt_amid_a_capture_reaches_the_caller_and_is_counted(service, custody):
    run = custody.run("r-1", wait=2)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.exchange().attempt().capture_request(interrupted)
    run.close()
    until(service.closings)
    assert service.gaps() == {"not_observed": {1}}


def test_a_capture_at_the_end_of_the_stack_does_not_raise(service, custody):
    run = custody.run("r-1", wait=2)
    attempts = iter([run.exchange().attempt() for _ in range(3000)])

    def deeper():
        next(attempts).capture_request({"a": [1]})
        deeper()

    with pytest.raises(RecursionError):
        deeper()
    run.close()
    until(service.closings)
    (numbered,) = service.closings()[0].values()
    told = set().union(*service.gaps().values()) | {part["sequence"] for part in service.parts()}
    assert told == set(range(1, numbered + 1))


def test_threads_that_ask_for_a_run_at_once_get_the_same_one(service, custody, monkeypatch):
    # Each looks for the run before any has made it.
    looked = threading.Barrier(2, timeout=5)
    made = Account.__init__

    def slowly(account, *arguments):
        looked.wait()
        made(account, *arguments)

    monkeypatch.setattr(Account, "__init__", slowly)
    found = []
    threads = [
        threading.Thread(target=lambda said=said: found.append(custody.run("r-1", content=said)))
        for said in ("allow", "opt_out")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]
    assert found[0]._account is custody.office.accounts["r-1"]
    assert found[0]._account.declaration.content == "opt_out"


def test_an_opt_out_is_not_lost_to_another_word_at_the_same_time(custody, monkeypatch):
    run = custody.run("r-1")
    narrowed, within = Declaration.narrowed, threading.Event()

    def slowly(one, other):
        found = narrowed(one, other)
        if other.subject == "s" and not within.is_set():
            within.set()
            time.sleep(0.01)
        return found

    monkeypatch.setattr(Declaration, "narrowed", slowly)
    thread = threading.Thread(target=lambda: custody.run("r-1", subject="s"))
    thread.start()
    assert within.wait(5)
    custody.run("r-1", content="opt_out")
    thread.join()
    assert run._account.declaration.refusal == "content_opt_out"
    assert run._account.declaration.subject == "s"


@pytest.mark.parametrize(
    "wrong", [None, "soon", float("inf"), 10**400], ids=["None", "text", "endless", "huge"]
)
def test_a_time_that_cannot_be_waited_for_does_not_raise(service, wrong):
    custody = Custody(service.url, KEY)
    run = custody.run("r-1", wait=2)
    custody.run("r-1", wait=wrong)
    run.exchange().attempt().capture_request(b"a")
    custody.flush(wrong)
    custody.close(wrong)
    assert [part["body"] for part in service.parts()] == [b"a"]


def test_a_handler_of_logs_that_raises_ends_nothing_and_reaches_nobody(service, custody):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError(record.name)

    logger, broken = logging.getLogger("custody_client"), Broken()
    logger.addHandler(broken)
    try:
        assert Custody("nowhere", KEY).fault
        custody.office.trouble.note("ids", "something to say")
        run = custody.run("r-1", wait=2)
        run.exchange().attempt().capture_request(b"a")
        assert custody.flush(5)
    finally:
        logger.removeHandler(broken)
    assert [part["body"] for part in service.parts()] == [b"a"]
    assert custody.counters().troubles["log"] == 1


def test_a_thread_that_cannot_be_started_now_is_started_later(service, custody, monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", refused)
        run = custody.run("r-1")
    run.exchange().attempt().settled("completed")
    until(lambda: service.calls("declare"))
