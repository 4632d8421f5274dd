"""Real servers and processes as production runs them, in a directory of their own that is removed at the end.

PostgreSQL and Valkey are durable (fsync, append-only file); everything listens on unix sockets or loopback only.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from policies.kinds import Role
from store import clock
from store.config import Settings
from store.embedded import start_postgres, start_valkey
from store.migrate import migrate
from store.services.buckets import ensure_buckets
from store.services.keys import COMMAND_LINE, Wanted
from store.services.scopes import Scope
from store.up.processes import MEMORY, commands
from store.wiring import Services, make_all_keys, open_services

API: Final = "store.api.app:create_app"
CONSOLE: Final = "console.app:create_app"

_ROOT: Final = Path(__file__).parent.parent
_READY_S: Final = 60.0
_GONE_S: Final = 15.0
_LIFETIME: Final = timedelta(days=1)


class NotUp(Exception):
    """A process of the benchmark did not come up."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of ours, and the port it listens on, if it does."""

    process: asyncio.subprocess.Process
    port: int = 0

    @property
    def pid(self) -> int:
        """Its id."""
        return self.process.pid


@dataclass(slots=True)
class Stack:
    """The two servers, and where files may be put."""

    directory: Path
    postgres_url: str
    redis_url: str
    stores: int = 0

    @asynccontextmanager
    async def store(self, scopes: int = 1) -> AsyncIterator["Store"]:
        """Make a migrated database with scopes, buckets and keys, which is dropped afterwards."""
        self.stores += 1
        name = f"bench_{self.stores}"
        await _execute(self.postgres_url, f'CREATE DATABASE "{name}"')
        try:
            async with AsyncExitStack() as exits:
                yield await _opened(self, exits, name, scopes)
        finally:
            await _execute(self.postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)')

    @asynccontextmanager
    async def served(self, app: str, environment: Mapping[str, str]) -> AsyncIterator[Process]:
        """Serve an application factory as production does: one process of granian."""
        port = _free_port()
        # The api's own command line, with another application in its place.
        _, *command, _ = commands("127.0.0.1", port, duties=False)["api"]
        command.append(app)
        async with self.running(command, environment) as process:
            await _until_served(process, port)
            yield Process(process, port)

    @asynccontextmanager
    async def running(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a Python program of the project; what it says goes to a file that is shown if it fails."""
        log = self.directory / f"{command[1]}-{len(list(self.directory.iterdir()))}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, cwd=_ROOT, env=_environment(environment), stdout=out, stderr=out
            )
        try:
            yield process
        except BaseException:
            if process.returncode is not None:
                print(f"{command[1]} ended by itself:\n{_tail(log)}", file=sys.stderr)
            raise
        finally:
            await _stop(process)


@dataclass(slots=True)
class Store:
    """One database with its queue, keys and scopes, and the processes that work on it."""

    stack: Stack
    services: Services
    environment: Mapping[str, str]
    owner_url: str
    scopes: list[Scope] = field(default_factory=list)
    # For each scope a key of each role that benchmarks use.
    runtimes: list[str] = field(default_factory=list)
    reviewers: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def api(self) -> AsyncIterator[Process]:
        """Run the api."""
        async with self.stack.served(API, self.environment) as served:
            yield served

    @asynccontextmanager
    async def console(self) -> AsyncIterator[Process]:
        """Run the console."""
        async with self.stack.served(CONSOLE, self.environment) as served:
            yield served

    @asynccontextmanager
    async def writers(self, count: int = 1) -> AsyncIterator[list[asyncio.subprocess.Process]]:
        """Run writers."""
        async with AsyncExitStack() as exits:
            command = ["-m", "workers", "write"]
            starts = [self.stack.running(command, self.environment) for _ in range(count)]
            yield [await exits.enter_async_context(each) for each in starts]

    async def written(self, within_s: float = 60.0) -> float:
        """Wait until nothing waits in the queue; return when that was, by the monotonic clock."""
        # Often enough for rounds of seconds, and so seldom that asking is no load of its own.
        async with asyncio.timeout(within_s):
            while any(depth.stream_length for depth in await self.services.queue.depth()):  # noqa: ASYNC110 - asked
                await asyncio.sleep(0.01)
        return clock.monotonic()

    async def stored(self) -> int:
        """Return how many parts were written since the store was made."""
        return (await self.services.queue.outcomes()).get("stored", 0)

    async def refused(self) -> dict[str, int]:
        """Return how many were refused since the store was made, by reason."""
        return {
            word: count for word, count in (await self.services.queue.outcomes()).items() if word != "stored"
        }

    async def drain(self) -> None:
        """Have a writer write what waits, and stop it again."""
        async with self.writers():
            await self.written()


@asynccontextmanager
async def running() -> AsyncIterator[Stack]:
    """Start the servers; stop them and remove what they wrote at the end."""
    directory = _new_directory()
    try:
        postgres = start_postgres(directory / "p")
        try:
            valkey = start_valkey(directory / "v")
            try:
                yield Stack(directory, postgres.url, valkey.url)
            finally:
                valkey.stop()
        finally:
            postgres.stop()
    finally:
        _remove(directory)


async def _opened(stack: Stack, exits: AsyncExitStack, name: str, scopes: int) -> Store:
    url = urlsplit(stack.postgres_url)._replace(path=f"/{name}").geturl()
    await migrate(url)
    environment = {
        "CUSTODY_DATABASE_URL": url,
        # Each store has a database of its own in Valkey too.
        "CUSTODY_REDIS_URL": stack.redis_url.replace("db=0", f"db={stack.stores}"),
        "CUSTODY_DATA_DIR": str(stack.directory / name),
    }
    await make_all_keys(Settings.load(environment))
    services = await exits.enter_async_context(open_services(Settings.load(environment), duties=True))
    store = Store(stack, services, environment, url)
    for at in range(scopes):
        scope = await services.scopes.create(f"bench-{at}", None, COMMAND_LINE)
        store.scopes.append(scope)
        store.runtimes.append(await _key(services, scope, Role.RUNTIME))
        store.reviewers.append(await _key(services, scope, Role.REVIEWER))
    await make_ready(services)
    return store


async def make_ready(services: Services) -> None:
    """Make what the duties would have made: buckets, partitions and their keys, and the hours' intake keys."""
    assert services.duties_database is not None
    span_s = int(services.settings.bucket_span.total_seconds())
    await ensure_buckets(services.duties_database, services.keyring, span_s=span_s)
    services.keyring.create_intake_keys(clock.utc_now(), 2)


async def _key(services: Services, scope: Scope, role: Role) -> str:
    made = await services.keys.create(Wanted(role, scope.scope_id, _LIFETIME), COMMAND_LINE)
    return made.text


async def _until_served(process: asyncio.subprocess.Process, port: int) -> None:
    """Wait for the first answer of whatever kind."""
    deadline = clock.monotonic() + _READY_S
    while clock.monotonic() < deadline and process.returncode is None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: bench\r\n\r\n")
            answer = await reader.read(12)
            writer.close()
            if answer:
                return
        except OSError:
            pass
        await asyncio.sleep(0.05)
    raise NotUp("granian did not answer")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_GONE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUSTODY_")}
    return {**kept, **MEMORY, **ours, "PYTHONPATH": str(_ROOT)}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-2000:]


def _new_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="cu-bench-"))
    # The database's user must pass through it, where that is another one.
    directory.chmod(0o711)
    return directory


def _remove(directory: Path) -> None:
    """Remove the directory, and where the database's data really was."""
    data = directory / "p"
    if data.is_symlink():
        shutil.rmtree(data.resolve(), ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
