"""Refused before the body: looked at on raw sockets, where `100 Continue` and the close can be seen."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from policies.kinds import Role
from store import tickets
from tests.support.api import bearer
from tests.support.capture import REQUEST, Capturing, capturing, head, speak

BODY = b"{}" + b" " * 4094
POLICY = {"kinds": [REQUEST]}


@pytest.fixture
async def runtime(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Capturing]:
    async with capturing(database_url, redis_url, keys_dir, POLICY) as found:
        yield found


def expecting(runtime: Capturing, size: int = len(BODY), **more: str) -> dict[str, str]:
    return runtime.headers(Expect="100-continue", Content_Length=str(size), **more)


async def refusal(runtime: Capturing, headers: dict[str, str], path: str | None = None) -> tuple[int, str]:
    """Send a head only; check that no body was asked for and the connection was closed."""
    heard = await speak(runtime.api.port, head("PUT", path or runtime.path(), headers))
    assert not heard.continued
    assert heard.closed
    assert b"connection: close" in heard.bytes.lower()
    return heard.status, heard.reason


async def test_an_admitted_part_is_asked_for(runtime: Capturing) -> None:
    heard = await speak(runtime.api.port, head("PUT", runtime.path(), expecting(runtime)), silence_s=0.5)
    assert heard.bytes.startswith(b"HTTP/1.1 100")


async def test_a_temporary_run_is_refused_unread(runtime: Capturing) -> None:
    await runtime.declare("run-temporary", mode="temporary")
    headers = expecting(runtime)
    del headers["Custody-Ticket"]
    assert await refusal(runtime, headers) == (403, "temporary_mode")


async def test_an_opt_out_midway_is_refused_unread(runtime: Capturing) -> None:
    await runtime.declare(content="opt_out")
    assert await refusal(runtime, expecting(runtime)) == (403, "content_opt_out")


async def test_a_kind_that_is_not_admitted_is_refused_unread(runtime: Capturing) -> None:
    path = runtime.path(kind="observable-output")
    assert await refusal(runtime, expecting(runtime), path) == (403, "kind_not_admitted")


async def test_a_part_that_declares_too_much_is_refused_unread(runtime: Capturing) -> None:
    assert await refusal(runtime, expecting(runtime, 256 * 1024 + 1)) == (413, "part_too_large")


async def test_a_ticket_of_another_run_or_key_is_refused_unread(runtime: Capturing) -> None:
    mine = runtime.ticket
    await runtime.declare("run-2")
    assert await refusal(runtime, {**expecting(runtime), "Custody-Ticket": mine}) == (403, "ticket_invalid")
    other = await runtime.api.runtime(runtime.scope)
    assert await refusal(runtime, {**expecting(runtime), **other}) == (403, "ticket_invalid")


async def test_a_forged_ticket_is_refused_unread(runtime: Capturing) -> None:
    forged = runtime.ticket[:-2] + ("AA" if runtime.ticket[-2:] != "AA" else "BB")
    assert await refusal(runtime, {**expecting(runtime), "Custody-Ticket": forged}) == (403, "ticket_invalid")


async def test_a_run_that_nobody_declared_is_refused_unread(runtime: Capturing) -> None:
    path = runtime.path().replace(runtime.run, "run-nobody")
    headers = expecting(runtime)
    assert await refusal(runtime, headers, path) == (403, "ticket_invalid")
    del headers["Custody-Ticket"]
    assert await refusal(runtime, headers, path) == (403, "run_not_admitted")


async def test_a_ticket_older_than_the_scopes_policy_is_refused_unread(runtime: Capturing) -> None:
    scope = await runtime.api.services.scopes.put_policy(
        runtime.scope.scope_id, {"sampling": 0.5}, "command-line"
    )
    assert scope.version > runtime.admission["policy_version"]
    async with asyncio.timeout(5):
        while True:
            heard = await speak(
                runtime.api.port, head("PUT", runtime.path(), expecting(runtime)), silence_s=0.3
            )
            if not heard.continued:
                break
    assert (heard.status, heard.reason) == (403, "ticket_expired")


async def test_an_expired_ticket_is_refused_unread(
    database_url: str, redis_url: str, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A minute's skew is granted to every ticket; without it the test would wait for a minute.
    monkeypatch.setattr(tickets, "SKEW", timedelta(0))
    async with capturing(database_url, redis_url, keys_dir, POLICY, ticket_lifetime="1s") as runtime:
        await asyncio.sleep(1.1)
        assert await refusal(runtime, expecting(runtime)) == (403, "ticket_expired")


async def test_an_unknown_key_and_another_role_are_refused_unread(runtime: Capturing) -> None:
    unknown = bearer("ck_runtime_0123456789abcdef_" + "a" * 43)
    assert await refusal(runtime, {**expecting(runtime), **unknown}) == (401, "unauthenticated")
    reviewer = bearer(await runtime.api.key(Role.REVIEWER, runtime.scope.scope_id))
    assert await refusal(runtime, {**expecting(runtime), **reviewer}) == (403, "permission_denied")


@pytest.mark.parametrize(
    ("name", "value", "status", "reason"),
    [
        ("Content-Encoding", "gzip", 415, "unsupported_media"),
        ("Content-Digest", "sha-256=:notbase64", 400, "malformed_request"),
        ("Custody-Sources", "doc-7;v", 400, "malformed_request"),
        ("Custody-Sequence", "1", 400, "malformed_request"),
        ("Custody-Content", "TRUE", 403, "content_opt_out"),
        ("Custody-Content", "", 403, "content_opt_out"),
        ("Custody-Sources", '"nobody-knows";v=1', 403, "source_unknown"),
        ("X-Long", "x" * 17_000, 400, "malformed_request"),
    ],
)
async def test_headers_that_are_wrong_or_unclear_are_refused_unread(
    runtime: Capturing, name: str, value: str, status: int, reason: str
) -> None:
    assert await refusal(runtime, {**expecting(runtime), name: value}) == (status, reason)


async def test_another_scope_than_the_keys_is_refused_unread(runtime: Capturing) -> None:
    headers = expecting(runtime, Custody_Scope="another")
    assert await refusal(runtime, headers) == (400, "malformed_request")
    assert (await runtime.put(b"{}", Custody_Scope=runtime.scope.name)).status_code == 202


@pytest.mark.parametrize("name", ["Custody-Ticket", "Custody-Session", "Authorization", "Custody-Content"])
async def test_a_repeated_header_is_refused_unread(runtime: Capturing, name: str) -> None:
    headers = [*expecting(runtime).items(), (name, "one"), (name.lower(), "one")]
    heard = await speak(runtime.api.port, head("PUT", runtime.path(), headers))
    assert (heard.status, heard.continued, heard.closed) == (400, False, True)


async def test_a_body_with_neither_length_nor_chunks_has_no_content(runtime: Capturing) -> None:
    headers = runtime.headers()
    heard = await speak(runtime.api.port, head("PUT", runtime.path(), headers), silence_s=0.5)
    assert (heard.status, heard.reason) == (411, "length_required")


async def test_a_length_together_with_chunks_cannot_get_past_the_limit(runtime: Capturing) -> None:
    headers = {**runtime.headers(Content_Length="10"), "Transfer-Encoding": "chunked"}
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    heard = await speak(runtime.api.port, head("PUT", runtime.path(), headers) + chunk * 5 + b"0\r\n\r\n")
    assert heard.status in {400, 413}


async def test_what_a_refused_sender_sends_all_the_same_is_no_second_request(runtime: Capturing) -> None:
    await runtime.declare(content="opt_out")
    smuggled = head("GET", "/livez", {})
    heard = await speak(
        runtime.api.port, head("PUT", runtime.path(), runtime.headers(Content_Length="4096")) + smuggled
    )
    assert heard.bytes.count(b"HTTP/1.1 ") == 1
    assert heard.closed


async def test_a_slow_body_is_given_up_and_its_room_given_back(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(
        database_url, redis_url, keys_dir, body_deadline="300ms", body_budget="64MiB"
    ) as runtime:
        request = head("PUT", runtime.path(), runtime.headers(Content_Length="100")) + b"{"
        heard = await speak(runtime.api.port, request)
        assert (heard.status, heard.reason) == (408, "interrupted")
        assert (await runtime.put(b"{}", exchange="x-2")).status_code == 202
        assert await runtime.gaps_waiting() == ["interrupted"]


async def test_a_body_cut_off_is_recorded_as_interrupted(runtime: Capturing) -> None:
    request = head("PUT", runtime.path(), runtime.headers(Content_Length="100")) + b"{"
    _, writer = await asyncio.open_connection("127.0.0.1", runtime.api.port)
    writer.write(request)
    await writer.drain()
    await asyncio.sleep(0.1)
    writer.close()
    reasons: list[str] = []
    async with asyncio.timeout(5):
        while not reasons:
            reasons = await runtime.gaps_waiting()
    assert reasons == ["interrupted"]


async def test_no_room_for_bodies_is_refused_before_the_body(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(
        database_url, redis_url, keys_dir, body_budget="1MiB", flush_bytes="512KiB"
    ) as runtime:
        waiting = head("PUT", runtime.path(), runtime.headers(Content_Length=str(250 * 1024))) + b"{"
        # Half of the room, which is what one scope may have.
        senders = [(await asyncio.open_connection("127.0.0.1", runtime.api.port))[1] for _ in range(2)]
        for sender in senders:
            sender.write(waiting)
            await sender.drain()
        await asyncio.sleep(0.2)
        headers = runtime.headers(Expect="100-continue", Content_Length=str(100 * 1024))
        heard = await speak(runtime.api.port, head("PUT", runtime.path(exchange="x-2"), headers))
        assert (heard.status, heard.reason, heard.continued) == (429, "capacity_exceeded", False)
        for sender in senders:
            sender.close()
        async with asyncio.timeout(5):
            # The server hears of closed sockets when it hears of them.
            while (await runtime.put(b"x" * 200 * 1024, exchange="x-3")).status_code != 202:
                pass


async def test_slow_bodies_of_one_scope_leave_room_for_other_scopes(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(database_url, redis_url, keys_dir) as runtime:
        scope = await runtime.api.scope("other")
        other = Capturing(runtime.api, scope, await runtime.api.runtime(scope))
        await other.declare("run-2")
        flush = runtime.headers(content_type="application/msgpack", Content_Length=str(10 << 20))
        part = runtime.headers(Content_Length=str(256 << 10))
        slow = [head("POST", "/v1/runs/run-1/frames", flush)] * 4
        slow += [head("PUT", runtime.path(exchange=f"x-{at}"), part) for at in range(2, 102)]
        senders = [await asyncio.open_connection("127.0.0.1", runtime.api.port) for _ in slow]
        for (_, sender), request in zip(senders, slow, strict=True):
            sender.write(request + b"{")
            await sender.drain()
        # The last of them is refused, since the scope has what it may take.
        heard = await asyncio.wait_for(senders[-1][0].read(65536), 5)
        assert heard.startswith(b"HTTP/1.1 429 ")

        for at in range(3):
            answer = await other.put(b"x" * (256 << 10), exchange=f"x-{at}")
            assert (answer.status_code, answer.json()["capture"]) == (202, "queued")
        for _, sender in senders:
            sender.close()


async def test_a_body_without_a_length_takes_room_as_it_comes(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(
        database_url, redis_url, keys_dir, body_budget="1MiB", flush_bytes="512KiB"
    ) as runtime:
        chunked = runtime.headers(content_type="application/msgpack", Transfer_Encoding="chunked")
        request = head("POST", "/v1/runs/run-1/frames", chunked)
        # An array of no frames, from many who then are silent for a while.
        small = [await asyncio.open_connection("127.0.0.1", runtime.api.port) for _ in range(6)]
        for _, sender in small:
            sender.write(request + b"1\r\n\x90\r\n")
            await sender.drain()
        await asyncio.sleep(0.2)
        # One more is let in, and refused in its midst: what it then asks for is more than is left.
        large = await speak(runtime.api.port, request + b"40000\r\n" + b"x" * 0x40000 + b"\r\n")
        assert (large.status, large.reason, large.closed) == (429, "capacity_exceeded", True)
        for receiver, sender in small:
            sender.write(b"0\r\n\r\n")
            assert (await receiver.read(65536)).startswith(b"HTTP/1.1 202 ")
            sender.close()
        # And all of it is given back.
        said = {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST}
        answer = await runtime.flush(["part", said, b"x" * 250 * 1024])
        assert [view["capture"] for view in answer.json()["receipts"]] == ["queued"]


async def test_a_disk_nearly_full_takes_no_new_captures(
    database_url: str, redis_url: str, keys_dir: Path
) -> None:
    async with capturing(database_url, redis_url, keys_dir, POLICY, disk_limit="64MiB") as runtime:
        owner = await asyncpg.connect(database_url)
        await owner.execute("CREATE TABLE filler (bytes bytea STORAGE EXTERNAL)")
        await owner.execute(
            "INSERT INTO filler SELECT convert_to(repeat('x', 1000000), 'utf8') FROM generate_series(1, 60)"
        )
        await owner.close()
        assert await refusal(runtime, expecting(runtime)) == (429, "capacity_exceeded")
