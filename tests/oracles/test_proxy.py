"""The service behind the proxy of `deploy/`, a real nginx: what it writes tells nobody what was posted through it."""

import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from policies.kinds import Role
from tests.support.capture import head, speak
from tests.support.guessing import Suspect, guessed
from tests.support.proxy import Changes, Proxy, proxy
from tests.support.services import short_directory
from tests.support.stack import Stack, shared_postgres, until
from tests.support.traffic import Site, site

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

TRIALS = 200
# Of so many more it knows what they were.
KNOWN = TRIALS
SURE, COIN = 0.95, 0.6
ANSWERS = {True: b"yes", False: b"no"}
# All that is shown of a request: when, how, what for, with what answer, and how long it took.
LINE = re.compile(r"[-+:T\d]{25} [A-Z]+ (?:/\S*|\(a key\)) \d{3} \d+\.\d{3}")
# What a part may have, and more than nginx holds in memory.
LARGE = 200 << 10
CANARY = b"CANARY-5d1f-7c20-"
QUERIED = "CANARY-9ab3"


@dataclass(frozen=True, slots=True)
class Front:
    """A scope whose callers all come through the proxy, and a reviewer's header."""

    here: Site
    before: Proxy
    reviewer: dict[str, str]

    async def stored(self, run: str, content: bytes) -> None:
        """Post one part in a run of its own, and read it."""
        runtime = await self.here.runtime(run)
        said = await runtime.put(runtime.observe(content), Prefer="wait=5")
        assert said.capture == "stored", said
        read = await self.here.client.get(f"{runtime.path(said)}/content", headers=self.reviewer)
        assert read.content == content, read.text


Open = Callable[..., Coroutine[Any, Any, Front]]


@pytest.fixture
async def front(postgres_url: str, template_database: str) -> AsyncIterator[Open]:
    """Opens one, with what is changed of the proxy, and the policy and spans of the scope."""
    async with AsyncExitStack() as exits:

        async def begin(changes: Changes, policy: dict[str, object], **settings: str) -> Front:
            directory = exits.enter_context(short_directory())
            stack = await exits.enter_async_context(
                shared_postgres(directory, postgres_url, template_database, **settings)
            )
            here = await exits.enter_async_context(site(stack, **policy))
            stack.writer()
            port = urlsplit(here.proc.url).port
            assert port is not None
            before = exits.enter_context(proxy(directory / "proxy", port, changes))
            here.client.base_url = httpx.URL(before.url)
            return Front(here, before, await stack.key(Role.REVIEWER, here.scope))

        yield begin


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        pytest.param({}, {}, id="erased"),
        pytest.param({"retention": {"default": "15s", "max": "15s"}}, {"bucket_span": "5s"}, id="expired"),
    ],
)
async def test_after_a_purge_a_guess_of_yes_or_no_from_what_the_proxy_wrote_is_no_better_than_a_coin(
    front, tmp_path, policy, settings
):
    opened = await front(logs_lengths(tmp_path), policy, **settings)
    stack, before = opened.here.stack, opened.before
    stack.publisher()
    stack.duties()
    suspects = [await posted(opened, f"blind-{secrets.token_hex(8)}") for _ in range(TRIALS + KNOWN)]
    await (expired(stack) if policy else erased(opened.here, suspects))
    known, asked = suspects[:KNOWN], suspects[KNOWN:]
    # A log as most proxies write it tells: so the program can be believed.
    assert guessed(known, asked, {"telling": [tmp_path]}) >= SURE
    places = {"proxy": [before.directory]}
    right = (guessed(known, asked, places) + guessed(asked, known, places)) / 2
    print(f"right in {right:.3f}")  # noqa: T201 - for whoever runs it with -s
    assert right <= COIN
    # It did see them: each run is there with its declaration, its part and its read.
    log = "\n".join(before.lines())
    assert {log.count(f"/{each.run}") for each in suspects} == {3}


def logs_lengths(where: Path) -> Changes:
    return {
        "    server_tokens off;": f"""
    log_format lengths '$time_iso8601 $request_method $uri $status $request_length $bytes_sent';
    access_log {where}/log lengths;
    server_tokens off;"""
    }


async def posted(opened: Front, run: str) -> Suspect:
    answer = bool(secrets.randbits(1))
    await opened.stored(run, ANSWERS[answer])
    evidence = await opened.here.stack.value(
        "SELECT p.evidence FROM parts p JOIN runs r USING (scope_id, run_uid) WHERE r.run = $1", run
    )
    return Suspect(evidence, run, answer)


async def erased(here: Site, suspects: list[Suspect]) -> None:
    operator = await here.stack.key(Role.OPERATOR, here.scope)
    for each in suspects:
        asked = await here.client.post("/v1/erasures", json={"run": each.run}, headers=operator)
        assert asked.status_code == httpx.codes.ACCEPTED, asked.text
    await gone(here.stack, "SELECT count(*) = 0 FROM parts WHERE state <> 'purged'")


async def expired(stack: Stack) -> None:
    await gone(
        stack,
        "SELECT count(*) = 0 FROM parts p JOIN buckets b USING (scope_id, bucket_id) WHERE b.state <> 'destroyed'",
    )


async def gone(stack: Stack, asked: str) -> None:
    async def look() -> Any:
        return await stack.value(asked)

    await until(look, "everything is gone", within_s=120)


async def test_it_writes_no_length_no_query_string_and_no_key(front):
    opened = await front({}, {})
    client, before = opened.here.client, opened.before
    key = opened.reviewer["Authorization"].removeprefix("Bearer ")
    await opened.stored("run-1", b"{}")
    await opened.stored("run-2", CANARY * (LARGE // len(CANARY)))
    # Where a query is understood, and where it is refused.
    for path in ("/v1/parts", "/v1/parts/nothing/content"):
        await client.get(path, params={"run": QUERIED}, headers=opened.reviewer)
    assert (await client.get(f"/v1/parts/{key}")).is_client_error
    assert (await client.get("/metrics")).status_code == httpx.codes.NOT_FOUND
    lines = before.lines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert sum("(a key)" in line for line in lines) == 1
    written = b"".join(each.read_bytes() for each in before.directory.rglob("*") if each.is_file())
    for text in (CANARY, QUERIED.encode(), key.encode()):
        assert text not in written


async def test_it_holds_back_neither_bodies_nor_answers(front):
    opened = await front({}, {})
    before, empty = opened.before, opened.before.held_back()
    await opened.stored("run-1", secrets.token_bytes(LARGE))
    assert before.held_back() == empty
    # The api's refusal is there although most of the body was never sent.
    length = ("Content-Length", str(LARGE))
    path = "/v1/runs/nobody-s/exchanges/x/attempts/a/parts/logical-request"
    request = head("PUT", path, [*opened.here.key.items(), length])
    heard = await speak(before.port, request + b"{", silence_s=5.0)
    assert (heard.status, heard.reason) == (403, "run_not_admitted")


async def test_it_would_hold_back_bodies_without_that_setting(front):
    opened = await front({"proxy_request_buffering off;": ""}, {})
    empty = opened.before.held_back()
    await opened.stored("run-1", secrets.token_bytes(LARGE))
    assert opened.before.held_back()["body"] != empty["body"]
