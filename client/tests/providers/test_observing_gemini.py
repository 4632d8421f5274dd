"""`observe(genai.Client(…))`: sync over httpx2, async over aiohttp or httpx2, chats, retries, streams."""

import asyncio
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from client.tests.providers import seen
from client.tests.providers.answers import TEXT
from client.tests.providers.fake_provider import Turn
from client.tests.recorded import KINDS, Untouchable, recorded
from custody_client.adapters.gemini import _asked
from custody_client.adapters.observing import observe

# The SDK derives from a class of aiohttp's that would rather not be derived from.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

ASKED: Any = {"model": "gemini-x", "contents": "Weather?"}
RETRIES = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02, jitter=0)


def made(provider, **options):
    return genai.Client(api_key="sk-none", http_options=types.HttpOptions(base_url=provider.url, **options))


@pytest.fixture
def client(provider, run):
    return observe(made(provider), run=run)


@pytest.fixture
def plain(provider):
    return made(provider)


def same(ours, theirs):
    """Equal but for the headers, which hold a date."""
    without = {"sdk_http_response"}
    return ours.model_dump(exclude=without) == theirs.model_dump(exclude=without)


def test_it_is_the_same_client(client, run):
    assert observe(client, run=run) is client
    assert isinstance(client, genai.Client)


def test_a_whole_answer_is_equal_and_seen(client, plain, run):
    asked = {
        **ASKED,
        "config": types.GenerateContentConfig(
            temperature=0.5,
            system_instruction="Be brief.",
            tools=[{"function_declarations": [{"name": "weather"}]}],
        ),
    }
    assert same(client.models.generate_content(**asked), plain.models.generate_content(**asked))
    seen.is_whole(run.attempt)
    request = run.attempt.request.content
    assert request["model"] == "gemini-x"
    assert request["body"]["contents"][0]["parts"][0]["text"] == "Weather?"
    assert request["body"]["systemInstruction"]["parts"][0]["text"] == "Be brief."
    assert request["body"]["generationConfig"] == {"temperature": 0.5}
    assert request["body"]["tools"] == [{"functionDeclarations": [{"name": "weather"}]}]
    assert "left_out" not in request


def test_every_chunk_of_a_stream_is_equal_and_seen(client, plain, run):
    ours = list(client.models.generate_content_stream(**ASKED))
    theirs = list(plain.models.generate_content_stream(**ASKED))
    assert all(same(*pair) for pair in zip(ours, theirs, strict=True))
    seen.is_whole(run.attempt)


def test_chats_are_seen(client, run):
    chat = client.chats.create(model="gemini-x")
    assert chat.send_message("Weather?").candidates[0].content.parts[0].text == TEXT
    assert len(list(chat.send_message_stream("And now?"))) == 4
    assert len(run.exchanges) == 2
    assert b"And now?" in run.exchanges[1].attempts[0].request.body
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


def test_functions_that_the_sdk_calls_by_itself_make_exchanges(client, run):
    def weather(city: str) -> str:
        return f"sunny in {city}"

    calling = types.AutomaticFunctionCallingConfig(maximum_remote_calls=2)
    config = types.GenerateContentConfig(tools=[weather], automatic_function_calling=calling)
    client.models.generate_content(**ASKED, config=config)
    assert len(run.exchanges) > 1
    assert b"sunny in Rome" in run.exchanges[1].attempts[0].request.body


def test_retries_are_attempts(provider, run):
    provider.will(Turn(status=503), Turn(status=429))
    client = observe(made(provider, retry_options=RETRIES), run=run)
    client.models.generate_content(**ASKED)
    assert [attempt.settlement for attempt in run.attempts] == ["failed", "failed", "completed"]
    assert [attempt.output is not None for attempt in run.attempts] == [True] * 3
    seen.is_whole(run.attempts[-1])


def test_an_error_is_the_sdks_and_is_seen(client, run, provider):
    provider.will(Turn(status=400))
    with pytest.raises(errors.ClientError):
        client.models.generate_content(**ASKED)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("dispatched", "failed")
    assert seen.state(run.attempt) == "error"


def test_nobody_there_is_not_dispatched(run):
    class Nowhere:
        url = "http://127.0.0.1:9"

    client = observe(made(Nowhere), run=run)
    with pytest.raises(Exception, match="refused"):
        client.models.generate_content(**ASKED)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("not_dispatched", "failed")


def test_a_cut_stream_is_interrupted(client, run, provider):
    provider.will(Turn(cut_after=2))
    list(client.models.generate_content_stream(**ASKED))
    assert seen.text(run.attempt) == "Let me "
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == "failed"


def test_a_connection_that_breaks_is_interrupted(client, run, provider):
    provider.will(Turn(cut_after=2, rudely=True))
    with pytest.raises(Exception, match="peer closed"):
        list(client.models.generate_content_stream(**ASKED))
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == "failed"


def test_a_consumer_that_stops_has_cancelled(client, run, provider):
    provider.will(Turn(pause_s=0.05))
    stream = client.models.generate_content_stream(**ASKED)
    next(stream)
    stream.close()
    assert seen.state(run.attempt) == "cancelled"
    assert run.attempt.settlement == "cancelled"


def test_chunks_are_not_held_back(client, provider):
    provider.will(Turn(pause_s=0.15))
    stream = client.models.generate_content_stream(**ASKED)
    next(stream)
    assert not provider.done.is_set()
    stream.close()


def test_what_is_not_admitted_is_not_touched(provider):
    run = recorded(admitted=frozenset())
    client = observe(made(provider), run=run)
    client.models.generate_content(**ASKED)
    list(client.models.generate_content_stream(**ASKED))
    assert [exchange.attempts[0].refused for exchange in run.exchanges] == [sorted(KINDS)] * 2
    untouchable: Any = Untouchable()
    assert _asked(client._api_client, run, "post", "models/m:generateContent", untouchable) is not None


@pytest.fixture(params=["aiohttp", "httpx2"])
def async_client(request, provider, run, monkeypatch):
    client = observe(made(provider), run=run)
    if request.param == "httpx2":
        monkeypatch.setattr(client._api_client, "_use_aiohttp", lambda: False)
    assert client._api_client._use_aiohttp() == (request.param == "aiohttp")
    return client


async def test_the_async_client_is_seen(async_client, run):
    async with async_client.aio as client:
        whole = await client.models.generate_content(**ASKED)
        chunks = [chunk async for chunk in await client.models.generate_content_stream(**ASKED)]
    assert whole.candidates[0].content.parts[0].text == TEXT
    assert len(chunks) == 4
    assert len(run.exchanges) == 2
    for exchange in run.exchanges:
        seen.is_whole(exchange.attempts[0])


async def test_a_cut_async_stream_is_interrupted(async_client, run, provider):
    provider.will(Turn(cut_after=2))
    async with async_client.aio as client:
        assert len([chunk async for chunk in await client.models.generate_content_stream(**ASKED)]) == 2
    assert run.attempt.output.completeness == "interrupted"


async def test_a_cancelled_task_has_cancelled(async_client, run, provider):
    provider.will(Turn(pause_s=5))
    begun = asyncio.Event()

    async def reading():
        async with async_client.aio as client:
            async for _ in await client.models.generate_content_stream(**ASKED):
                begun.set()

    task = asyncio.create_task(reading())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.attempt.settlement == "cancelled"


async def test_async_retries_are_attempts(provider, run):
    provider.will(Turn(status=503))
    async with observe(made(provider, retry_options=RETRIES), run=run).aio as client:
        await client.models.generate_content(**ASKED)
    assert [attempt.settlement for attempt in run.attempts] == ["failed", "completed"]
