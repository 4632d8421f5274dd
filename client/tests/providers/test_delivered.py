"""From the SDK's call to the bytes that Custody's service gets: the real client between, the service recorded."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

from client.tests.providers import recording_service
from client.tests.providers.answers import TEXT
from client.tests.providers.fake_provider import Provider, Turn
from client.tests.providers.recording_service import KEY, Service
from custody_client import Custody
from custody_client.adapters.anthropic import middleware
from custody_client.adapters.observing import observe
from custody_client.adapters.transports import tap

CANARY = "CANARY-7f3a"
SECRET = "sk-CANARY-9b1c"
MESSAGES: Any = [{"role": "user", "content": f"Weather? {CANARY}"}]


@pytest.fixture
def service() -> Iterator[Service]:
    yield from recording_service.serving()


@pytest.fixture
def custody(service: Service) -> Iterator[Custody]:
    custody = Custody(service.url, KEY)
    yield custody
    custody.close()


def openai_client(provider: Provider, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{provider.url}/v1", api_key=SECRET, **settings)


def chat(provider: Provider) -> Any:
    with observe(openai_client(provider)) as client:
        return client.chat.completions.create(model="gpt-x", messages=MESSAGES).choices[0].message.content


def responses(provider: Provider) -> Any:
    client = observe(openai_client(provider))
    with client, client.responses.stream(model="gpt-x", input=MESSAGES) as stream:
        return stream.get_final_response().output_text


def messages(provider: Provider) -> Any:
    with observe(anthropic.Anthropic(base_url=provider.url, api_key=SECRET)) as client:
        return client.messages.create(model="m", max_tokens=9, messages=MESSAGES).content[0].text


def through_middleware(provider: Provider) -> Any:
    client = anthropic.Anthropic(base_url=provider.url, api_key=SECRET, middleware=[middleware()])
    with client, client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream:
        return stream.get_final_text()


def gemini(provider: Provider) -> Any:
    client = observe(genai.Client(api_key=SECRET, http_options=types.HttpOptions(base_url=provider.url)))
    return (
        client.models.generate_content(model="g", contents=MESSAGES[0]["content"])
        .candidates[0]
        .content.parts[0]
        .text
    )


def tapped(provider: Provider) -> Any:
    with openai_client(provider, http_client=tap(openai.DefaultHttpx2Client())) as client:
        return client.chat.completions.create(model="gpt-x", messages=MESSAGES).choices[0].message.content


def tapped_and_observed(provider: Provider) -> Any:
    with observe(openai_client(provider, http_client=tap(openai.DefaultHttpx2Client()))) as client:
        return client.chat.completions.create(model="gpt-x", messages=MESSAGES).choices[0].message.content


def middleware_and_observed(provider: Provider) -> Any:
    with observe(
        anthropic.Anthropic(base_url=provider.url, api_key=SECRET, middleware=[middleware()])
    ) as client:
        return client.messages.create(model="m", max_tokens=9, messages=MESSAGES).content[0].text


def all_three(provider: Provider) -> Any:
    client = anthropic.Anthropic(
        base_url=provider.url,
        api_key=SECRET,
        middleware=[middleware()],
        http_client=tap(anthropic.DefaultHttpxClient()),
    )
    with observe(client):
        return client.messages.create(model="m", max_tokens=9, messages=MESSAGES).content[0].text


ADAPTERS = [
    chat,
    responses,
    messages,
    through_middleware,
    gemini,
    tapped,
    tapped_and_observed,
    middleware_and_observed,
    all_three,
]
RETRYING = [
    chat,
    responses,
    messages,
    through_middleware,
    tapped,
    tapped_and_observed,
    middleware_and_observed,
    all_three,
]


@pytest.mark.parametrize("called", ADAPTERS)
def test_one_call_is_one_exchange_with_one_request_and_one_output(called, provider, service, custody):
    with custody.run("r-1", wait=2.0):
        assert called(provider) == TEXT
    assert custody.flush(10.0)
    (attempts,) = service.exchanges().values()
    assert list(attempts) == ["1"]
    request, output = attempts["1"]["logical-request"], attempts["1"]["observable-output"]
    assert CANARY in str(request)
    assert request["schema"] == "logical-request/1"
    assert TEXT in str(output)
    assert output["schema"] == "observable-output/1"
    (state,) = service.states.values()
    assert (state["dispatch"], state["settlement"]) == ("dispatched", "completed")
    assert service.gaps == []


@pytest.mark.parametrize("called", RETRYING)
def test_a_retry_is_seen_as_two_attempts_whoever_looks(called, provider, service, custody):
    provider.will(Turn(status=500))
    with custody.run("r-1", wait=2.0):
        assert called(provider) == TEXT
    assert custody.flush(10.0)
    (attempts,) = service.exchanges().values()
    assert {number: sorted(kinds) for number, kinds in attempts.items()} == {
        "1": ["logical-request", "observable-output"],
        "2": ["observable-output"],
    }
    assert [state["settlement"] for state in service.states.values()] == ["failed", "completed"]


@pytest.mark.parametrize("called", ADAPTERS)
def test_no_credential_is_sent_to_custody(called, provider, service, custody):
    with custody.run("r-1", wait=2.0):
        called(provider)
    assert custody.flush(10.0)
    assert SECRET in str(provider.asked[0].headers)
    assert service.parts
    assert SECRET.encode() not in b"\n".join(service.raw)


def everywhere(provider: Provider, client: openai.OpenAI, word: str) -> None:
    """Make a call that holds a word wherever one may stand."""
    tool = {"type": "function", "function": {"name": word, "parameters": {"type": "object", "title": word}}}
    call = {"id": word, "type": "function", "function": {"name": word, "arguments": f'{{"q": "{word}"}}'}}
    client.chat.completions.create(
        model="gpt-x",
        messages=[
            {"role": "system", "content": word},
            {"role": "user", "content": word},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": word, "content": word},
        ],
        tools=[tool],
        stop=[word],
        user=word,
        metadata={word: word},
        extra_headers={"x-word": word},
        extra_query={"q": word},
        extra_body={"unknown_option": word, word: 1},
    )


def test_known_credentials_in_options_are_left_out(provider, service, custody):
    provider_url = provider.url.replace("http://", f"http://user:{SECRET}@")
    client = observe(openai.OpenAI(base_url=f"{provider_url}/v1", api_key=SECRET))
    mcp = {
        "type": "mcp",
        "server_label": "x",
        "server_url": f"https://x.example/?key={SECRET}",
        "authorization": SECRET,
    }
    with custody.run("r-1", wait=2.0), client:
        client.responses.create(
            model="gpt-x",
            input="x",
            tools=[{**mcp, "headers": {"Authorization": SECRET}}],
            extra_headers={"Authorization": SECRET, "api-key": SECRET},
            extra_query={"key": SECRET},
            extra_body={"api_key": SECRET, "base_url": f"https://api.example/v1?key={SECRET}"},
        )
    assert custody.flush(10.0)
    assert SECRET.encode() not in b"\n".join(service.raw)
    (attempts,) = service.exchanges().values()
    assert attempts["1"]["logical-request"]["left_out"] == ["api_key", "base_url"]


def test_one_mask_is_before_all_that_leaves(provider, service):
    masked = Custody(service.url, KEY, mask=lambda body: body.replace(CANARY.encode(), b"[masked]"))
    with masked.run("r-1", wait=2.0), observe(openai_client(provider)) as client:
        everywhere(provider, client, CANARY)
        provider.will(Turn(status=400))
        with pytest.raises(openai.BadRequestError):
            everywhere(provider, client, CANARY)
    assert masked.flush(10.0)
    masked.close()
    assert len(service.parts) == 4
    assert b"[masked]" in b"\n".join(service.raw)
    assert CANARY.encode() not in b"\n".join(service.raw)


def _raises(_: bytes) -> bytes:
    raise ValueError(CANARY)


@pytest.mark.parametrize("mask", [_raises, lambda _: None])
def test_a_mask_that_fails_lets_nothing_leave(provider, service, mask):
    masked = Custody(service.url, KEY, mask=mask)
    with masked.run("r-1", wait=2.0), observe(openai_client(provider)) as client:
        everywhere(provider, client, CANARY)
    assert masked.flush(10.0)
    masked.close()
    assert service.parts == {}
    assert CANARY.encode() not in b"\n".join(service.raw)
    assert {gap["reason"] for gap in service.gaps} == {"client_mask_failed"}


@pytest.mark.parametrize("by", ["runtime", "service"])
@pytest.mark.parametrize("called", ADAPTERS)
def test_with_content_off_nothing_of_it_arrives(called, by, provider, service, custody):
    service.admitted = by == "runtime"
    provider.will(Turn(status=400))
    with custody.run("r-1", content="opt_out" if by == "runtime" else "allow", wait=2.0):
        with pytest.raises(Exception, match="not now"):
            called(provider)
        assert called(provider) == TEXT
    custody.flush(10.0)
    assert service.parts == {}
    raw = b"\n".join(service.raw)
    assert CANARY.encode() not in raw
    assert TEXT.encode() not in raw
    assert b"not now" not in raw


def test_an_output_that_began_before_its_admission_is_a_gap(provider, service, custody):
    service.decided.clear()
    run = custody.run("r-1")
    with run, observe(openai_client(provider)) as client:
        with client.chat.completions.create(model="gpt-x", messages=MESSAGES, stream=True) as stream:
            next(stream)
            service.decided.set()
            while not run.admits("observable-output"):
                time.sleep(0.01)
            assert len(list(stream)) > 5
        assert chat(provider) == TEXT
    assert custody.flush(10.0)
    told = {number for exchange in service.exchanges().values() for number in exchange}
    assert told == {"1"}
    assert len(service.parts) == 2, "of the second call"
    assert CANARY.encode() in b"\n".join(service.raw)
    assert [gap["reason"] for gap in service.gaps] == ["not_observed"] * 2


async def test_many_tasks_of_one_run(provider, service, custody):
    async with (
        custody.run("r-1", wait=2.0),
        observe(openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key=SECRET)) as client,
    ):

        async def calling(number: int) -> None:
            stream = await client.chat.completions.create(
                model="gpt-x", messages=[{"role": "user", "content": f"number {number}"}], stream=True
            )
            assert len([chunk async for chunk in stream]) > 5

        await asyncio.gather(*(calling(number) for number in range(12)))
    assert custody.flush(10.0)
    exchanges = service.exchanges()
    assert len(exchanges) == 12
    said = sorted(
        str(attempts["1"]["logical-request"]["body"]["messages"]) for attempts in exchanges.values()
    )
    assert len(set(said)) == 12
    assert {attempts["1"]["observable-output"]["stream"]["state"] for attempts in exchanges.values()} == {
        "completed"
    }


@pytest.mark.parametrize("called", ADAPTERS)
def test_without_a_service_the_answer_is_the_same(called, provider):
    custody = Custody("http://127.0.0.1:9", KEY)
    with custody.run("r-1"):
        assert called(provider) == TEXT
    custody.close(0.0)


@pytest.mark.parametrize("called", ADAPTERS)
def test_without_a_run_the_answer_is_the_same(called, provider):
    assert called(provider) == TEXT
    assert len(provider.asked) == 1


def test_a_tap_of_httpx2_by_itself(provider, service, custody):
    body = {"model": "gpt-x", "messages": MESSAGES}
    with custody.run("r-1", wait=2.0), tap(httpx2.Client()) as client:
        client.post(f"{provider.url}/v1/chat/completions", json=body)
        with client.stream(
            "POST", f"{provider.url}/v1/chat/completions", json={**body, "stream": True}
        ) as response:
            assert response.read().endswith(b"data: [DONE]\n\n")
    assert custody.flush(10.0)
    assert len(service.exchanges()) == 2
    assert {header["vantage"] for header, _ in service.parts.values()} == {"wire"}
