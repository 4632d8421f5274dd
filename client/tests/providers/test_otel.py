"""The completion hook, as the real instrumentation of openai calls it."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import httpx2
import openai
import pytest
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.util.genai.completion_hook import load_completion_hook
from opentelemetry.util.genai.handler import TelemetryHandler

from client.tests.providers.answers import ARGUMENTS, TEXT
from client.tests.providers.fake_provider import Turn
from client.tests.recorded import recorded
from custody_client import current
from custody_client.adapters.faults import faults
from custody_client.adapters.observing import observe
from custody_client.adapters.otel import CompletionHook
from custody_client.adapters.transports import tap

ASKED = {
    "model": "gpt-x",
    "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Weather?"}],
    "temperature": 0.5,
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
}


class Service:
    """Stands for the client of a service: gives out recorded runs."""

    url = "http://custody.invalid"

    def __init__(self):
        self.runs = {}

    def run(self, run_id):
        run = self.runs[run_id] = recorded()
        run.run_id = run_id
        run.close = lambda: self.runs.pop(run_id)
        return run


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture(params=[ALWAYS_ON, ALWAYS_OFF], ids=["sampled", "unsampled"])
def sampler(request):
    return request.param


@pytest.fixture
def sampled(sampler):
    return sampler is ALWAYS_ON


@pytest.fixture
def tracers(sampler, spans):
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield provider
    provider.shutdown()


@pytest.fixture
def hook(service, tracers):
    before = faults()
    hook = CompletionHook(service)
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=tracers, completion_hook=hook)
    yield hook
    instrumentor.uninstrument()
    assert faults() == before


@pytest.fixture
def run():
    run = recorded()
    token = current.enter(run)
    yield run
    current.leave(token)


@pytest.fixture
def chat(provider, hook):
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="sk-CANARY-7f3a", max_retries=0) as client:
        yield client.chat.completions


def texts(part):
    return [item["text"] for item in part.content["choices"][0]["items"] if item["type"] == "text"]


def test_a_call_is_one_exchange_with_both_parts(chat, run, sampled):
    chat.create(**ASKED)
    request, output = run.attempt.request, run.attempt.output
    assert request.content["body"]["messages"][1]["parts"] == [{"content": "Weather?", "type": "text"}]
    assert request.content["body"]["tools"][0]["name"] == "weather"
    assert texts(output) == [TEXT]
    assert (output.completeness, run.attempt.dispatch, run.attempt.settlement) == (
        "complete", "dispatched", "completed",
    )  # fmt: skip
    if sampled:
        assert request.content["model"] == "gpt-x"
        assert request.content["body"]["options"] == {"temperature": 0.5}
        assert output.content["response_id"] == run.attempt.references["response"] == "chatcmpl-1"
        assert output.content["usage"]["input"] == 11
        assert output.content["choices"][0]["finish"] == {"reason": "tool_calls", "class": "tool_call"}
    else:
        assert "model-and-options-not-seen" in request.content["notes"]
        assert output.content["usage"]["source"] == "none"


def test_arguments_that_were_parsed_are_marked(chat, run):
    chat.create(**ASKED)
    (call,) = [
        item for item in run.attempt.output.content["choices"][0]["items"] if item["type"] == "tool_call"
    ]
    assert call["arguments"] == {**call["arguments"], "raw": '{"city":"Rome"}', "state": "object"}
    assert call["arguments"]["raw"] != "".join(ARGUMENTS)
    assert "arguments-reparsed" in run.attempt.output.content["notes"]


def test_a_stream_is_captured_when_it_was_read(chat, run, sampled):
    stream = chat.create(**ASKED, stream=True)
    assert run.exchanges == []
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == TEXT
    assert texts(run.attempt.output) == [TEXT]
    assert run.attempt.output.content["stream"]["state"] == (
        "finished-no-terminal" if sampled else "completed"
    )


def test_a_stream_that_was_cut_is_interrupted(provider, chat, run):
    provider.will(Turn(cut_after=3))
    list(chat.create(**ASKED, stream=True))
    assert run.attempt.output.content["stream"]["state"] == "interrupted"
    assert (run.attempt.output.completeness, run.attempt.settlement) == ("interrupted", "unknown")


def test_a_stream_that_its_reader_left_is_captured_as_far_as_it_was_read(chat, run):
    with chat.create(**ASKED, stream=True) as stream:
        for _ in range(3):
            next(stream)
    assert TEXT.startswith(texts(run.attempt.output)[0])
    assert run.attempt.output.completeness == "interrupted"


def test_a_call_that_failed_has_a_request_and_names_its_error(provider, chat, run, sampled):
    provider.will(Turn(status=503))
    with pytest.raises(openai.InternalServerError):
        chat.create(**ASKED)
    assert run.attempt.request.content["body"]["messages"]
    assert run.attempt.output.completeness == "interrupted"
    assert run.attempt.settlement == ("failed" if sampled else "unknown")
    if sampled:
        assert run.attempt.output.content["stream"]["error"]["kind"] == "openai.InternalServerError"


def test_async_calls_too(provider, hook, run):
    async def call():
        async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="sk", max_retries=0) as client:
            await client.chat.completions.create(**ASKED)
            stream = await client.chat.completions.create(**ASKED, stream=True)
            return [chunk async for chunk in stream]

    assert asyncio.run(call())
    assert [texts(attempt.output) for exchange in run.exchanges for attempt in exchange.attempts] == [
        [TEXT]
    ] * 2


def test_responses_too(provider, hook, run):
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="sk", max_retries=0) as client:
        client.responses.create(model="gpt-x", input="Weather?")
    assert texts(run.attempt.output) == [TEXT]


def test_what_is_not_admitted_is_not_looked_at(chat):
    run = recorded(admitted=frozenset())
    token = current.enter(run)
    chat.create(**ASKED)
    current.leave(token)
    assert run.attempt.refused == ["logical-request", "observable-output"]
    assert run.everything().replace(b"{", b"").find(b"Weather") == -1


def test_no_key_is_copied(chat, run):
    chat.create(**ASKED)
    assert b"CANARY" not in run.everything()


# -- which run


def test_without_a_run_each_trace_is_one(chat, service, tracers):
    with tracers.get_tracer("program").start_as_current_span("job") as span:
        chat.create(**ASKED)
        chat.create(**ASKED)
    (run,) = service.runs.values()
    trace_id = f"{span.get_span_context().trace_id:032x}"
    assert run.run_id == trace_id
    assert len(run.exchanges) == 2
    for exchange in run.exchanges:
        assert exchange.exchange_id.startswith(f"{trace_id}:")
        assert exchange.attempts[0].references["trace"] == trace_id


def test_the_environment_names_a_run(provider, service, tracers, monkeypatch):
    monkeypatch.setenv("CUSTODY_RUN", "nightly-7")
    hook = CompletionHook(service)
    assert list(service.runs) == ["nightly-7"]
    with TelemetryHandler(tracer_provider=tracers, completion_hook=hook).inference("openai") as call:
        call.response_id = "r-1"
    assert len(service.runs["nightly-7"].exchanges) == 1


@pytest.mark.parametrize(("said", "closed"), [("exit", True), ("", False)])
def test_a_named_run_is_closed_at_the_end_where_that_is_said(service, monkeypatch, said, closed):
    registered: list[Any] = []
    monkeypatch.setattr("atexit.register", registered.append)
    monkeypatch.setenv("CUSTODY_RUN", "nightly-7")
    monkeypatch.setenv("CUSTODY_CLOSE", said)
    CompletionHook(service)
    for end in registered:
        end()
    assert ("nightly-7" not in service.runs) == closed


def test_a_call_that_belongs_nowhere_is_counted(provider, service):
    before = faults().get("otel", 0)
    with TelemetryHandler(
        tracer_provider=NoOpTracerProvider(), completion_hook=CompletionHook(service)
    ).inference("openai"):
        pass
    assert service.runs == {}
    assert faults()["otel"] == before + 1


def test_runs_of_traces_are_closed_when_there_are_many(service, tracers):
    handler = TelemetryHandler(tracer_provider=tracers, completion_hook=CompletionHook(service))
    for _ in range(1030):
        handler.inference("openai").stop()
    assert len(service.runs) == 1024


# -- what is passed by


def test_agents_workflows_and_tools_are_no_calls(service, tracers, run):
    handler = TelemetryHandler(tracer_provider=tracers, completion_hook=CompletionHook(service))
    handler.invoke_local_agent().stop()
    handler.workflow("job").stop()
    assert run.exchanges == []


def test_the_span_leads_to_what_was_captured(chat, run, spans, sampled):
    chat.create(**ASKED)
    if not sampled:
        assert spans.get_finished_spans() == ()
        return
    (span,) = spans.get_finished_spans()
    exchange = run.exchanges[0].exchange_id
    at = f"http://custody.invalid/v1/runs/{run.run_id}/exchanges/{exchange}/attempts/1/parts"
    assert span.attributes["gen_ai.input.messages_ref"] == f"{at}/logical-request"
    assert span.attributes["gen_ai.output.messages_ref"] == f"{at}/observable-output"
    assert "gen_ai.input.messages" not in span.attributes


# -- two adapters on one call


@pytest.mark.parametrize("status", [200, 503])
def test_with_a_tap_inside_there_is_one_exchange_from_the_wire(provider, hook, run, status):
    provider.will(Turn(status=status))
    http = tap(httpx2.Client())
    with openai.OpenAI(
        base_url=f"{provider.url}/v1", api_key="sk", max_retries=0, http_client=http
    ) as client:
        try:
            client.chat.completions.create(**ASKED)
        except openai.InternalServerError:
            assert status == 503
    assert run.attempt.request.vantage == "wire"


def test_a_call_of_ones_own_whose_answer_has_the_id_of_another_is_captured(provider, chat, run):
    with openai.OpenAI(
        base_url=f"{provider.url}/v1", api_key="sk", max_retries=0, http_client=tap(httpx2.Client())
    ) as tapped:
        tapped.chat.completions.create(**ASKED)
    chat.create(**ASKED)
    assert [exchange.attempts[0].request.vantage for exchange in run.exchanges] == ["wire", "sdk"]


def test_with_an_observed_client_there_is_one_exchange(provider, hook, run):
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="sk", max_retries=0) as client:
        observe(client, run=run).chat.completions.create(**ASKED)
        list(observe(client, run=run).chat.completions.create(**ASKED, stream=True))
    assert [len(exchange.attempts) for exchange in run.exchanges] == [1, 1]


# -- no code


def test_it_is_found_by_its_name(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK", "custody")
    found = load_completion_hook()
    assert isinstance(found._wrapped, CompletionHook)


PROGRAM = """\
import sys
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
OpenAIInstrumentor().instrument()
import openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="sk", max_retries=0)
print(client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "Weather?"}]).id)
"""


def test_a_program_that_knows_nothing_of_it_runs_the_same_with_a_service_that_is_not_there(provider):
    env = {
        **os.environ,
        "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "custody",
        "CUSTODY_URL": "http://127.0.0.1:9",
        "CUSTODY_KEY": "ck_runtime_CANARY-7f3a",
        "CUSTODY_RUN": "job-1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{provider.url}/v1"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "chatcmpl-1"), done.stderr
    assert "CANARY" not in done.stderr
