"""The logger, as the real LiteLLM calls it: from its threads and tasks, after the call, of each failed try apart."""

import asyncio
import gc
import os
import threading
import warnings
from typing import Any, cast

import httpx
import pytest

# LiteLLM fetches a list of prices when it is imported; here is no network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from client.tests.providers.answers import ARGUMENTS, TEXT
from client.tests.providers.fake_provider import Turn
from client.tests.recorded import recorded
from custody_client import current
from custody_client.adapters.faults import faults
from custody_client.adapters.litellm import logger
from custody_client.adapters.transports import tap

MESSAGES = [{"role": "user", "content": "Weather?"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
WITHIN_S = 10.0

pytestmark = [
    # LiteLLM leaves a client of each provider open for later calls, and its workers' queues when a loop ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:litellm"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
]


@pytest.fixture(scope="module", autouse=True)
def _left_open():
    """Let what LiteLLM leaves open go while that is no error."""
    yield
    litellm.in_memory_llm_clients_cache.flush_cache()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            gc.collect()


@pytest.fixture
def run():
    before = faults()
    run = recorded()
    token = current.enter(run)
    yield run
    current.leave(token)
    assert faults() == before


@pytest.fixture
def told():
    """Set once LiteLLM has told of an end."""
    return threading.Semaphore(0)


@pytest.fixture
def install(told):
    def installed(watching):
        # After ours in the list: when this was called, ours was.
        litellm.callbacks = [watching, _Told(told)]
        return watching

    yield installed
    for callbacks in (
        litellm.callbacks, litellm.input_callback, litellm.success_callback, litellm.failure_callback,
        litellm._async_success_callback, litellm._async_failure_callback,
    ):  # fmt: skip
        callbacks.clear()


class _Told(litellm.integrations.custom_logger.CustomLogger):  # type: ignore[misc]  # Any where it is not installed
    def __init__(self, semaphore):
        super().__init__()
        self._semaphore = semaphore

    def log_success_event(self, *_, **__):
        self._semaphore.release()

    def log_failure_event(self, *_, **__):
        self._semaphore.release()

    async def async_log_success_event(self, *_, **__):
        self._semaphore.release()

    async def async_log_failure_event(self, *_, **__):
        self._semaphore.release()


@pytest.fixture
def asked(provider):
    return {
        "model": "openai/gpt-x",
        "api_key": "sk-CANARY-7f3a",
        "api_base": f"{provider.url}/v1",
        "messages": MESSAGES,
        "max_retries": 0,
    }


@pytest.fixture
def wait(told):
    def waited(times=1):
        for _ in range(times):
            assert told.acquire(timeout=WITHIN_S)

    return waited


def texts(part):
    return [item["text"] for item in part.content["choices"][0]["items"] if item["type"] == "text"]


def test_a_call_is_one_exchange_with_both_parts(install, run, asked, wait):
    install(logger())
    litellm.completion(**asked, temperature=0.5, tools=TOOLS)
    wait()
    request, output = run.attempt.request, run.attempt.output
    assert request.content["body"]["messages"] == MESSAGES
    assert request.content["body"]["tools"] == TOOLS
    assert request.content["body"]["temperature"] == 0.5
    assert request.vantage == output.vantage == "gateway"
    assert texts(output) == [TEXT]
    (call,) = [item for item in output.content["choices"][0]["items"] if item["type"] == "tool_call"]
    assert call["arguments"]["raw"] == "".join(ARGUMENTS)
    assert output.content["usage"]["source"] == "provider"
    assert (run.attempt.dispatch, run.attempt.settlement) == ("dispatched", "completed")
    assert run.attempt.references["response"] == "chatcmpl-1"


def test_a_stream_is_told_of_on_a_thread_without_our_context(install, run, asked, wait):
    install(logger())
    read = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**asked, stream=True))
    wait()
    assert texts(run.attempt.output) == [read] == [TEXT]
    assert run.attempt.output.content["stream"]["state"] == "finished-no-terminal"


def test_a_stream_that_was_cut_is_not_complete(provider, install, run, asked, wait):
    provider.will(Turn(cut_after=3))
    install(logger())
    with pytest.raises(litellm.exceptions.MidStreamFallbackError):
        list(litellm.completion(**asked, stream=True))
    wait()
    assert run.attempt.output.content["stream"]["state"] == "error"
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == "failed"


def test_a_failure_is_an_attempt_with_the_class_of_its_error(provider, install, run, asked, wait):
    provider.will(Turn(status=503))
    install(logger())
    with pytest.raises(litellm.exceptions.ServiceUnavailableError):
        litellm.completion(**asked)
    wait()
    assert run.attempt.request.content["body"]["messages"] == MESSAGES
    assert run.attempt.output.content["stream"]["error"]["kind"] == "ServiceUnavailableError"
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == "failed"


def test_tries_of_a_router_are_attempts_of_one_exchange(provider, install, run, asked, wait):
    provider.will(Turn(status=503), Turn(status=503))
    install(logger())
    given = {name: value for name, value in asked.items() if name != "messages"}
    router = litellm.Router([{"model_name": "m", "litellm_params": given}], num_retries=2, retry_after=0)
    router.completion(model="m", messages=MESSAGES)
    wait(3)
    assert [attempt.settlement for attempt in run.attempts] == ["failed", "failed", "completed"]


def test_two_calls_of_one_trace_are_two_exchanges(install, run, asked, wait):
    install(logger())
    for _ in range(2):
        litellm.completion(**asked, litellm_trace_id="trace-1")
    wait(2)
    assert [len(exchange.attempts) for exchange in run.exchanges] == [1, 1]


def test_async_calls_too(provider, install, asked):
    run = recorded()
    install(logger())

    async def calls():
        current.enter(run)
        await litellm.acompletion(**asked)
        async for _ in await litellm.acompletion(**asked, stream=True):
            pass
        provider.will(Turn(status=503))
        with pytest.raises(litellm.exceptions.ServiceUnavailableError):
            await litellm.acompletion(**asked)
        async with asyncio.timeout(WITHIN_S):
            while len(run.exchanges) < 3:  # noqa: ASYNC110 -- told on tasks of LiteLLM's own
                await asyncio.sleep(0.01)

    asyncio.run(calls())
    settled = [attempt.settlement for exchange in run.exchanges for attempt in exchange.attempts]
    assert sorted(settled) == ["completed", "completed", "failed"]


@pytest.mark.parametrize("everywhere", [True, False])
def test_what_litellm_is_told_to_keep_is_not_captured(install, run, asked, wait, monkeypatch, everywhere):
    monkeypatch.setattr(litellm, "turn_off_message_logging", everywhere)
    install(logger(turn_off_message_logging=not everywhere))
    litellm.completion(**asked)
    wait()
    assert (run.attempt.request, run.attempt.output) == (None, None)
    assert run.attempt.unseen == ["logical-request", "observable-output"]
    assert run.attempt.settlement == "completed"
    assert b"Weather" not in run.everything()


def test_what_is_not_admitted_is_not_looked_at(install, asked, wait):
    run = recorded(admitted=frozenset())
    token = current.enter(run)
    install(logger())
    litellm.completion(**asked)
    wait()
    current.leave(token)
    assert run.attempt.refused == ["logical-request", "observable-output"]


def test_no_key_is_copied(install, run, asked, wait):
    install(logger())
    litellm.completion(**asked, extra_headers={"x-api-key": "CANARY-header"})
    wait()
    assert b"CANARY" not in run.everything()


def test_a_call_may_name_its_run(install, asked, wait):
    runs: dict[str, Any] = {}

    class Service:
        def run(self, run_id):
            return runs.setdefault(run_id, recorded())

    install(logger(cast("Any", Service())))
    litellm.completion(**asked, metadata={"custody_run": "r-7"})
    wait()
    assert len(runs["r-7"].exchanges) == 1


def test_without_any_run_nothing_is_observed(install, asked, wait):
    install(logger())
    assert litellm.completion(**asked).choices[0].message.content == TEXT
    wait()


@pytest.mark.parametrize("status", [200, 503])
def test_with_a_tap_inside_there_is_one_exchange_from_the_wire(
    provider, install, run, asked, wait, monkeypatch, status
):
    provider.will(Turn(status=status))
    install(logger())
    with tap(httpx.Client()) as client:
        monkeypatch.setattr(litellm, "client_session", client)
        try:
            litellm.completion(**{**asked, "api_key": f"sk-{status}"})
        except litellm.exceptions.ServiceUnavailableError:
            assert status == 503
        wait()
    assert run.attempt.request.vantage == "wire"
