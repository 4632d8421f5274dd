"""Reasons that no other test produces over HTTP, each by what makes it true. tests/house knows who produces which."""

from typing import Any

import httpx
import pytest

from policies.kinds import Role
from policies.reasons import CLIENT_REASONS, FAMILY, Family, Reason
from store.services.run_reads import RunReads
from tests.support.api import problem
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey
from tests.support.writers import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def journey_settings() -> dict[str, str]:
    return {"closing": "1s"}


async def test_a_run_that_is_not_drawn_takes_no_part(way: Journey):
    runtime = await way.runtime()
    unsampled = await way.runtime(of=await way.scope(sampling=0))
    assert unsampled.admission["reason"] == "not_sampled"
    answer = await way.client.put(unsampled.path(), content=b"{}", headers=unsampled.key)
    assert (answer.status_code, problem(answer)["reason"]) == (403, "not_sampled")
    assert answer.json()["receipt"]["recorded"] is True
    await way.write()
    assert [gap["reason"] for gap in await way.gaps(unsampled)] == ["not_sampled"]
    assert (await runtime.put(b"{}")).status_code == 202


async def test_a_run_holds_so_many_parts_and_so_many_bytes(way: Journey):
    few = await way.runtime(limits={"run_parts": 2})
    assert [(await few.put(b"{}", exchange=f"x-{number}")).status_code for number in range(2)] == [202, 202]
    refused = await few.put(b"{}", exchange="x-2")
    assert (refused.status_code, problem(refused)["reason"]) == (429, "run_part_limit")
    small = await way.runtime(limits={"part_bytes": "1KiB", "run_bytes": "1KiB"})
    assert (await small.put(b"x" * 1_000)).status_code == 202
    refused = await small.put(b"x" * 25, exchange="x-2")
    assert (refused.status_code, problem(refused)["reason"]) == (429, "run_byte_limit")
    assert (await small.put(b"x" * 24, exchange="x-3")).status_code == 202
    await way.write()
    # Stored parts count too, also where nothing waits any more.
    assert problem(await few.put(b"{}", exchange="x-2"))["reason"] == "run_part_limit"
    assert problem(await small.put(b"x", exchange="x-4"))["reason"] == "run_byte_limit"
    assert [gap["reason"] for gap in await way.gaps(few)] == ["run_part_limit"]


async def test_what_depends_on_a_closed_source_is_not_captured(way: Journey):
    runtime = await way.runtime()
    operator = await way.key(Role.OPERATOR, runtime.scope)
    for source in ("revoked", "moved"):
        await way.client.put(f"/v1/sources/{source}", json={}, headers=operator)
    await way.client.post("/v1/sources/revoked/revoke", json={}, headers=operator)
    await way.client.put("/v1/sources/moved", json={"earlier": "withdrawn"}, headers=operator)
    for number, (sources, reason) in enumerate(
        (
            ('"revoked"', "source_revoked"),
            ('"moved";v=1', "dependency_changed"),
            ('"moved";v=9', "source_unknown"),
        )
    ):
        refused = await asked_again(runtime, f"x-{number}", sources)
        assert (refused.status_code, problem(refused)["reason"]) == (403, reason)
    assert (await runtime.put(b"{}", Custody_Sources='"moved";v=2')).status_code == 202


async def asked_again(runtime: Capturing, exchange: str, sources: str) -> httpx.Response:
    """Post until the guard could ask about the sources: on a busy machine it leaves that to the writer now and then."""
    answer = await runtime.put(b"{}", exchange, Custody_Sources=sources)
    for attempt in range(5):
        if answer.status_code != httpx.codes.ACCEPTED:
            break
        answer = await runtime.put(b"{}", exchange, f"again-{attempt}", Custody_Sources=sources)
    return answer


async def test_what_was_announced_and_never_came_is_unaccounted(way: Journey):
    runtime = await way.runtime()
    await runtime.put(b"{}", Custody_Session="s-1", Custody_Sequence="2")
    closed = await way.client.post(
        f"/v1/runs/{runtime.run}/close", json={"sessions": {"s-1": 3}}, headers=runtime.key
    )
    assert closed.json()["state"] == "closing"
    await way.write()

    async def over() -> bool:
        await way.duties.perform("reconcile")
        return bool((await way.json(f"/v1/runs/{runtime.run}", runtime))["state"] == "closed")

    await until(over, 20)
    run = await way.json(f"/v1/runs/{runtime.run}", runtime)
    assert run["counts"] == {"stored": 1, "not_captured": {}, "unaccounted": 2}
    assert run["complete"] is False
    (gap,) = await way.gaps(runtime)
    assert (gap["reason"], gap["said_by"], gap["ranges"]) == ("unaccounted", "count", [[1, 1], [3, 3]])
    late = await runtime.put(b"late", kind=OUTPUT, Custody_Session="s-1", Custody_Sequence="1")
    assert (late.status_code, problem(late)["reason"]) == (403, "run_closed")


async def test_what_a_runtime_says_of_its_own_losses_is_shown_as_said(way: Journey):
    runtime = await way.runtime()
    said = sorted(reason for reason in CLIENT_REASONS if Family.CLIENT in FAMILY[reason])
    assert {
        "client_queue_full",
        "client_shutdown",
        "client_unserialisable",
        "client_mask_failed",
        "client_transport",
        "not_observed",
    } <= set(said)
    gaps = [
        {"session": "s-1", "sequences": str(number), "reason": reason}
        for number, reason in enumerate(said, 1)
    ]
    taken = await way.client.post(
        f"/v1/runs/{runtime.run}/gaps", json={"gaps": gaps}, headers=runtime.headers()
    )
    assert [note["recorded"] for note in taken.json()["gaps"]] == [True] * len(said)
    await way.write()
    shown = {(gap["said_by"], gap["reason"]): gap["ranges"] for gap in await way.gaps(runtime)}
    assert shown == {("client", reason): [[number, number]] for number, reason in enumerate(said, 1)}
    for reason in sorted(set(Reason) - CLIENT_REASONS):
        gaps = [{"session": "s-1", "sequences": "90", "reason": reason}]
        refused = await way.client.post(
            f"/v1/runs/{runtime.run}/gaps", json={"gaps": gaps}, headers=runtime.headers()
        )
        assert problem(refused)["reason"] == "malformed_request", reason


async def test_a_bug_of_ours_is_internal_and_tells_nothing(way: Journey, monkeypatch: pytest.MonkeyPatch):
    async def broken(*_: Any) -> None:
        raise ValueError("CANARY-7f3a")

    runtime = await way.runtime()
    monkeypatch.setattr(RunReads, "run", broken)
    answer = await way.get(f"/v1/runs/{runtime.run}", runtime)
    found = problem(answer)
    assert (answer.status_code, found["reason"], found["retryable"]) == (500, "internal", False)
    assert "CANARY" not in answer.text
    assert "ValueError" not in answer.text
    monkeypatch.undo()
    assert (await way.get(f"/v1/runs/{runtime.run}", runtime)).status_code == 200


async def test_a_frame_that_is_none_and_a_coded_body_are_said_as_such(way: Journey):
    runtime = await way.runtime()
    answer = await runtime.flush(
        ["part", {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST, "sequence": 1}, b""]
    )
    # A number without a session identifies nothing.
    assert answer.json()["receipts"][0]["reason"] == "encoding_failed"
    for call in (
        way.client.put(
            "/v1/runs/r-1",
            content=b"\x1f\x8b",
            headers={**runtime.key, "Content-Encoding": "gzip", "Content-Type": "application/json"},
        ),
        way.client.put(
            "/v1/runs/r-1", content=b"<a/>", headers={**runtime.key, "Content-Type": "application/xml"}
        ),
        way.client.post(
            f"/v1/runs/{runtime.run}/frames",
            content=b"[]",
            headers=runtime.headers(Content_Type="application/json"),
        ),
    ):
        refused = await call
        assert (refused.status_code, problem(refused)["reason"]) == (415, "unsupported_media")
