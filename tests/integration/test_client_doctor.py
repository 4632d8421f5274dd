"""The doctor of the client, against the real service: what it says when all is well, and of each thing that is not."""

import asyncio
import contextlib
import socket
from datetime import UTC, datetime, timedelta

import pytest

from custody_client.cli import main
from custody_client.diagnostics import CHECKS, doctor
from policies.kinds import Role
from tests.support.journey import Journey
from tests.support.logs import heard

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "ck_runtime_0000000000000000_" + "s" * 43


async def key_of(way: Journey, role: Role = Role.RUNTIME, **policy: object) -> str:
    scope = await (way.scope(**policy) if policy else way.shared())
    return (await way.key(role, scope))["Authorization"].removeprefix("Bearer ")


@contextlib.asynccontextmanager
async def a_writer(way: Journey):
    async def write():
        while True:
            await way.write()
            await asyncio.sleep(0.02)

    writing = asyncio.create_task(write())
    yield
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing


async def visited(url, key, **more):
    """What it found, as (check, state) and as text; the service runs in this loop."""
    report = await asyncio.to_thread(doctor, url, key, **more)
    assert [finding.check for finding in report.findings] == list(CHECKS)
    assert key not in str(report)
    return {finding.check: finding for finding in report.findings}, report.exit


def nowhere():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_all_is_well(way: Journey):
    async with a_writer(way):
        found, code = await visited(way.api.url, await key_of(way))
    assert code == 0, found
    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["admission"].words.startswith("admitted: logical-request, observable-output, kept until ")
    assert "stored within" in found["delivery"].words


async def test_a_key_that_nobody_knows(way: Journey):
    found, code = await visited(way.api.url, SECRET)
    assert (code, found["address"].state, found["key"].state) == (1, "ok", "failed")
    assert "does not know this key" in found["key"].words
    assert {found[check].state for check in CHECKS[2:]} == {"not_checked"}


async def test_a_key_of_another_role(way: Journey):
    found, code = await visited(way.api.url, await key_of(way, Role.REVIEWER))
    assert (code, found["key"].state) == (1, "failed")
    assert "not as a runtime's" in found["key"].words


async def test_no_key_at_all(way: Journey):
    report = await asyncio.to_thread(doctor, way.api.url)
    assert report.exit == 1
    assert "CUSTODY_KEY" in report.findings[1].words


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no address|begins with http"),
        ("ftp://127.0.0.1", "begins with http"),
        ("http://user:hidden@127.0.0.1:1", "holds more than"),
        ("http://nowhere.invalid:1", "no such host|OSError"),
    ],
)
async def test_an_address_that_is_none(url, says):
    found, code = await visited(url, SECRET)
    assert (code, found["address"].state) == (1, "failed")
    assert any(word in found["address"].words for word in says.split("|"))
    assert "hidden" not in found["address"].words


async def test_nobody_is_there():
    found, code = await visited(nowhere(), SECRET)
    assert (code, found["address"].state) == (1, "failed")
    assert "nobody listens there" in found["address"].words


async def test_somebody_is_there_and_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found, code = await visited(f"http://127.0.0.1:{silent.getsockname()[1]}", SECRET, timeout=0.3)
    assert (code, found["address"].state) == (1, "failed")
    assert "no answer in time" in found["address"].words


async def test_somebody_else_is_there():
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        found, code = await visited(f"http://127.0.0.1:{port}", SECRET)
    assert (code, found["address"].state) == (1, "failed")
    assert "not as a Custody service" in found["address"].words


async def test_a_clock_that_is_wrong_is_said_and_stops_nothing(way: Journey):
    async with a_writer(way):
        found, code = await visited(
            way.api.url, await key_of(way), now=lambda: datetime.now(UTC) - timedelta(seconds=90)
        )
    assert (code, found["clock"].state, found["delivery"].state) == (1, "failed", "ok")
    assert "behind the service's" in found["clock"].words


async def test_a_scope_that_admits_nothing(way: Journey):
    found, code = await visited(way.api.url, await key_of(way, sampling=0.0))
    assert (code, found["admission"].state, found["delivery"].state) == (3, "ok", "not_checked")
    assert found["admission"].words == "answered; this run is not admitted: not_sampled"


async def test_no_writer_runs(way: Journey):
    found, code = await visited(way.api.url, await key_of(way), timeout=1.0)
    assert (code, found["admission"].state, found["delivery"].state) == (1, "ok", "failed")
    assert "does a writer run?" in found["delivery"].words


async def test_the_command_takes_its_settings_from_the_environment(
    way: Journey, monkeypatch, capsys, tmp_path
):
    file = tmp_path / "key"
    monkeypatch.setenv("CUSTODY_URL", way.api.url)
    monkeypatch.setenv("CUSTODY_KEY_FILE", str(file))
    # The service is in this process, and would log to the same place, in what form the tests before this one decide:
    # of the key that is made first, where none of them made it, and then of what the command asks.
    with heard() as lines:
        key = await key_of(way)
        file.write_text(f"{key}\n")
        async with a_writer(way):
            assert await asyncio.to_thread(main, ["check"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[:2] for line in said.splitlines()] == [[check, "ok"] for check in CHECKS]
    assert key not in said + lines.getvalue()


async def test_the_command_takes_its_settings_from_arguments(capsys, tmp_path):
    file = tmp_path / "key"
    file.write_text(SECRET)
    assert await asyncio.to_thread(main, ["check", "--url", nowhere(), "--key-file", str(file)]) == 1
    assert await asyncio.to_thread(main, ["check", "--key-file", str(tmp_path / "none")]) == 2
    assert SECRET not in "".join(capsys.readouterr())
