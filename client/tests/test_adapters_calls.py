"""Where adapters meet on one call: one exchange, one request, one output a try, whoever comes first."""

import asyncio
import contextvars
import threading

import pytest

from client.tests.recorded import Untouchable, recorded
from custody_client.adapters import around, calls
from custody_client.adapters.calls import (
    Call,
    Mark,
    begin,
    current_call,
    may_come_again,
    remember,
    running,
    seen,
)
from custody_client.current import enter, leave


@pytest.fixture
def run():
    return recorded()


def test_an_adapter_further_in_gets_the_same_call(run):
    with begin(run).entered() as outer:
        assert current_call() is outer
        assert begin(run) is outer
    assert current_call() is None
    assert begin(run) is not outer


def test_calls_of_two_runs_are_two_calls(run):
    other = recorded()
    with begin(run).entered() as outer:
        assert begin(other) is not outer
    assert (len(run.exchanges), len(other.exchanges)) == (1, 1)


def test_the_first_request_wins_and_the_second_is_not_looked_at(run):
    call = begin(run)
    call.request({"from": "the sdk"})
    call.request(Untouchable(), vantage="wire")
    assert run.attempt.request.content == {"from": "the sdk"}


def test_layers_see_one_try_each_once(run):
    call = begin(run)
    first = call.attempt("sdk")
    assert call.attempt("wire") is first
    second = call.attempt("sdk")
    assert second is not first
    assert call.attempt("wire") is second
    assert [attempt.attempt_id for attempt in run.attempts] == ["1", "2"]


def test_after_a_redirect_a_layer_sees_the_same_try_again(run):
    call = begin(run)
    first = call.attempt("wire")
    first.leave("wire")
    assert call.attempt("wire") is first


def test_a_try_that_is_over_is_not_joined(run):
    call = begin(run)
    call.attempt("wire").end("failed")
    call.attempt("sdk")
    assert len(run.attempts) == 2


def test_an_output_is_captured_once_and_the_nearer_one_stands(run):
    call = begin(run)
    tried = call.attempt("wire")
    assert tried.claim()
    assert not tried.claim()
    call.output(Untouchable())
    assert run.attempt.output is None
    assert run.attempt.settlement == "unknown"


def test_an_output_of_ones_own_ends_the_try(run):
    call = begin(run)
    call.output({"a": 1}, vantage="gateway")
    call.output(Untouchable())
    assert run.attempt.output.content == {"a": 1}
    assert (run.attempt.output.vantage, run.attempt.settlement) == ("gateway", "completed")


@pytest.mark.parametrize(
    ("error", "settlement"),
    [(ValueError(), "failed"), (KeyboardInterrupt(), "cancelled"), (asyncio.CancelledError(), "cancelled")],
)
def test_a_call_that_breaks_before_it_goes_out_was_not_sent(run, error, settlement):
    call = begin(run)
    call.request({})
    call.broke(error)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("not_dispatched", settlement)


def test_a_call_that_breaks_after_it_went_out_leaves_its_dispatch_alone(run):
    call = begin(run)
    call.attempt("wire")
    call.broke(ValueError())
    assert (run.attempt.dispatch, run.attempt.settlement) == ("unknown", "failed")


def test_a_try_made_again_is_of_the_same_call(run):
    call = begin(run, Mark("k", 0))
    may_come_again(call, Mark("k", 0))
    assert begin(run, Mark("k", 1)) is call
    assert begin(run, Mark("k", 1)) is not call, "only at once"


@pytest.mark.parametrize("mark", [Mark("other", 1), Mark("k", 0), Mark("k", 2), None])
def test_what_is_not_the_next_try_is_another_call(run, mark):
    call = begin(run, Mark("k", 0))
    may_come_again(call, Mark("k", 0))
    assert begin(run, mark) is not call


def test_another_thread_does_not_take_it_up(run):
    call = begin(run, Mark("k", 0))
    may_come_again(call, Mark("k", 0))
    found: list[Call] = []
    thread = threading.Thread(target=lambda: found.append(begin(run, Mark("k", 1))))
    thread.start()
    thread.join()
    assert found[0] is not call


def test_the_run_is_the_named_one_then_the_calls_then_the_current(run):
    named, current = recorded(), recorded()
    assert running() is None
    token = enter(current)
    try:
        assert running() is current
        with begin(run).entered():
            assert running() is run
            assert running(named) is named
    finally:
        leave(token)


def test_a_finaliser_in_the_midst_of_it_does_not_wait_for_itself(run):
    with calls._lock:
        remember(run, "resp_1")
    assert seen(run, "resp_1")


def test_what_was_captured_is_remembered_within_bounds(run, monkeypatch):
    monkeypatch.setattr(calls, "_REMEMBERED", 3)
    for number in range(5):
        remember(run, f"resp_{number}")
    assert [seen(run, f"resp_{number}") for number in range(5)] == [False, False, True, True, True]
    assert not seen(recorded(), "resp_4")


def test_each_who_hears_of_it_afterwards_is_told_as_often_as_it_was_captured(run):
    for _ in range(2):
        remember(run, "chatcmpl-1")
    assert [seen(run, "chatcmpl-1", "otel") for _ in range(3)] == [True, True, False]
    assert [seen(run, "chatcmpl-1", "litellm") for _ in range(3)] == [True, True, False]
    assert seen(run, "chatcmpl-1")
    assert not seen(run, "chatcmpl-2", "otel")


def test_a_witness_knows_of_calls_that_began_while_it_stood(run):
    first = around.witness()
    begin(run)
    second = around.witness()
    assert (first.saw, second.saw) == (True, False)


def test_a_witness_is_shared_with_contexts_that_begin_later(run):
    standing = around.witness()
    contextvars.copy_context().run(begin, run)
    assert standing.saw


def test_a_call_may_be_left_in_another_context(run):
    # As a task's coroutine is that nobody ended: whoever collects it closes it, elsewhere.
    entered = Call(run).entered()
    contextvars.copy_context().run(entered.__enter__)
    entered.__exit__(None, None, None)
    assert current_call() is None
