"""`observe(OpenAI(…))`: all ways in which the SDK is used work as before, and are seen."""

import asyncio
import gc
import json

import httpx
import httpx2
import openai
import pydantic
import pytest
from openai.lib.streaming.chat import ContentDeltaEvent

from client.tests.providers import seen
from client.tests.providers.answers import TEXT, WORDS
from client.tests.providers.fake_provider import Turn
from client.tests.recorded import KINDS, Untouchable, recorded
from custody_client.adapters.observing import observe

MESSAGES = [{"role": "user", "content": "Weather?"}]
CHAT = {"model": "gpt-x", "messages": MESSAGES}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def made(provider, kind=openai.OpenAI, **settings):
    return kind(base_url=f"{provider.url}/v1", api_key="sk-none", **settings)


@pytest.fixture
def client(provider, run):
    with observe(made(provider), run=run) as client:
        yield client


@pytest.fixture
def plain(provider):
    with made(provider) as client:
        yield client


def test_it_is_the_same_client(provider, run):
    client = made(provider)
    assert observe(observe(client, run=run)) is client
    assert isinstance(client, openai.OpenAI)


def test_a_whole_answer_is_equal_and_seen(client, plain, run):
    asked = {**CHAT, "tools": [TOOL], "temperature": 0.5, "seed": 7}
    assert client.chat.completions.create(**asked) == plain.chat.completions.create(**asked)
    seen.is_whole(run.attempt)
    request = run.attempt.request.content
    assert request["body"] == asked
    assert request["route"] == {"host": "127.0.0.1", "api": "chat.completions"}
    assert (request["vantage"], run.attempt.request.vantage) == ("sdk", "sdk")
    assert "left_out" not in request


def test_what_can_be_read_but_once_is_read_by_the_sdk(client, run, provider):
    client.chat.completions.create(model="gpt-x", messages=(message for message in MESSAGES))
    assert json.loads(provider.asked[0].body)["messages"] == MESSAGES
    assert run.attempt.request.content["body"] == json.loads(provider.asked[0].body)


def test_every_chunk_of_a_stream_is_equal_and_seen(client, plain, run):
    asked = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    stream = client.chat.completions.create(**asked)
    assert type(stream) is openai.Stream
    assert list(stream) == list(plain.chat.completions.create(**asked))
    seen.is_whole(run.attempt)
    assert run.attempt.output.content["stream"]["terminal"] == "[DONE]"


def test_a_stream_works_as_a_context_manager(client, run):
    with client.chat.completions.create(**CHAT, stream=True) as stream:
        assert next(stream).choices[0].delta.role == "assistant"
        rest = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    assert rest == TEXT
    seen.is_whole(run.attempt)


def test_the_stream_helper_works(client, run):
    with client.chat.completions.stream(**CHAT) as stream:
        said = [event.delta for event in stream if isinstance(event, ContentDeltaEvent)]
        assert stream.get_final_completion().choices[0].message.content == TEXT
    assert [word for word in said if word] == list(WORDS)
    seen.is_whole(run.attempt)


def test_parse_works(client, run, provider):
    class Weather(pydantic.BaseModel):
        city: str

    tool = openai.pydantic_function_tool(Weather, name="weather")
    parsed = client.chat.completions.parse(**CHAT, tools=[tool])
    assert parsed.choices[0].message.tool_calls[0].function.parsed_arguments == Weather(city="Rome")
    seen.is_whole(run.attempt)
    assert run.attempt.request.content["body"]["tools"][0]["function"]["name"] == "weather"


def test_responses_work_whole_streamed_and_by_helper(client, plain, run):
    asked = {"model": "gpt-x", "input": "Weather?", "instructions": "Be brief."}
    assert client.responses.create(**asked) == plain.responses.create(**asked)
    assert list(client.responses.create(**asked, stream=True)) == list(
        plain.responses.create(**asked, stream=True)
    )
    with client.responses.stream(**asked) as stream:
        assert stream.get_final_response().output_text == TEXT
    assert len(run.exchanges) == 3
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])
        assert exchange.attempts[0].request.content["body"]["instructions"] == "Be brief."


def test_raw_responses_work(client, plain, run):
    raw = client.chat.completions.with_raw_response.create(**CHAT)
    assert raw.parse() == plain.chat.completions.create(**CHAT)
    streamed = client.chat.completions.with_raw_response.create(**CHAT, stream=True)
    assert list(streamed.parse()) == list(plain.chat.completions.create(**CHAT, stream=True))
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


def test_streaming_responses_work(client, plain, run):
    with client.chat.completions.with_streaming_response.create(**CHAT) as response:
        assert response.parse() == plain.chat.completions.create(**CHAT)
    with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as response:
        lines = list(response.iter_lines())
    assert lines[-2] == "data: [DONE]"
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


def test_clients_made_of_it_are_observed_too(client, run):
    client.with_options(timeout=5).chat.completions.create(**CHAT)
    client.copy(max_retries=0).chat.completions.create(**CHAT)
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])
    assert len(run.exchanges) == 2


def test_azures_client_is_observed(provider, run):
    with observe(
        openai.AzureOpenAI(azure_endpoint=provider.url, api_key="sk-none", api_version="2026-01-01"), run=run
    ) as client:
        assert client.chat.completions.create(**CHAT).choices[0].message.content == TEXT
    seen.is_whole(run.attempt)


def test_retries_are_attempts(client, run, provider):
    provider.will(Turn(status=429), Turn(status=500))
    assert client.chat.completions.create(**CHAT).choices[0].message.content == TEXT
    assert [attempt.settlement for attempt in run.attempts] == ["failed", "failed", "completed"]
    assert [attempt.output is not None for attempt in run.attempts] == [True] * 3
    assert [attempt.request is not None for attempt in run.attempts] == [True, False, False]
    seen.is_whole(run.attempts[-1])


def test_an_error_is_the_sdks_and_is_seen(client, plain, run, provider):
    provider.will(Turn(status=400), Turn(status=400))
    with pytest.raises(openai.BadRequestError) as ours:
        client.chat.completions.create(**CHAT)
    with pytest.raises(openai.BadRequestError) as theirs:
        plain.chat.completions.create(**CHAT)
    assert str(ours.value) == str(theirs.value)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("dispatched", "failed")
    assert seen.state(run.attempt) == "error"


def test_nobody_there_is_not_dispatched(run):
    nowhere = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="sk-none", max_retries=1)
    with observe(nowhere, run=run) as client, pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**CHAT)
    assert [(a.dispatch, a.settlement) for a in run.attempts] == [("not_dispatched", "failed")] * 2


def test_a_request_that_the_sdk_refuses_was_not_dispatched(provider, run):
    with observe(made(provider, default_headers={"x-bad": "\n"}), run=run) as client:
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(**CHAT)
        with pytest.raises(UnicodeEncodeError):
            client.with_options(default_headers={"x-bad": "\N{SNOWMAN}"}).chat.completions.create(**CHAT)
    told = [(a.dispatch, a.settlement) for exchange in run.exchanges for a in exchange.attempts]
    assert told == [("not_dispatched", "failed")] * len(told)
    assert len(run.exchanges) == 2
    assert provider.asked == []


@pytest.mark.parametrize("rudely", [False, True])
def test_a_cut_stream_is_interrupted(client, run, provider, rudely):
    provider.will(Turn(cut_after=3, rudely=rudely))
    said = []
    try:
        said += [c.choices[0].delta.content for c in client.chat.completions.create(**CHAT, stream=True)]
    except (openai.APIConnectionError, httpx2.RemoteProtocolError):
        assert rudely
    assert seen.text(run.attempt) == "Let me "
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == "failed"


def test_an_end_that_is_not_said_is_told(client, run, provider):
    provider.will(Turn(terminal=False))
    list(client.chat.completions.create(**CHAT, stream=True))
    assert seen.state(run.attempt) == "finished-no-terminal"
    assert run.attempt.settlement == "completed"


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_a_consumer_that_stops_has_cancelled(client, run, provider, how):
    provider.will(Turn(pause_s=0.05))
    stream = client.chat.completions.create(**CHAT, stream=True)
    if how == "with":
        with stream:
            next(stream)
    else:
        next(stream)
        if how == "close":
            stream.close()
        del stream
        gc.collect()
    assert seen.state(run.attempt) == "cancelled"
    assert run.attempt.settlement == "cancelled"


def test_chunks_are_not_held_back(client, provider):
    provider.will(Turn(pause_s=0.15))
    with client.chat.completions.create(**CHAT, stream=True) as stream:
        next(stream)
        # The provider writes the second one only later: the first came alone.
        assert not provider.done.is_set()


def test_where_no_transport_can_be_tapped_nobody_says_that_it_was_not_sent(client, run, provider):
    client._client._transport = client._client._transport._transport
    provider.will(Turn(status=400))
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**CHAT)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("unknown", "failed")


def test_a_client_of_httpx_is_observed_too(provider, run):
    with observe(made(provider, http_client=httpx.Client()), run=run) as client:
        client.chat.completions.create(**CHAT)
        list(client.chat.completions.create(**CHAT, stream=True))
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


@pytest.mark.parametrize("streamed", [False, True])
def test_where_no_transport_can_be_tapped_the_answer_is_seen_all_the_same(client, run, streamed):
    client._client._transport = client._client._transport._transport
    answered = client.chat.completions.create(**CHAT, stream=streamed)
    if streamed:
        list(answered)
    seen.is_whole(run.attempt)
    assert run.attempt.output.vantage == ("wire" if streamed else "sdk")


def test_what_is_not_admitted_is_not_touched(provider):
    run = recorded(admitted=frozenset())
    sent = []

    def answer(request):
        sent.append(request)
        return httpx2.Response(
            200, json={"id": "x", "object": "chat.completion", "choices": [], "model": "m", "created": 1}
        )

    class Options:
        method, url, json_data, extra_json = "post", "/chat/completions", Untouchable(), None

    client = observe(
        made(provider, http_client=httpx2.Client(transport=httpx2.MockTransport(answer))), run=run
    )
    from custody_client.adapters.observing import _asked  # noqa: PLC0415

    assert _asked(client, run, (object, Options()), {}) is not None
    client.chat.completions.create(**CHAT)
    assert len(sent) == 1
    assert run.exchanges[1].attempts[0].refused == sorted(KINDS)


async def test_the_async_client_is_observed(provider, run):
    async with observe(made(provider, openai.AsyncOpenAI), run=run) as client:
        await client.chat.completions.create(**CHAT)
        said = [chunk async for chunk in await client.chat.completions.create(**CHAT, stream=True)]
        async with client.chat.completions.stream(**CHAT) as stream:
            assert (await stream.get_final_completion()).choices[0].message.content == TEXT
        async with client.responses.stream(model="gpt-x", input="Weather?") as stream:
            assert (await stream.get_final_response()).output_text == TEXT
        raw = await client.chat.completions.with_raw_response.create(**CHAT)
        assert raw.parse().choices[0].message.content == TEXT
    assert len(said) > 5
    assert len(run.exchanges) == 5
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


async def test_async_retries_are_attempts_and_tasks_do_not_mix(provider, run):
    provider.will(Turn(status=503), Turn(status=503))
    async with observe(made(provider, openai.AsyncOpenAI), run=run) as client:
        await asyncio.gather(*(client.chat.completions.create(**CHAT) for _ in range(4)))
    assert len(run.exchanges) == 4
    assert sum(len(exchange.attempts) for exchange in run.exchanges) == 6
    assert {exchange.attempts[-1].settlement for exchange in run.exchanges} == {"completed"}


async def test_a_cancelled_task_has_cancelled(provider, run):
    provider.will(Turn(pause_s=5))
    begun = asyncio.Event()

    async def reading():
        async with observe(made(provider, openai.AsyncOpenAI), run=run) as client:
            async for _ in await client.chat.completions.create(**CHAT, stream=True):
                begun.set()

    task = asyncio.create_task(reading())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.attempt.settlement == "cancelled"
