"""The runtime client against the real service: what it captures is there byte for byte, and what it lost is told."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from custody_client import Bounds, Custody, LocalPolicy, Run
from policies.kinds import Role
from store.services.scopes import Scope
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey
from tests.support.sources import ROOT
from tests.support.writers import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def journey_settings() -> dict[str, str]:
    return {"closing": "1s"}


class Runtime:
    """A client under a key of its own, and what a reviewer finds of its runs."""

    def __init__(self, way: Journey, scope: Scope, key: str, **options: Any) -> None:
        self.way = way
        self.key = key
        self.scope = scope
        self.custody = Custody(way.api.url, key, **options)

    async def run(self, run_id: str, **wishes: Any) -> Run:
        return await asyncio.to_thread(lambda: self.custody.run(run_id, wait=2, **wishes))

    async def flush(self) -> None:
        assert await asyncio.to_thread(self.custody.flush, 5)

    def as_seen(self, run: str) -> Capturing:
        return Capturing(self.way.api, self.scope, {"Authorization": f"Bearer {self.key}"}, run)

    async def over(self, run: str) -> dict[str, Any]:
        """What is known of a run once its books are closed."""

        async def look() -> bool:
            await self.way.write()
            await self.way.duties.perform("reconcile")
            found = await self.way.json(f"/v1/runs/{run}", self.as_seen(run))
            return bool(found["state"] == "closed")

        await until(look, 20)
        found: dict[str, Any] = await self.way.json(f"/v1/runs/{run}", self.as_seen(run))
        return found


async def runtime(way: Journey, *, policy: dict[str, Any] | None = None, **options: Any) -> Runtime:
    scope = await way.scope(**(policy or {}))
    return Runtime(way, scope, await way.api.key(Role.RUNTIME, scope.scope_id), **options)


async def test_a_run_from_its_first_capture_to_its_closed_books(way: Journey):
    mine = await runtime(way)
    run = await mine.run("r-1", labels={"team": "blue"}, subject="person-1", retention="1d")
    request = {
        "model": "model-a",
        "messages": [{"role": "user", "content": "head\u0000tail ü 😀"}],
        "n": 2**64,
    }
    with run:
        with run.exchange("x-1").attempt() as attempt:
            attempt.capture_request(request, vantage="gateway")
            attempt.dispatched()
            attempt.capture_output(b'{"raw": \x00 \xed\xa0\xbd', completeness="interrupted")
            attempt.settled("completed")
            attempt.refer(trace="trace-1", response="chatcmpl-1")
        run.exchange("x-2").attempt("again").capture_request("plain ü", content_type="text/plain")
    await mine.flush()
    found = await mine.over("r-1")
    assert (found["complete"], found["counts"]) == (True, {"stored": 3, "not_captured": {}, "unaccounted": 0})
    seen = mine.as_seen("r-1")
    body = await way.content(seen, "x-1", "1")
    assert b'"head\\u0000tail' in body
    assert b"18446744073709551616" in body
    assert await way.content(seen, "x-1", "1", OUTPUT) == b'{"raw": \x00 \xed\xa0\xbd'
    assert await way.content(seen, "x-2", "again") == "plain ü".encode()
    (attempt_seen,) = (await way.json("/v1/attempts", seen, ref="chatcmpl-1"))["items"]
    assert (attempt_seen["dispatch"], attempt_seen["settlement"]) == ("dispatched", "completed")
    parts = {
        (part["exchange_id"], part["kind"]): part
        for part in (await way.json("/v1/parts", seen, run="r-1"))["items"]
    }
    assert parts["x-1", REQUEST]["vantage"] == "gateway"
    assert parts["x-1", OUTPUT]["completeness"] == "interrupted"
    assert parts["x-2", REQUEST]["media_type"] == "text/plain"


@pytest.mark.parametrize(
    ("wishes", "policy", "reason"),
    [
        ({"mode": "temporary"}, {}, "temporary_mode"),
        ({"content": "opt_out"}, {}, "content_opt_out"),
        ({}, {"content": "opt_out"}, "content_opt_out"),
        ({}, {"sampling": 0.0}, "not_sampled"),
    ],
)
async def test_what_the_admission_refuses_is_counted_with_its_reason(
    way: Journey, wishes: dict[str, Any], policy: dict[str, Any], reason: str
):
    mine = await runtime(way, policy=policy)
    run = await mine.run("r-1", **wishes)
    with run:
        for _ in range(3):
            run.exchange().attempt().capture_request(lambda: pytest.fail("was called"))
    await mine.flush()
    found = await mine.over("r-1")
    assert found["counts"] == {"stored": 0, "not_captured": {reason: 3}, "unaccounted": 0}
    assert mine.custody.counters().untold == 0


async def test_every_kind_of_loss_is_told_and_nothing_stays_unaccounted(way: Journey):
    mine = await runtime(
        way, policy={"limits": {"part_bytes": "1KiB"}}, bounds=Bounds(run_parts=4), mask=_mask
    )
    run = await mine.run("r-1")

    def put(*contents: Any) -> None:
        for content in contents:
            run.exchange().attempt().capture_request(content)

    with run:
        put("good", object(), "x" * 2000, "MASK", "good")
        await mine.flush()
        put(*["good"] * 7)
    await mine.flush()
    found = await mine.over("r-1")
    assert found["counts"]["unaccounted"] == 0
    assert found["counts"]["not_captured"] == {
        "client_unserialisable": 1,
        "part_too_large": 1,
        "client_mask_failed": 1,
        "client_queue_full": 3,
    }
    assert (found["counts"]["stored"], found["complete"]) == (6, False)


def _mask(content: bytes) -> bytes:
    if b"MASK" in content:
        raise ValueError("MASK")
    return content


async def test_a_burst_over_what_may_wait_is_refused_by_the_store_and_accounted_for(way: Journey):
    """The writer stands still: 32 may wait, and what comes after them is refused with a record."""
    mine = await runtime(way)
    run = await mine.run("r-1")
    with run:
        for _ in range(40):
            run.exchange().attempt().capture_request(b"x")
    await mine.flush()
    found = await mine.over("r-1")
    assert found["counts"] == {"stored": 32, "not_captured": {"capacity_exceeded": 8}, "unaccounted": 0}


async def test_a_ticket_older_than_the_policy_is_renewed_and_nothing_is_lost(way: Journey):
    mine = await runtime(way)
    run = await mine.run("r-1")
    operator = await way.key(Role.OPERATOR, mine.scope)
    body = {"policy": mine.scope.policy.to_document()}
    answer = await way.client.put(f"/v1/scopes/{mine.scope.name}/policy", json=body, headers=operator)
    assert answer.is_success, answer.text
    run.exchange("x-1").attempt().capture_request(b"after")
    run.close()
    await mine.flush()
    found = await mine.over("r-1")
    assert (found["counts"]["stored"], found["complete"]) == (1, True)


async def test_what_is_held_before_the_answer_arrives_whole(way: Journey):
    mine = await runtime(way, local=LocalPolicy())
    run = mine.custody.run("r-1")
    with run:
        for _ in range(5):
            run.exchange().attempt().capture_request({"early": True})
    await mine.flush()
    found = await mine.over("r-1")
    assert (found["counts"]["stored"], found["complete"]) == (5, True)


async def test_opting_out_later_holds_at_once_and_keeps_what_was_there(way: Journey):
    mine = await runtime(way)
    run = await mine.run("r-1")
    run.exchange().attempt().capture_request(b"before")
    await mine.flush()
    await way.write()
    assert mine.custody.run("r-1", content="opt_out") is run
    run.exchange().attempt().capture_request(lambda: pytest.fail("was called"))
    run.close()
    await mine.flush()
    found = await mine.over("r-1")
    assert found["counts"] == {"stored": 1, "not_captured": {"content_opt_out": 1}, "unaccounted": 0}


async def test_another_keys_run_and_an_unknown_key_admit_nothing(way: Journey):
    mine = await runtime(way)
    await mine.run("r-1")
    other = Runtime(way, mine.scope, await way.api.key(Role.RUNTIME, mine.scope.scope_id))
    nobody = Runtime(way, mine.scope, "ck_runtime_0000000000000000_" + "s" * 43)
    for each in (other, nobody):
        run = await each.run("r-1")
        assert not run.admits(REQUEST)
        run.exchange().attempt().capture_request(lambda: pytest.fail("was called"))
        run.close()
        await asyncio.to_thread(each.custody.close, 1)
        assert each.custody.counters().observed == 1


# --- programs


async def program(mine: Runtime, text: str) -> str:
    """Run a program that has a client of its own, while this process serves."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "client" / "src"), "CUSTODY_URL": mine.way.api.url,
                   "CUSTODY_KEY": mine.key}  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", text, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, err) == (0, b"")
    return out.decode()


FORK = """
import os, sys
from custody_client import Custody
run = Custody.from_environment().run("r-1", wait=2)
for number in range(3):
    run.exchange().attempt().capture_request({"parent": number})
pid = os.fork()
if pid == 0:
    for number in range(2):
        run.exchange().attempt().capture_request({"child": number})
    sys.exit(0)
os.waitpid(pid, 0)
run.close()
"""


async def test_parent_and_child_are_stored_once_each_and_both_sessions_are_reconciled(way: Journey):
    mine = await runtime(way)
    await program(mine, FORK)
    found = await mine.over("r-1")
    assert (found["counts"]["stored"], found["complete"]) == (5, True)
    assert sorted((each["observed"], each["stored"]) for each in found["sessions"]) == [(2, 2), (3, 3)]


CALLS = """
import atexit
from custody_client import Custody
custody = Custody.from_environment()
answers = []
with custody.run("r-1", wait=2) as run:
    for number in range(16):
        with run.exchange().attempt() as attempt:
            attempt.capture_request({"ask": number})
            answers.append(number)
            attempt.capture_output({"answer": number})
            attempt.settled("completed")
print(sum(answers))
"""


async def test_a_program_ends_with_all_of_its_evidence_delivered(way: Journey):
    mine = await runtime(way)
    assert await program(mine, CALLS) == "120\n"
    found = await mine.over("r-1")
    assert (found["counts"]["stored"], found["complete"]) == (32, True)


SIZES: dict[str, tuple[Callable[[], Any], bool]] = {
    "one-picture": (lambda: {"url": "data:image/png;base64," + "A" * 190_000}, True),
    "two-pictures": (lambda: {"url": "A" * 190_000, "other": "A" * 190_000}, False),
    "exact": (lambda: "x" * (262_144 - 2), True),
    "one-more": (lambda: "x" * (262_144 - 1), False),
    "exact-emoji": (lambda: "😀" * 65_535 + "xx", True),
    "more-emoji": (lambda: "😀" * 65_536, False),
}


async def test_the_limit_is_the_stores_and_of_bytes(way: Journey):
    mine = await runtime(way)
    run = await mine.run("r-1")
    with run:
        for name, (content, _) in SIZES.items():
            attempt = run.exchange(name).attempt("a-1")
            attempt.capture_request(content)
            attempt.capture_output({"answer": "here"})
    await mine.flush()
    found = await mine.over("r-1")
    assert found["counts"]["not_captured"] == {"part_too_large": 3}
    for name, (content, stored) in SIZES.items():
        assert await way.content(mine.as_seen("r-1"), name, "a-1", OUTPUT) == b'{"answer":"here"}'
        if stored:
            written = msgspec.json.encode(content())
            assert await way.content(mine.as_seen("r-1"), name, "a-1", REQUEST) == written
