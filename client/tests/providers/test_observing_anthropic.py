"""Anthropic's SDK, observed and through its middleware: both see the same, and change nothing."""

import asyncio
import json
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import beta_tool
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from client.tests.providers import seen
from client.tests.providers.answers import TEXT
from client.tests.providers.fake_provider import Turn
from client.tests.recorded import KINDS, Untouchable, recorded
from custody_client.adapters.anthropic import _begun, middleware
from custody_client.adapters.observing import observe

ASKED: Any = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Weather?"}]}


def made(provider, kind=anthropic.Anthropic, **settings):
    return kind(base_url=provider.url, api_key="sk-none", **settings)


def observed(provider, run, kind=anthropic.Anthropic, **settings):
    return observe(made(provider, kind, **settings), run=run)


def through_middleware(provider, run, kind=anthropic.Anthropic, **settings):
    return made(provider, kind, middleware=[middleware(run)], **settings)


WAYS = pytest.mark.parametrize("way", [observed, through_middleware])


@pytest.fixture
def plain(provider):
    with made(provider) as client:
        yield client


@WAYS
def test_a_whole_answer_is_equal_and_seen(provider, run, plain, way):
    asked = {**ASKED, "system": "Be brief.", "stop_sequences": ["END"]}
    with way(provider, run) as client:
        assert client.messages.create(**asked) == plain.messages.create(**asked)
    seen.is_whole(run.attempt)
    request = run.attempt.request.content
    assert request["body"] == asked
    assert request["route"]["api"] == "anthropic.messages"
    assert request["model"] == "claude-x"


@WAYS
def test_what_can_be_read_but_once_is_read_by_the_sdk(provider, run, way):
    with way(provider, run) as client:
        said = ({"type": "text", "text": word} for word in ("Weather", "?"))
        client.messages.create(
            **{**ASKED, "messages": ({"role": "user", "content": each} for each in [said])}
        )
    assert json.loads(provider.asked[0].body)["messages"][0]["content"][1]["text"] == "?"
    assert run.attempt.request.content["body"] == json.loads(provider.asked[0].body)


@WAYS
def test_a_stream_is_equal_and_seen(provider, run, plain, way):
    with way(provider, run) as client:
        stream = client.messages.create(**ASKED, stream=True)
        assert type(stream) is anthropic.Stream
        assert list(stream) == list(plain.messages.create(**ASKED, stream=True))
        with client.messages.create(**ASKED, stream=True) as stream:
            assert len(list(stream)) > 5
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])
        assert exchange.attempts[0].output.content["stream"]["terminal"] == "message_stop"


@WAYS
def test_the_stream_helper_works(provider, run, way):
    with way(provider, run) as client:
        with client.messages.stream(**ASKED) as stream:
            assert "".join(stream.text_stream) == TEXT
            assert stream.get_final_message().stop_reason == "tool_use"
        with client.beta.messages.stream(**ASKED) as stream:
            assert stream.get_final_text() == TEXT
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


@WAYS
def test_raw_responses_work(provider, run, plain, way):
    with way(provider, run) as client:
        assert client.messages.with_raw_response.create(**ASKED).parse() == plain.messages.create(**ASKED)
        with client.messages.with_streaming_response.create(**ASKED, stream=True) as response:
            assert "message_stop" in list(response.iter_lines())[-3]
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


@WAYS
def test_each_call_of_a_tool_runner_is_an_exchange(provider, run, way):
    @beta_tool  # type: ignore[untyped-decorator] # the SDK is elsewhere than where types are checked
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city}"

    with way(provider, run) as client:
        runner = client.beta.messages.tool_runner(**ASKED, tools=[weather], max_iterations=2)
        assert len(list(runner)) == 2
    assert len(run.exchanges) == 2
    assert b"sunny in Rome" in run.exchanges[1].attempts[0].request.body


@WAYS
def test_retries_are_attempts_of_one_exchange(provider, run, way):
    provider.will(Turn(status=529), Turn(status=500))
    with way(provider, run) as client:
        client.messages.create(**ASKED)
        client.messages.create(**ASKED)
    retried, once = run.exchanges
    assert [attempt.settlement for attempt in retried.attempts] == ["failed", "failed", "completed"]
    assert [attempt.request is not None for attempt in retried.attempts] == [True, False, False]
    assert len(once.attempts) == 1


@WAYS
def test_a_call_after_one_that_failed_for_good_is_another_exchange(provider, run, way):
    provider.will(Turn(status=500))
    with way(provider, run, max_retries=0) as client:
        with pytest.raises(anthropic.InternalServerError):
            client.messages.create(**ASKED)
        client.messages.create(**ASKED)
    assert [exchange.attempts[0].settlement for exchange in run.exchanges] == ["failed", "completed"]


@WAYS
def test_nobody_there_is_not_dispatched(run, way):
    class Nowhere:
        url = "http://127.0.0.1:9"

    with way(Nowhere, run, max_retries=0) as client, pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**ASKED)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("not_dispatched", "failed")


@WAYS
@pytest.mark.parametrize("rudely", [False, True])
def test_a_cut_stream_is_interrupted(provider, run, way, rudely):
    provider.will(Turn(cut_after=4, rudely=rudely))
    with way(provider, run) as client:
        try:
            list(client.messages.create(**ASKED, stream=True))
        except (anthropic.APIError, httpx2.RemoteProtocolError):
            assert rudely
    assert seen.text(run.attempt) == "Let me "
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == "failed"


@WAYS
@pytest.mark.parametrize("how", ["close", "with", "helper"])
def test_a_consumer_that_stops_has_cancelled(provider, run, way, how):
    provider.will(Turn(pause_s=0.05))
    with way(provider, run) as client:
        if how == "helper":
            with client.messages.stream(**ASKED) as helper:
                next(iter(helper))
        else:
            stream = client.messages.create(**ASKED, stream=True)
            next(stream)
            stream.close()
    assert seen.state(run.attempt) == "cancelled"
    assert run.attempt.settlement == "cancelled"


@WAYS
def test_what_is_not_admitted_is_not_touched(provider, way):
    run = recorded(admitted=frozenset())
    with way(provider, run) as client:
        client.messages.create(**ASKED)
        list(client.messages.create(**ASKED, stream=True))
    assert [exchange.attempts[0].refused for exchange in run.exchanges] == [sorted(KINDS)] * 2


def test_the_middleware_passes_on_what_may_not_be_looked_at():
    class Options:
        idempotency_key, extra_json = None, None

    class Request:
        method, url, json, options, retries_taken = "POST", "/v1/messages", Untouchable(), Options(), 0

    assert _begun(recorded(admitted=frozenset()), Request()) is not None


def test_a_middleware_further_in_may_answer_by_itself(provider, run, plain):
    kept = plain.messages.create(**ASKED)
    client = made(provider, middleware=[middleware(run), lambda _request, _call_next: kept])
    assert client.messages.create(**ASKED) is kept
    assert seen.text(run.attempt) == TEXT
    assert run.attempt.dispatch == "not_dispatched"
    client.close()


@WAYS
def test_bedrocks_client_is_seen_without_its_keys(provider, run, way):
    def bedrock(*, api_key, **settings):
        keys = {"aws_access_key": "AKCANARY", "aws_secret_key": "sk-CANARY", "aws_region": "eu-west-1"}
        return anthropic.AnthropicBedrock(**keys, **settings)

    with way(provider, run, bedrock) as client:
        assert client.messages.create(**ASKED).content[0].text == TEXT
    assert provider.asked[0].path == "/model/claude-x/invoke"
    seen.is_whole(run.attempt)
    assert run.attempt.output.content["route"]["api"] == "bedrock.invoke"
    assert b"CANARY" not in run.everything()


def spans(provider, make):
    """What the SDK's own tracing tells of four calls, but for times and ids."""
    exporter = InMemorySpanExporter()
    traced = TracerProvider()
    traced.add_span_processor(SimpleSpanProcessor(exporter))
    with make(open_telemetry={"tracer_provider": traced}) as client:
        client.messages.create(**ASKED)
        list(client.messages.create(**ASKED, stream=True))
        with client.messages.stream(**ASKED) as helper:
            helper.get_final_message()
        with client.messages.create(**ASKED, stream=True) as stream:
            next(stream)
    told = exporter.get_finished_spans()
    assert len(told) == 4
    return [
        (span.name, span.status.status_code, sorted(span.attributes or ()), len(span.events)) for span in told
    ]


@WAYS
def test_the_sdks_own_spans_are_what_they_were(provider, run, way):
    theirs = spans(provider, lambda **settings: made(provider, **settings))
    assert spans(provider, lambda **settings: way(provider, run, **settings)) == theirs
    assert len(run.exchanges) == 4


async def _async(provider, run, way):
    async with way(provider, run, anthropic.AsyncAnthropic) as client:
        await client.messages.create(**ASKED)
        assert len([event async for event in await client.messages.create(**ASKED, stream=True)]) > 5
        async with client.messages.stream(**ASKED) as stream:
            assert await stream.get_final_text() == TEXT


@WAYS
async def test_the_async_client_is_seen(provider, run, way):
    await _async(provider, run, way)
    assert len(run.exchanges) == 3
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


@WAYS
async def test_async_retries_do_not_mix(provider, run, way):
    provider.will(Turn(status=529), Turn(status=529))
    async with way(provider, run, anthropic.AsyncAnthropic) as client:
        await asyncio.gather(*(client.messages.create(**ASKED) for _ in range(4)))
    assert len(run.exchanges) == 4
    assert sum(len(exchange.attempts) for exchange in run.exchanges) == 6
    assert {exchange.attempts[-1].settlement for exchange in run.exchanges} == {"completed"}


@WAYS
async def test_a_cancelled_task_has_cancelled(provider, run, way):
    provider.will(Turn(pause_s=5))
    begun = asyncio.Event()

    async def reading():
        async with way(provider, run, anthropic.AsyncAnthropic) as client:
            async for _ in await client.messages.create(**ASKED, stream=True):
                begun.set()

    task = asyncio.create_task(reading())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.attempt.settlement == "cancelled"
