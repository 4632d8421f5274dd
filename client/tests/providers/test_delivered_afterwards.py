"""From those who tell of a call when it is over to the bytes that Custody's service gets: a program for each.

What they print must be the same with Custody, without it, and where its service is not there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from client.tests.providers import recording_service
from client.tests.providers.answers import TEXT
from client.tests.providers.recording_service import KEY, Service

CANARY = "CANARY-7f3a"
SECRET = "sk-CANARY-9b1c"

OPENAI = f"""
import sys
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
OpenAIInstrumentor().instrument()
import openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="{SECRET}", max_retries=0)
asked = dict(model="gpt-x", messages=[{{"role": "user", "content": "Weather? {CANARY}"}}])
print(client.chat.completions.create(**asked).choices[0].message.content)
chunks = client.chat.completions.create(**asked, stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
"""
LITELLM = f"""
import os, sys, time
import litellm
asked = dict(model="openai/gpt-x", api_base=sys.argv[1], api_key="{SECRET}", max_retries=0,
             messages=[{{"role": "user", "content": "Weather? {CANARY}"}}])
def calls():
    print(litellm.completion(**asked).choices[0].message.content)
    print("".join(c.choices[0].delta.content or "" for c in litellm.completion(**asked, stream=True)))
if "CUSTODY_URL" in os.environ:
    from custody_client import Custody
    from custody_client.adapters.litellm import logger
    custody = Custody.from_environment()
    litellm.callbacks = [logger()]
    with custody.run("job-1", wait=2.0):
        calls()
        # LiteLLM tells of the end on threads of its own.
        until = time.monotonic() + 5
        while custody.counters().observed < 4 and time.monotonic() < until:
            time.sleep(0.01)
else:
    calls()
"""
PROGRAMS = pytest.mark.parametrize("program", [OPENAI, LITELLM], ids=["otel", "litellm"])


@pytest.fixture
def service() -> Iterator[Service]:
    yield from recording_service.serving()


def ran(program: str, provider: Any, **settings: str) -> str:
    """What a program prints; whatever else it says holds nothing of ours."""
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", **settings}
    done = subprocess.run(
        [sys.executable, "-c", program, f"{provider.url}/v1"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert CANARY not in done.stderr
    return done.stdout


def with_custody(program: str, provider: Any, url: str) -> str:
    hook = {
        "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "custody",
        "CUSTODY_RUN": "job-1",
        "CUSTODY_LOCAL": "allow",
    }
    return ran(program, provider, CUSTODY_URL=url, CUSTODY_KEY=KEY, **hook)


@PROGRAMS
def test_both_calls_arrive_and_the_program_prints_the_same(program, provider, service):
    assert with_custody(program, provider, service.url) == ran(program, provider) == f"{TEXT}\n{TEXT}\n"
    arrived = service.exchanges()
    assert [len(attempts) for attempts in arrived.values()] == [1, 1]
    for attempts in arrived.values():
        (parts,) = attempts.values()
        assert CANARY in str(parts["logical-request"])
        items = parts["observable-output"]["choices"][0]["items"]
        assert [item["text"] for item in items if item["type"] == "text"] == [TEXT]
    assert {state.get("settlement") for state in service.states.values()} == {"completed"}
    assert SECRET.encode() not in b"\n".join(service.raw)


@PROGRAMS
def test_content_that_is_not_admitted_does_not_arrive(program, provider, service):
    service.admitted = False
    assert with_custody(program, provider, service.url) == f"{TEXT}\n{TEXT}\n"
    assert service.parts == {}
    assert CANARY.encode() not in b"\n".join(service.raw)


@PROGRAMS
def test_where_nobody_is_the_program_prints_the_same(program, provider):
    assert with_custody(program, provider, "http://127.0.0.1:9") == f"{TEXT}\n{TEXT}\n"
