"""A whole service made of processes that can be killed: its servers, apis, writers.

Everything is ended by process id. Waiting is always for something to be seen, with a limit, never for time to pass.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import asyncpg
import httpx
import redis

from policies.kinds import Role
from store.clock import monotonic
from store.config import Settings
from store.embedded import Server, start_postgres, start_valkey
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.services.buckets import ensure_buckets
from store.services.keys import COMMAND_LINE, Wanted
from store.services.scopes import Scope
from store.up.processes import commands
from store.wiring import Services, open_services
from tests.support.api import DAY, bearer
from tests.support.databases import at, clone_of, make_template
from tests.support.loopback import PLAIN

ROOT: Final = Path(__file__).parents[2]
WITHIN_S: Final = 20.0

# Faults are made in seconds here, so what the service does about them must not take longer.
USUAL: Final[Mapping[str, str]] = {
    "closing": "1s",
    "reclaim_idle": "300ms",
    "body_deadline": "2s",
    "ticket_lifetime": "1h",
    "canary": "false",
    "db_pool": "4",
}

Seen = TypeVar("Seen")


async def until(look: Callable[[], Awaitable[Seen]], what: str, within_s: float = WITHIN_S) -> Seen:
    """Look until there is something to see, and return it."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + within_s
    while True:
        if seen := await look():
            return seen
        assert loop.time() < limit, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.02)


@dataclass
class Proc:
    """One process of ours, in a session of its own, with its log."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    url: str = ""

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """End it, and what it started, without a chance to do anything about it."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def pause(self) -> None:
        """Stop it where it is, with all that it started."""
        os.killpg(self.popen.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self.popen.pid, signal.SIGCONT)

    async def ended(self, within_s: float = WITHIN_S) -> int:
        async def look() -> bool:
            return not self.alive

        await until(look, f"{self.name} ends", within_s)
        return self.popen.wait()

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class Stack:
    """A service: its servers, its settings, and the processes that were started of it."""

    directory: Path
    changed: Mapping[str, str]
    database_url: str
    valkey: Server
    postgres: Server | None = None
    durable: bool = False
    procs: list[Proc] = field(default_factory=list)
    # An api that outlives single tests, where they share a stack.
    standing: Proc | None = None
    _services: Services | None = None
    _exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    # --- what it is made of

    @property
    def environment(self) -> dict[str, str]:
        settings = {
            **USUAL,
            "database_url": self.database_url,
            "redis_url": self.valkey.url,
            "data_dir": str(self.directory),
            "keys_dir": str(self.directory / "keys"),
            **self.changed,
        }
        return {f"CUSTODY_{name.upper()}": value for name, value in settings.items()}

    @property
    def settings(self) -> Settings:
        return Settings.load(self.environment)

    async def services(self) -> Services:
        """The use cases as another process would have them: for setting things up, for duties, for looking."""
        if self._services is None:
            self._services = await self._exits.enter_async_context(open_services(self.settings, duties=True))
        return self._services

    async def api(self) -> Proc:
        """Start an api and wait until it answers."""
        proc = self.start_api_somewhere()
        await self.answering(proc)
        return proc

    def start_api_somewhere(self) -> Proc:
        """Start an api on a port that is free; `answering` waits for it."""
        port = free_port()
        proc = self._spawn("api", port)
        proc.url = f"http://127.0.0.1:{port}"
        return proc

    async def answering(self, proc: Proc) -> None:
        async with httpx.AsyncClient(base_url=proc.url, trust_env=False, verify=PLAIN) as client:

            async def look() -> bool:
                assert proc.alive, proc.said()
                with suppress(httpx.TransportError):
                    return (await client.get("/livez")).status_code == httpx.codes.OK
                return False

            await until(look, f"the {proc.name} answers")

    async def console(self) -> Proc:
        """Start a console and wait until it answers."""
        port = free_port()
        proc = self._spawn("console", port)
        proc.url = f"http://127.0.0.1:{port}"
        await self.answering(proc)
        return proc

    def writer(self) -> Proc:
        """Start a writer; that it works is seen by what it writes."""
        return self._spawn("writer")

    def duties(self) -> Proc:
        """Start the scheduled duties."""
        return self._spawn("duties")

    def publisher(self) -> Proc:
        """Start a publisher; that it works is seen in the log's state."""
        return self._spawn("publisher")

    # --- scopes, keys, buckets

    async def scope(self, **policy: object) -> Scope:
        """Make a scope with all that its parts need: buckets, partitions, keys, and this hour's intake key."""
        services = await self.services()
        document = {"retention": {"default": "1d", "max": "1d"}, **policy}
        scope = await services.scopes.create(f"scope-{uuid4().hex[:12]}", document, COMMAND_LINE)
        await self.make_buckets()
        return scope

    async def make_buckets(self) -> None:
        services = await self.services()
        assert services.duties_database is not None
        span_s = int(self.settings.bucket_span.total_seconds())
        services.keyring.create_intake_keys(await self.now(), 2)
        await ensure_buckets(services.duties_database, services.keyring, span_s=span_s)

    async def key(self, role: Role, scope: Scope | None) -> dict[str, str]:
        """Make a key, and return the header that shows it."""
        services = await self.services()
        made = await services.keys.create(
            Wanted(role, None if scope is None else scope.scope_id, DAY), COMMAND_LINE
        )
        return bearer(made.text)

    # --- looking, as the owner of everything

    async def rows(self, sql: str, *arguments: Any) -> list[Any]:
        connection = await asyncpg.connect(self.database_url)
        try:
            return list(await connection.fetch(sql, *arguments))
        finally:
            await connection.close()

    async def value(self, sql: str, *arguments: Any) -> Any:
        rows = await self.rows(sql, *arguments)
        return rows[0][0] if rows else None

    async def now(self) -> Any:
        return await self.value("SELECT now()")

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.valkey.url)

    # --- the servers

    @property
    def valkey_data(self) -> Path:
        return self.directory / "v" / "appendonlydir"

    def restart_valkey(self, *, keep: bool, kill: bool = False) -> None:
        """Take Valkey down and up again, with its data or without."""
        self.stop_valkey(kill=kill)
        if not keep:
            shutil.rmtree(self.valkey_data)
        self.start_valkey()

    def stop_valkey(self, *, kill: bool = False) -> None:
        if kill:
            os.kill(self.valkey.pid, signal.SIGKILL)
        self.valkey.stop()

    def start_valkey(self) -> None:
        self.valkey = start_valkey(self.directory / "v")

    def stop_postgres(self, *, kill: bool = False) -> None:
        assert self.postgres is not None, "this test has no Postgres of its own"
        if kill:
            os.kill(self.postgres.pid, signal.SIGKILL)
        self.postgres.stop()

    def start_postgres(self) -> None:
        self.postgres = start_postgres(self.directory / "p", durable=self.durable, elsewhere=self.directory)

    async def end_test(self) -> None:
        """End what a test began, and leave nothing of it in the queue; what stands goes on."""
        await self._exits.aclose()
        self._services = None
        for proc in self.procs:
            if proc is not self.standing:
                proc.kill()
        self.procs = [proc for proc in self.procs if proc is self.standing]

    def empty_queue(self) -> None:
        with self.redis() as client:
            client.execute_command("CLIENT", "UNPAUSE")
            client.flushall()

    def stop(self) -> None:
        for proc in reversed(self.procs):
            proc.kill()
        self.valkey.stop()
        if self.postgres is not None:
            self.postgres.stop()

    # --- processes

    def _spawn(self, name: str, port: int = 0) -> Proc:
        """Start a process with the command line that `up` starts it with."""
        log = self.directory / f"{name}-{uuid4().hex[:12]}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                commands("127.0.0.1", port, duties=True, console=("127.0.0.1", port))[name],
                cwd=ROOT,
                env=self._child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        proc = Proc(name, popen, log)
        self.procs.append(proc)
        return proc

    def _child_environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CUSTODY_")}
        return {**kept, **self.environment, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def shared_postgres(
    directory: Path, server_url: str, template: str, **changed: str
) -> AsyncIterator[Stack]:
    """A stack with a database of its own on the session's Postgres, and a Valkey of its own."""
    async with clone_of(server_url, template) as url:
        stack = begun(directory, url, **changed)
        try:
            yield stack
        finally:
            await stack.end_test()
            stack.stop()


@asynccontextmanager
async def own_postgres(directory: Path, *, durable: bool, **changed: str) -> AsyncIterator[Stack]:
    """A stack whose Postgres is its own too, to be stopped, started and searched; a durable one can be killed."""
    server = start_postgres(directory / "p", durable=durable, elsewhere=directory)
    stack = begun(directory, "", **changed)
    stack.postgres, stack.durable = server, durable
    try:
        stack.database_url = at(server.url, await make_template(server.url))
        yield stack
    finally:
        await stack.end_test()
        stack.stop()


def begun(directory: Path, database_url: str, **changed: str) -> Stack:
    """A stack with a Valkey of its own, and no process yet."""
    (directory / "keys").mkdir(mode=0o700)
    keyring = Keyring(FileKeyDirectory(directory / "keys"), monotonic)
    keyring.create_token_keys()
    keyring.create_signing_key()
    return Stack(directory, changed, database_url, start_valkey(directory / "v"))
