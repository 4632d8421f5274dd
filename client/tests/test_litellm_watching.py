"""What is kept from a call's beginning to the end that LiteLLM tells of; the real one is in client/tests/providers."""

from typing import Any, cast

import pytest

from client.tests.recorded import recorded
from custody_client import current
from custody_client.adapters import litellm
from custody_client.adapters.calls import begin, remember
from custody_client.adapters.faults import faults
from custody_client.adapters.litellm import Remembered, Watching


@pytest.fixture
def run():
    before = faults()
    yield recorded()
    assert faults() == before


@pytest.fixture
def watching(run):
    return Watching(None, run)


def details(
    call_id="c-1", response_id="chatcmpl-1", *, retried=0, metadata=None, **changed: Any
) -> dict[str, Any]:
    payload = {
        "call_type": "completion",
        "litellm_call_id": call_id,
        "id": response_id,
        "trace_id": "t-1",
        "status": "success",
        "messages": [{"role": "user", "content": "hi"}],
        "response": {"id": response_id, "choices": []},
        **changed,
    }
    told = {"attempted_retries": retried, **(metadata or {})}
    return {
        "litellm_call_id": call_id,
        "standard_logging_object": payload,
        "litellm_params": {"metadata": told},
    }


def settlements(run):
    return [[attempt.settlement for attempt in exchange.attempts] for exchange in run.exchanges]


def test_an_end_that_is_told_twice_is_observed_once(watching, run):
    watching.ended(details())
    watching.ended(details())
    assert settlements(run) == [["completed"]]


def test_tries_of_one_trace_that_are_counted_are_one_exchange(watching, run):
    watching.ended(details("c-1", "c-1", status="failure"))
    watching.ended(details("c-2", "c-2", status="failure", retried=1))
    watching.ended(details("c-3", retried=2))
    watching.ended(details("c-4", "chatcmpl-2"))
    assert settlements(run) == [["failed", "failed", "completed"], ["completed"]]


def test_a_retry_whose_first_try_nobody_saw_is_an_exchange(watching, run):
    watching.ended(details(retried=3))
    assert settlements(run) == [["completed"]]


def test_the_run_is_that_of_the_beginning(watching):
    begun = recorded()
    token = current.enter(begun)
    watching.began(details())
    current.leave(token)
    watching.ended(details())
    assert settlements(begun) == [["completed"]]


def test_a_run_may_be_named_by_the_call():
    named = recorded()

    class Service:
        def run(self, run_id):
            assert run_id == "r-7"
            return named

    Watching(cast("Any", Service()), None).ended(details(metadata={"custody_run": "r-7"}))
    assert settlements(named) == [["completed"]]


def test_what_was_captured_nearer_to_the_wire_is_passed_by(watching, run):
    remember(run, "chatcmpl-1")
    watching.ended(details())
    assert run.exchanges == []


def test_what_a_cache_answers_was_not_sent_and_is_nobody_elses(watching, run):
    remember(run, "chatcmpl-1")
    watching.ended(details(cache_hit=True))
    assert (run.attempt.dispatch, run.attempt.settlement) == ("not_dispatched", "completed")


@pytest.mark.parametrize("tapped", [True, False])
def test_a_failure_is_passed_by_where_an_adapter_saw_the_call_begin(watching, run, tapped):
    watching.began(details())
    if tapped:
        begin(run)
    before = len(run.exchanges)
    watching.ended(details(status="failure"))
    assert len(run.exchanges) == before + (not tapped)


def test_what_litellm_keeps_from_its_loggers_is_a_gap(watching, run):
    watching.ended(details(messages=[{"role": "user", "content": "redacted-by-litellm"}]))
    assert run.attempt.unseen == ["logical-request", "observable-output"]
    assert (run.attempt.request, run.attempt.output, run.attempt.settlement) == (None, None, "completed")


def test_what_is_no_call_of_a_model_is_passed_by(watching, run):
    watching.ended(details(call_type="aembedding"))
    watching.ended({})
    watching.ended({"standard_logging_object": None})
    assert run.exchanges == []


def test_a_payload_of_another_shape_is_counted_and_hurts_nobody():
    before = faults().get("litellm", 0)
    Watching(None, recorded()).ended(details(retried="x"))
    assert faults()["litellm"] == before + 1


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(litellm, "_REMEMBERED", 3)
    kept: Remembered[int] = Remembered()
    for number in range(5):
        kept.put(number, number)
    assert [kept.take(number) for number in range(5)] == [None, None, 2, 3, 4]
