"""The tap on httpx over real sockets: what passes is what would have passed, and what is seen is what passed."""

import asyncio
import gc
import json
import threading
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from client.tests.providers import answers
from client.tests.providers.fake_provider import Turn, serving
from client.tests.recorded import KINDS, recorded
from custody_client.adapters import logical_request, transports
from custody_client.adapters.answers import Answer
from custody_client.adapters.calls import begin, seen
from custody_client.adapters.faults import faults
from custody_client.adapters.routes import Route
from custody_client.adapters.transports import Tap, tap
from custody_client.trouble import Trouble

BODY = {"model": "gpt-x", "messages": [{"role": "user", "content": "Weather?"}]}
STREAM = {**BODY, "stream": True}
SECRET = "sk-CANARY-7f3a"


@pytest.fixture
def provider():
    yield from serving()


@pytest.fixture
def run():
    before = faults()
    yield recorded()
    assert faults() == before


@pytest.fixture
def url(provider):
    return f"{provider.url}/v1/chat/completions"


@pytest.fixture
def client(run):
    with tap(httpx.Client(), run=run) as client:
        yield client


def plainly(url, body):
    with httpx.Client() as client:
        return client.post(url, json=body)


def test_a_whole_answer_is_what_it_was_and_is_seen(client, run, url):
    with_tap, without = client.post(url, json=BODY), plainly(url, BODY)
    assert with_tap.content == without.content
    assert run.attempt.output.content["choices"][0]["items"][0]["text"] == answers.TEXT
    assert run.attempt.output.vantage == "wire"
    assert (run.attempt.dispatch, run.attempt.settlement) == ("dispatched", "completed")
    assert run.attempt.references["response"] == "chatcmpl-1"
    assert seen(run, "chatcmpl-1")
    assert not seen(recorded(), "chatcmpl-1")


def test_the_request_holds_the_very_bytes_of_its_body(client, run, url, provider):
    body = b'{"model" : "gpt-x", "messages":[],  "seed":18446744073709551616}'
    client.post(url, content=body, headers={"content-type": "application/json"})
    request = run.attempt.request
    assert provider.asked[0].body == body
    assert body in request.body
    assert request.content["route"] == {"host": "127.0.0.1", "api": "chat.completions"}
    assert (request.content["model"], request.vantage, request.completeness) == ("gpt-x", "wire", "complete")


def test_chunks_come_one_by_one_and_unchanged(client, run, url, provider):
    provider.will(Turn(pause_s=0.02), Turn())
    with client.stream("POST", url, json=STREAM) as response:
        chunks = list(response.iter_raw())
    assert len(chunks) > 5
    assert b"".join(chunks) == plainly(url, STREAM).content
    assert run.attempt.output.content["stream"]["state"] == "completed"
    assert run.attempt.output.completeness == "complete"


def test_the_end_is_told_by_the_events_not_by_the_connection(client, run, url):
    with client.stream("POST", url, json=STREAM) as response:
        for line in response.iter_lines():
            if line == "data: [DONE]":
                break
    assert run.attempt.output.content["stream"]["state"] == "completed"
    assert run.attempt.settlement == "completed"


@pytest.mark.parametrize("rudely", [False, True])
def test_a_stream_that_is_cut_is_interrupted(client, run, url, provider, rudely):
    provider.will(Turn(cut_after=3, rudely=rudely))
    try:
        with client.stream("POST", url, json=STREAM) as response:
            response.read()
        cut = False
    except httpx.RemoteProtocolError:
        cut = True
    assert cut == rudely
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.output.content["choices"][0]["items"][0]["text"] == "Let me "
    assert run.attempt.settlement == "failed"


def test_a_reader_that_stops_has_cancelled(client, run, url, provider):
    provider.will(Turn(pause_s=0.05))
    with client.stream("POST", url, json=STREAM) as response:
        next(response.iter_bytes())
    assert run.attempt.output.content["stream"]["state"] == "cancelled"
    assert run.attempt.settlement == "cancelled"


def test_a_response_that_is_dropped_unread_has_an_end(run, url):
    client = tap(httpx.Client(), run=run)
    response = client.send(client.build_request("POST", url, json=STREAM), stream=True)
    del response
    gc.collect()
    assert run.attempt.settlement == "cancelled"
    client.close()


def test_a_compressed_answer_is_read_by_the_library_and_passes_compressed(client, run, url, provider):
    provider.will(Turn(gzipped=True), Turn(gzipped=True))
    assert client.post(url, json=BODY).json() == plainly(url, BODY).json()
    assert run.attempt.output.content["choices"][0]["items"][0]["text"] == answers.TEXT


@pytest.mark.parametrize("how", ["in pieces", "compressed"])
def test_a_request_that_cannot_be_read_is_said_to_be_unread(client, run, url, provider, how):
    body = json.dumps(BODY).encode()
    if how == "in pieces":
        client.post(url, content=iter([body]), headers={"content-length": str(len(body))})
    else:
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(url, content=answers.gzip(body), headers={"content-encoding": "gzip"})
    request = run.attempt.request
    assert (request.content["body"], request.content["shape"]) == (None, "not-read")
    assert request.completeness == "unknown"
    assert (how == "in pieces") == (run.attempt.settlement == "completed")


@pytest.mark.parametrize("broken", [False, True])
def test_any_pieces_pass_as_they_are_and_break_as_they_would(run, broken):
    whole = b"".join(answers.events("/chat/completions", STREAM))

    class Pieces(httpx.SyncByteStream):
        def __init__(self, size, cut):
            self.size, self.cut = size, cut

        def __iter__(self):
            for at in range(0, self.cut, self.size):
                yield whole[at : min(at + self.size, self.cut)]
            if broken:
                raise httpx.ReadError(SECRET)

    def read(transport):
        passed: list[Any] = []
        with httpx.Client(transport=transport) as client:
            try:
                with client.stream("POST", "http://x/v1/chat/completions", json=STREAM) as response:
                    passed += [*response.iter_raw()]
            except httpx.ReadError:
                passed.append("broken")
        return passed

    for cut in range(1, len(whole), 97):
        for size in (1 + cut // 3, 1000, len(whole)):
            mock = httpx.MockTransport(
                lambda _, size=size, cut=cut: httpx.Response(
                    200, headers={"content-type": "text/event-stream"}, stream=Pieces(size, cut)
                )
            )
            assert read(tap(mock, run=run)) == read(mock)
    assert all(exchange.attempts[0].settlement != "unknown" for exchange in run.exchanges)
    assert SECRET.encode() not in run.everything()


@pytest.mark.parametrize("kept", [1.0, 0.6])
def test_a_compressed_stream_is_read_when_it_has_ended(run, kept):
    events = b"".join(answers.events("/chat/completions", STREAM))
    compressed = answers.gzip(events)
    sent = compressed[: int(len(compressed) * kept)]

    def answering(_):
        stream = _Once(httpx.ByteStream(sent[:10]), httpx.ByteStream(sent[10:]))
        return httpx.Response(
            200, headers={"content-encoding": "gzip", "content-type": "text/event-stream"}, stream=stream
        )

    with httpx.Client(transport=tap(httpx.MockTransport(answering), run=run)) as client:
        response = client.post("http://x/v1/chat/completions", json=STREAM)
    assert events.startswith(response.content)
    state = run.attempt.output.content["stream"]["state"]
    assert state == ("completed" if kept == 1.0 else "interrupted")


def test_what_the_library_cannot_decompress_is_not_said_to_be_complete(run):
    def answering(_):
        broken = httpx.ByteStream(b"\x00 no gzip")
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=_Once(broken))

    client = httpx.Client(transport=tap(httpx.MockTransport(answering), run=run))
    with pytest.raises(httpx.DecodingError):
        client.post("http://x/v1/chat/completions", json=BODY)
    assert run.attempt.output.completeness == "unknown"


class _Once(httpx.SyncByteStream):
    def __init__(self, *bodies):
        self._bodies = bodies

    def __iter__(self):
        for body in self._bodies:
            yield from body


def test_an_answer_that_was_read_already_is_seen(run):
    answer = answers.whole("/chat/completions", BODY)
    mock = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    response = httpx.Client(transport=tap(mock, run=run)).post("http://x/v1/chat/completions", json=BODY)
    assert response.json() == answer
    assert run.attempt.output.content["choices"][0]["items"][0]["text"] == answers.TEXT


def test_tries_that_an_sdk_counts_are_attempts_of_one_exchange(client, run, url, provider):
    provider.will(Turn(status=429), Turn(status=500))
    for retry in range(3):
        client.post(url, json=BODY, headers={"x-stainless-retry-count": str(retry)})
    assert [attempt.settlement for attempt in run.attempts] == ["failed", "failed", "completed"]
    assert [attempt.request is not None for attempt in run.attempts] == [True, False, False]
    assert [attempt.output.content["stream"]["state"] for attempt in run.attempts] == [
        "error",
        "error",
        "completed",
    ]


def test_another_call_after_a_failed_one_is_another_exchange(client, run, url, provider):
    provider.will(Turn(status=429))
    for _ in range(2):
        client.post(url, json=BODY, headers={"x-stainless-retry-count": "0"})
    assert len(run.exchanges) == 2


def test_a_try_whose_first_ones_nobody_saw_keeps_its_number(client, run, url):
    client.post(url, json=BODY, headers={"x-stainless-retry-count": "2"})
    assert run.attempt.attempt_id == "3"


def test_a_host_that_is_not_there_was_never_reached(client, run):
    with pytest.raises(httpx.ConnectError):
        client.post("http://127.0.0.1:9/v1/chat/completions", json=BODY)
    assert (run.attempt.dispatch, run.attempt.settlement) == ("not_dispatched", "failed")
    assert run.attempt.output.content["stream"]["error"]["kind"] == "ConnectError"


def test_an_answer_that_comes_too_late_was_asked_for(run, url, provider):
    provider.will(Turn(pause_s=1.0))
    client = tap(httpx.Client(timeout=httpx.Timeout(5, read=0.1)), run=run)
    with pytest.raises(httpx.ReadTimeout), client.stream("POST", url, json=STREAM) as response:
        response.read()
    assert (run.attempt.dispatch, run.attempt.settlement) == ("dispatched", "failed")
    assert run.attempt.output.content["choices"]


def test_a_redirect_is_no_attempt(run, url):
    def answering(request):
        if request.url.path.startswith("/old"):
            return httpx.Response(307, headers={"location": "/v1/chat/completions"})
        return httpx.Response(200, json=answers.whole("/chat/completions", BODY))

    with httpx.Client(
        transport=tap(httpx.MockTransport(answering), run=run), follow_redirects=True
    ) as client:
        client.post("http://x/old/chat/completions", json=BODY)
    assert run.attempt.settlement == "completed"


def test_what_is_no_call_of_a_model_passes_unseen(client, run, provider):
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(f"{provider.url}/v1/embeddings", json={"input": "x"})
    assert run.exchanges == []


def test_without_a_run_nothing_is_seen(url):
    with tap(httpx.Client()) as client:
        assert client.post(url, json=BODY).status_code == 200


def test_what_is_not_admitted_is_not_looked_at(url, monkeypatch):
    run = recorded(admitted=frozenset())
    monkeypatch.setattr(logical_request, "of_bytes", None)
    monkeypatch.setattr("custody_client.adapters.answers.Assembler", None)
    with tap(httpx.Client(), run=run) as client:
        client.post(url, json=BODY)
        with client.stream("POST", url, json=STREAM) as response:
            next(response.iter_bytes())
    assert [exchange.attempts[0].refused for exchange in run.exchanges] == [sorted(KINDS)] * 2
    assert [exchange.attempts[0].settlement for exchange in run.exchanges] == ["completed", "unknown"]


def test_credentials_are_nowhere_in_what_is_captured(client, run, url, provider):
    tool = {
        "type": "mcp",
        "server_label": "x",
        "server_url": f"https://u:{SECRET}@mcp.example/sse?key={SECRET}",
        "authorization": SECRET,
        "headers": {"X-Key": SECRET},
    }
    client.post(
        f"{url}?key={SECRET}".replace("http://", f"http://user:{SECRET}@"),
        json={**BODY, "api_key": SECRET, "extra_headers": {"Authorization": SECRET}, "tools": [tool]},
        headers={
            "Authorization": f"Bearer {SECRET}",
            "api-key": SECRET,
            "x-api-key": SECRET,
            "x-goog-api-key": SECRET,
        },
    )
    assert SECRET.encode() in provider.asked[0].body
    assert SECRET.encode() not in run.everything()
    request = run.attempt.request.content
    assert request["left_out"] == ["api_key", "extra_headers"]
    assert request["body"]["tools"] == [
        {"type": "mcp", "server_label": "x", "server_url": "https://mcp.example/sse"}
    ]


def test_two_taps_on_one_call_make_one_exchange(run, url):
    inner = tap(httpx.HTTPTransport(), run=run)
    outer: Any = Tap(inner, run=run)
    with httpx.Client(transport=outer) as client:
        client.post(url, json=BODY)
    assert run.attempt.request is not None
    assert run.attempt.output is not None


def test_a_client_is_tapped_once_and_its_proxies_too(run):
    client: Any = httpx.Client(mounts={"http://local": httpx.HTTPTransport(), "all://none": None})
    tap(tap(client, within_calls=True), run=run)
    assert [type(mounted) for mounted in client._mounts.values()] == [Tap, type(None)]
    assert not isinstance(client._transport._transport, Tap)
    assert client._transport._run is run
    assert not client._transport._within_calls
    client.close()


def test_inside_calls_only_others_calls_are_seen(run, url):
    with tap(httpx.Client(), within_calls=True) as client:
        client.post(url, json=BODY)
        call = begin(run)
        with call.entered():
            client.post(url, json=BODY)
    assert run.attempt.settlement == "completed"


@pytest.mark.parametrize("place", ["request", "response", "feed"])
def test_a_fault_of_ours_changes_nothing_and_is_counted_and_said_once(url, monkeypatch, caplog, place):
    def broken(*_, **__):
        raise ValueError(SECRET)

    if place == "request":
        monkeypatch.setattr(transports, "route_of", broken)
    elif place == "response":
        monkeypatch.setattr(transports, "received", broken)
    else:
        monkeypatch.setattr("custody_client.adapters.answers.Assembler.feed", broken)
    run, trouble = recorded(), Trouble()
    run._account = SimpleNamespace(office=SimpleNamespace(trouble=trouble))
    before = sum(faults().values())
    with tap(httpx.Client(), run=run) as client:
        for _ in range(2):
            with client.stream("POST", url, json=STREAM) as response:
                assert response.read() == plainly(url, STREAM).content
    assert sum(faults().values()) > before + 1
    assert trouble.counts["adapters"] > 1
    assert caplog.messages == [], "a caller's thread does not wait for logs"
    trouble.say()
    (said,) = caplog.messages
    assert "ValueError" in said
    assert SECRET not in caplog.text


async def test_async_answers_and_streams_are_seen_too(run, url, provider):
    provider.will(Turn(), Turn(pause_s=0.01))
    async with tap(httpx.AsyncClient(), run=run) as client:
        whole = await client.post(url, json=BODY)
        async with client.stream("POST", url, json=STREAM) as response:
            streamed = b"".join([chunk async for chunk in response.aiter_bytes()])
    assert whole.content == plainly(url, BODY).content
    assert streamed == plainly(url, STREAM).content
    assert [e.attempts[0].output.content["stream"]["state"] for e in run.exchanges] == ["completed"] * 2


async def test_a_task_that_is_cancelled_has_cancelled_its_call(run, url, provider):
    provider.will(Turn(pause_s=5))
    read = asyncio.Event()

    async def reading():
        async with (
            tap(httpx.AsyncClient(), run=run) as client,
            client.stream("POST", url, json=STREAM) as response,
        ):
            async for _ in response.aiter_bytes():
                read.set()

    task = asyncio.create_task(reading())
    await read.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.attempt.settlement == "cancelled"
    assert run.attempt.output.content["stream"]["state"] == "cancelled"


async def test_an_async_reader_that_stops_has_cancelled(run, url, provider):
    provider.will(Turn(pause_s=0.05))
    async with (
        tap(httpx.AsyncClient(), run=run) as client,
        client.stream("POST", url, json=STREAM) as response,
    ):
        async for _ in response.aiter_raw():
            break
    assert run.attempt.settlement == "cancelled"


def test_an_answer_ends_once_however_often_it_is_said(run):
    call = begin(run)
    answer = Answer(call, call.attempt("wire"), Route("h", "chat.completions", ""), vantage="wire")
    answer.closed()
    answer.ended()
    answer.broke(ValueError())
    answer.feed(b"data: [DONE]\n\n")
    assert run.attempt.settlement == "cancelled"
    assert run.attempt.output.content["stream"]["state"] == "cancelled"


def test_calls_of_threads_are_calls_of_their_own(run, url):
    with tap(httpx.Client(), run=run) as client:
        threads = [threading.Thread(target=client.post, args=(url,), kwargs={"json": BODY}) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [len(exchange.attempts) for exchange in run.exchanges] == [1] * 8
    assert (
        len({json.dumps(exchange.attempts[0].output.content["choices"]) for exchange in run.exchanges}) == 1
    )
