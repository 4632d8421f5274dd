import asyncio
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parent.parent.parent
COMES_UP_S = 90

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose sockets have short paths; what root's server keeps elsewhere goes with it."""
    made = Path(tempfile.mkdtemp(prefix="cu-", dir="/tmp"))
    made.chmod(0o711)
    yield made
    elsewhere = (made / "data" / "postgres").resolve()
    shutil.rmtree(elsewhere, ignore_errors=True)
    shutil.rmtree(made)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def _start(directory: Path, port: int, **settings: str) -> Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUSTODY_")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "store", "up", "--data-dir", str(directory / "data"), "--port", str(port),
        "--console-port", str(_free_port()), "--json-ready", str(directory / "ready.json"), cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        env={**environment, "PYTHONPATH": str(ROOT), **settings},
    )  # fmt: skip


@asynccontextmanager
async def _up(directory: Path, **settings: str) -> AsyncIterator[tuple[Process, Mapping[str, Any]]]:
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    process = await _start(directory, _free_port(), **settings)
    try:
        async with asyncio.timeout(COMES_UP_S):
            while not ready.exists():
                assert process.returncode is None, (await process.communicate())[0].decode()
                await asyncio.sleep(0.1)
        yield process, json.loads(ready.read_text())
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


def _alive(pids: Mapping[str, int]) -> set[str]:
    alive = set()
    for name, pid in pids.items():
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
            alive.add(name)
    return alive


async def _gone(pids: Mapping[str, int]) -> None:
    await _until(lambda: asyncio.sleep(0, not _alive(pids)))


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - other processes set no events of ours
            await asyncio.sleep(0.1)


async def _post(facts: Mapping[str, Any], run: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {facts['keys']['runtime']}"}
    async with httpx.AsyncClient(base_url=facts["url"], headers=headers) as client:
        declared = (await client.put(f"/v1/runs/{run}", json={})).json()
        return await client.put(
            f"/v1/runs/{run}/exchanges/x/attempts/a/parts/logical-request", content=b"hello",
            headers={"Custody-Ticket": declared["ticket"], "Content-Type": "text/plain", "Prefer": "wait=5"},
        )  # fmt: skip


async def _read(url: str, key: str, run: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
        return await client.get(f"/v1/runs/{run}/exchanges/x/attempts/a/parts/logical-request/content")


@pytest.mark.long
async def test_it_comes_up_with_keys_stops_cleanly_and_finds_its_data_again(directory: Path) -> None:
    async with _up(directory) as (process, first):
        assert set(first["keys"]) == {"runtime", "reviewer", "operator"}
        assert set(first["pids"]) == {
            "up", "api", "console", "writer", "duties", "publisher", "postgres", "valkey"
        }  # fmt: skip
        assert (await _post(first, "r-1")).status_code == 201
        assert ((directory / "data" / "stack.env").stat().st_mode & 0o777) == 0o600
        process.send_signal(signal.SIGINT)
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0
    assert output.rstrip().endswith("stopped")
    assert "ready in" in output
    assert not _alive(first["pids"])
    assert not (directory / "data" / "stack.env").exists()

    async with _up(directory) as (process, second):
        assert second["keys"] == {}
        answer = await _read(second["url"], first["keys"]["reviewer"], "r-1")
        assert (answer.status_code, answer.content) == (200, b"hello")
        process.terminate()
        output = (await process.communicate())[0].decode()
    assert "ck_" not in output
    assert not _alive(second["pids"])


@pytest.mark.long
async def test_whatever_is_killed_comes_back_and_nothing_outlives_it(directory: Path) -> None:
    async with _up(directory) as (process, facts):
        for name in ("writer", "api", "postgres"):
            os.kill(facts["pids"][name], signal.SIGKILL)
        await _until(lambda: _is_ready(facts["url"]))
        assert (await _post(facts, "r-1")).status_code in (201, 202)
        second = await _start(directory, _free_port())
        output = (await second.communicate())[0].decode()
        assert second.returncode == 1
        assert "another stack runs" in output

        os.kill(process.pid, signal.SIGKILL)
        await process.communicate()
        await _gone(
            {name: pid for name, pid in facts["pids"].items() if name not in ("writer", "api", "postgres")}
        )
        await _until(lambda: _is_silent(facts["url"]))


async def _is_ready(url: str) -> bool:
    try:
        async with httpx.AsyncClient(base_url=url) as client:
            return (await client.get("/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


async def _is_silent(url: str) -> bool:
    try:
        async with httpx.AsyncClient(base_url=url) as client:
            await client.get("/livez")
    except httpx.HTTPError:
        return True
    return False


async def test_with_addresses_it_starts_no_servers(
    directory: Path, database_url: str, redis_url: str
) -> None:
    async with _up(directory, CUSTODY_DATABASE_URL=database_url, CUSTODY_REDIS_URL=redis_url) as (_, facts):
        assert set(facts["pids"]) == {"up", "api", "console", "writer", "duties", "publisher"}
        async with httpx.AsyncClient(base_url=facts["url"]) as client:
            commit = (await client.get("/livez")).json()["commit"]
        assert re.fullmatch("[0-9a-f]{40}(-dirty)?", commit)
        async with httpx.AsyncClient(base_url=facts["console"]) as client:
            assert "<h1>Sign in</h1>" in (await client.get("/sign-in")).text
        assert (await _post(facts, "r-1")).status_code == 201
        assert not (directory / "data" / "postgres").exists()


async def test_what_cannot_be_is_one_line_and_no_traceback(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = await _start(directory, taken.getsockname()[1])
        output = (await process.communicate())[0].decode()
        assert process.returncode == 1
        assert "choose another with --port" in output
        assert len(output.splitlines()) == 1

    (directory / "data" / "postgres").mkdir(parents=True, exist_ok=True)
    (directory / "data" / "postgres" / "mine.txt").write_text("something else")
    process = await _start(directory, _free_port())
    output = (await process.communicate())[0].decode()
    assert process.returncode == 1
    assert len([line for line in output.splitlines() if line.startswith("custody: /")]) == 1
    assert "Traceback" not in output
