"""What a runtime gets for what it posts, over real sockets."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import redis

from policies.kinds import PartState
from policies.reasons import Reason
from store.ids import new_bucket_id, new_evidence_id
from store.queue import Entry
from store.tables import outcomes
from store.tables.outcomes import SealedPart
from tests.support.api import problem
from tests.support.capture import OUTPUT, REQUEST, Capturing, capturing
from tests.support.outages import postgres_away

KIB = 1024


@pytest.fixture
async def runtime(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Capturing]:
    async with capturing(database_url, redis_url, keys_dir) as found:
        yield found


async def test_a_part_is_answered_queued_with_a_receipt_that_can_be_asked(runtime: Capturing) -> None:
    answer = await runtime.put(b'{"messages": []}', Custody_Sequence="1", Custody_Session="s-1")
    receipt = answer.json()
    assert answer.status_code == 202
    assert receipt["capture"] == "queued"
    assert receipt["evidence"] is None
    assert receipt["stored_at"] is None
    assert answer.headers["location"] == f"/v1/receipts/{receipt['receipt']}"
    asked = await runtime.api.client.get(answer.headers["location"], headers=runtime.key)
    assert asked.json() == receipt


async def test_the_same_bytes_again_get_the_same_receipt_and_others_a_conflict(runtime: Capturing) -> None:
    first = await runtime.put(b"one")
    again = await runtime.put(b"one")
    other = await runtime.put(b"two")
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["receipt"] == first.json()["receipt"]
    assert other.status_code == 409
    assert problem(other)["reason"] == "identity_conflict"
    assert other.json()["receipt"]["recorded"] is True


@pytest.mark.parametrize(
    ("size", "status"), [(0, 202), (256 * KIB, 202), (256 * KIB + 1, 413), (300 * KIB, 413)]
)
async def test_the_limit_is_bytes_on_the_wire(runtime: Capturing, size: int, status: int) -> None:
    answer = await runtime.put(b"x" * size)
    assert answer.status_code == status
    if status == 413:
        assert problem(answer)["reason"] == "part_too_large"
        assert answer.json()["receipt"]["recorded"] is True
        assert (await runtime.put(b"{}", kind=OUTPUT)).status_code == 202


async def test_the_limit_counts_bytes_and_not_characters(runtime: Capturing) -> None:
    assert (await runtime.put("😀".encode() * (64 * KIB))).status_code == 202
    assert (await runtime.put("😀".encode() * (64 * KIB) + b"!", exchange="x-2")).status_code == 413


async def test_chunks_without_a_length_are_capped_all_the_same(runtime: Capturing) -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 64 * KIB

    async def send(count: int, exchange: str) -> int:
        path = runtime.path(exchange)
        return (
            await runtime.api.client.put(path, content=pieces(count), headers=runtime.headers())
        ).status_code

    assert await send(4, "x-1") == 202
    assert await send(5, "x-2") == 413


async def test_a_digest_is_checked_and_damage_is_said(runtime: Capturing) -> None:
    digest = base64.b64encode(hashlib.sha256(b"whole").digest()).decode()
    right = await runtime.put(b"whole", Content_Digest=f"sha-256=:{digest}:")
    wrong = await runtime.put(b"whale", exchange="x-2", Content_Digest=f"sha-256=:{digest}:")
    assert right.status_code == 202
    assert wrong.status_code == 400
    assert problem(wrong)["reason"] == "digest_mismatch"


@pytest.mark.parametrize(
    "content", [b'"head\\u0000tail"', b'{"a":"x\x00y"}', b'"\\ud83d"', b"\xed\xa0\xbd", b"[" * 100_000]
)
async def test_bytes_that_other_stores_choke_on_are_only_bytes(runtime: Capturing, content: bytes) -> None:
    assert (await runtime.put(content)).status_code == 202


async def test_forty_parts_at_once_wait_thirty_two_and_refuse_eight_by_name(runtime: Capturing) -> None:
    answers = await asyncio.gather(*(runtime.put(b"{}", exchange=f"x-{number:02}") for number in range(40)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert sum(answer.status_code == 202 for answer in answers) == 32
    assert len(refused) == 8
    assert {problem(answer)["reason"] for answer in refused} == {"capacity_exceeded"}
    assert all(
        "retry-after" not in answer.headers and answer.json()["retryable"] is False for answer in refused
    )
    assert all(answer.json()["receipt"]["recorded"] for answer in refused)
    assert await runtime.gaps_waiting() == ["capacity_exceeded"] * 8


async def test_a_flush_answers_every_frame_in_order_and_a_bad_one_fails_alone(runtime: Capturing) -> None:
    answer = await runtime.flush(
        ["part", {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST, "sequence": 1}, b"{}"],
        ["part", {"exchange": "x-1", "attempt": "a-1", "kind": "poem", "sequence": 2}, b"{}"],
        ["verse", {}],
        [
            "part",
            {"exchange": "x-1", "attempt": "a-1", "kind": OUTPUT, "sequence": 3},
            b"x" * (256 * KIB + 1),
        ],
        ["state", {"exchange": "x-1", "attempt": "a-1", "dispatch": "dispatched", "refs": ["resp-1"]}],
        ["gap", {"sequences": "4-6", "reason": "client_queue_full"}],
        ["gap", {"sequences": "7", "reason": "write_failed"}],
        "no frame at all",  # type: ignore[arg-type] # on purpose
        Custody_Session="s-1",
    )
    assert answer.status_code == 202, answer.text
    views = answer.json()["receipts"]
    assert [view.get("reason") for view in views] == [
        None, "encoding_failed", "encoding_failed", "part_too_large", None, None, "encoding_failed", "encoding_failed",
    ]  # fmt: skip
    assert views[0]["capture"] == "queued"
    assert views[3]["capture"] == "not_captured"
    assert [view["recorded"] for view in views] == [True, False, False, True, True, True, False, False]


@pytest.mark.parametrize("flush", [b"", b"\xc1", b"\x81\xa1x\x01", b"\x91" * 5000, b'["part"]'])
async def test_a_flush_that_is_no_array_is_malformed(runtime: Capturing, flush: bytes) -> None:
    answer = await runtime.api.client.post(
        f"/v1/runs/{runtime.run}/frames",
        content=flush,
        headers=runtime.headers(Content_Type="application/msgpack"),
    )
    assert answer.status_code in {202, 400}, answer.text
    if answer.status_code == 400:
        assert problem(answer)["reason"] == "malformed_request"
    else:
        assert {view["reason"] for view in answer.json()["receipts"]} == {"encoding_failed"}


async def test_a_flush_refused_unread_leaves_its_numbers_as_a_gap(runtime: Capturing) -> None:
    await runtime.declare(content="opt_out")
    answer = await runtime.flush(Custody_Session="s-1", Custody_Sequences="10-41")
    assert problem(answer)["reason"] == "content_opt_out"
    assert answer.json()["recorded"] is True
    assert await runtime.gaps_waiting() == ["content_opt_out"]


async def test_states_and_losses_are_taken_through_the_queue(runtime: Capturing) -> None:
    client = runtime.api.client
    state = await client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1",
        json={"dispatch": "dispatched", "settlement": "completed", "refs": ["trace-1", "resp-1"]},
        headers=runtime.headers(),
    )  # fmt: skip
    losses = await client.post(
        f"/v1/runs/{runtime.run}/gaps", headers=runtime.key,
        json={"gaps": [{"session": "s-1", "sequences": "1-3,7", "reason": "client_shutdown"}]},
    )  # fmt: skip
    assert (state.status_code, state.json()["recorded"]) == (202, True)
    assert (losses.status_code, losses.json()["gaps"][0]["recorded"]) == (202, True)


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"refs": ["1","2","3","4","5"]}', b'{"dispatch": "perhaps"}', b'{"refs": [""]}', b"[" * 900],
)
async def test_a_state_that_is_not_one_is_malformed_and_echoes_nothing(
    runtime: Capturing, body: bytes
) -> None:
    answer = await runtime.api.client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1", content=body, headers=runtime.headers()
    )
    assert problem(answer)["reason"] == "malformed_request"
    assert "perhaps" not in answer.text


async def test_a_receipt_of_another_scope_is_not_found(runtime: Capturing) -> None:
    receipt = (await runtime.put(b"{}")).json()["receipt"]
    other = await runtime.api.runtime(await runtime.api.scope("scope-two"))
    genuine = await runtime.api.client.get(f"/v1/receipts/{receipt}", headers=other)
    invented = await runtime.api.client.get("/v1/receipts/cr1.AAAA", headers=other)
    assert genuine.status_code == invented.status_code == 404
    assert genuine.content == invented.content


async def test_a_run_lists_receipts_of_what_waits_page_by_page(runtime: Capturing) -> None:
    for number in range(7):
        await runtime.put(b"{}", exchange=f"x-{number}")
    found: list[str] = []
    cursor = ""
    for _ in range(10):
        page = (
            await runtime.api.client.get(
                f"/v1/runs/{runtime.run}/receipts?limit=3{cursor}", headers=runtime.key
            )
        ).json()
        found += [item["exchange_id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert found == [f"x-{number}" for number in range(7)]


async def test_a_cursor_is_good_for_its_own_key_only(runtime: Capturing) -> None:
    for number in range(2):
        await runtime.put(b"{}", exchange=f"x-{number}")
    path = f"/v1/runs/{runtime.run}/receipts?limit=1"
    following = (await runtime.api.client.get(path, headers=runtime.key)).json()["next"]
    other = await runtime.api.runtime(runtime.scope)
    answer = await runtime.api.client.get(f"{path}&cursor={following}", headers=other)
    assert problem(answer)["reason"] == "cursor_invalid"


async def test_a_queued_part_says_overdue_once_it_waits_too_long(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(database_url, redis_url, keys_dir, overdue_after="100ms") as runtime:
        receipt = (await runtime.put(b"{}")).json()
        assert receipt["overdue"] is None
        await asyncio.sleep(0.15)
        again = (
            await runtime.api.client.get(f"/v1/receipts/{receipt['receipt']}", headers=runtime.key)
        ).json()
        assert (again["capture"], again["overdue"]) == ("queued", "write_timeout")


async def test_what_the_writer_gave_up_is_told_to_who_waits_by_its_receipt(runtime: Capturing) -> None:
    waiting = asyncio.create_task(runtime.put(b"{}", Prefer="wait=5"))
    queue = runtime.api.services.queue
    entries: list[Entry] = []
    while not entries:
        entries = await queue.take(0, "a-writer", 1, 1_000)
    async with runtime.api.services.database.connection() as connection:
        await connection.execute(
            "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, first_at, last_at)"
            " SELECT scope_id, run_uid, $2, 'store', 'write_failed', 'x-1', 'a-1', $1, now(), now()"
            " FROM runs",
            REQUEST,
            # Ids of ours begin with their time, which a receipt tells.
            new_evidence_id(),
        )
    await queue.settle(0, [entries[0].settle("refused", Reason.WRITE_FAILED)])
    answer = await waiting
    assert answer.status_code == 200
    assert (answer.json()["capture"], answer.json()["reason"]) == ("not_captured", "write_failed")


async def test_who_waits_while_postgres_is_away_is_still_told_queued(
    runtime: Capturing, postgres_url: str, database_url: str
) -> None:
    async with postgres_away(postgres_url, database_url):
        answer = await runtime.put(b"{}", Prefer="wait=1")
    assert (answer.status_code, answer.json()["capture"]) == (202, "queued")


async def test_a_part_frame_without_bytes_is_no_empty_part(runtime: Capturing) -> None:
    named = {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST}
    answer = await runtime.flush(["part", named], ["part", named, None], ["part", named, b""])
    views = answer.json()["receipts"]
    assert [view["reason"] for view in views] == ["encoding_failed", "encoding_failed", None]
    assert views[2]["capture"] == "queued"


@pytest.mark.parametrize("word", ["opt_out", "ALLOW", ""])
async def test_a_flush_that_opts_out_is_refused_unread(runtime: Capturing, word: str) -> None:
    answer = await runtime.flush(Custody_Session="s", Custody_Sequences="1-2", Custody_Content=word)
    assert (answer.status_code, problem(answer)["reason"]) == (403, "content_opt_out")
    assert answer.json()["recorded"] is True
    assert (await runtime.flush(Custody_Content="allow")).status_code == 202


async def test_what_is_not_remembered_says_why(runtime: Capturing) -> None:
    state_path = f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1"
    losses = {"gaps": [{"session": "s", "sequences": "1-3,7", "reason": "client_shutdown"}] * 2}

    async def told() -> tuple[httpx.Response, httpx.Response, httpx.Response]:
        client = runtime.api.client
        return (
            await client.put(state_path, json={"dispatch": "dispatched"}, headers=runtime.headers()),
            await client.post(f"/v1/runs/{runtime.run}/gaps", json=losses, headers=runtime.headers()),
            await runtime.flush(["state", {"exchange": "x", "attempt": "a"}], ["gap", losses["gaps"][0]]),
        )

    await told()
    with redis.Redis.from_url(runtime.api.services.settings.redis_url.reveal()) as server:  # type: ignore[union-attr]
        server.config_set("maxmemory", "1")
        try:
            state, gaps, flush = await told()
        finally:
            server.config_set("maxmemory", "0")
    assert (state.status_code, problem(state)["reason"]) == (503, "queue_unavailable")
    assert (state.json()["recorded"], state.json()["retryable"]) == (False, False)
    for views in (gaps.json()["gaps"], flush.json()["receipts"]):
        assert {(view["recorded"], view["reason"]) for view in views} == {(False, "queue_unavailable")}


async def test_a_report_of_many_losses_is_one_call_to_the_queue(runtime: Capturing) -> None:
    many = ",".join(str(number) for number in range(1, 120, 2))
    losses = {
        "gaps": [{"session": f"s-{at}", "sequences": many, "reason": "client_shutdown"} for at in (1, 2, 3)]
    }
    with redis.Redis.from_url(runtime.api.services.settings.redis_url.reveal()) as server:  # type: ignore[union-attr]
        await runtime.put(b"{}")
        server.config_resetstat()
        answer = await runtime.api.client.post(
            f"/v1/runs/{runtime.run}/gaps", json=losses, headers=runtime.headers()
        )
        calls = server.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert [view["reason"] for view in answer.json()["gaps"]] == [None, None, "capacity_exceeded"]
    assert calls == 1


async def test_without_an_intake_key_every_part_has_its_receipt(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(database_url, redis_url, keys_dir) as runtime:
        for name in (keys_dir / "intake").iterdir():
            name.unlink()
        part = await runtime.put(b"{}")
        flush = await runtime.flush(
            ["part", {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST}, b"{}"],
            ["state", {"exchange": "x-1", "attempt": "a-1", "dispatch": "dispatched"}],
        )
    assert (part.status_code, problem(part)["reason"]) == (503, "queue_unavailable")
    assert part.json()["receipt"]["recorded"] is False
    assert [view["reason"] for view in flush.json()["receipts"]] == ["queue_unavailable", None]


async def test_a_body_takes_its_room_until_it_is_in_the_queue(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(
        database_url, redis_url, keys_dir, body_budget="2MiB", flush_bytes="1MiB", run_view_age="60s"
    ) as runtime:
        await runtime.put(b"{}")
        with redis.Redis.from_url(redis_url) as server:
            server.execute_command("CLIENT", "PAUSE", 1000, "WRITE")
        answers = await asyncio.gather(
            *(runtime.put(b"x" * 250 * KIB, exchange=f"x-{at}") for at in range(2, 8))
        )
        assert sorted(answer.status_code for answer in answers) == [202] * 4 + [429] * 2
        # And gives it back.
        assert (await runtime.put(b"x" * 250 * KIB, exchange="x-9")).status_code == 202


async def test_what_cannot_be_opened_is_a_conflict_and_not_the_flushs_fault(
    runtime: Capturing, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, scope, bucket = runtime.api.services, runtime.scope.scope_id, new_bucket_id()
    services.keyring.create_bucket_key(scope, bucket)

    async def damaged(*_: object) -> SealedPart:
        return SealedPart(PartState.STORED, None, bytes(32), False, False, bucket, bytes(60))

    monkeypatch.setattr(outcomes, "sealed_of", damaged)
    assert await services.outcomes.compare(scope, new_evidence_id(), b"{}") is Reason.IDENTITY_CONFLICT
