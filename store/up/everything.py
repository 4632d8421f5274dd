"""Brings the stack up, keeps it up, and takes it down: servers, preparation, processes, and down in the other order."""

import asyncio
import http.client
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from store import logging
from store.clock import monotonic
from store.config import Settings, environment_of_child, from_environment, in_environment
from store.embedded import EmbeddedFault, Server, start_postgres, start_valkey
from store.up import place
from store.up.checkout import build_commit
from store.up.first_start import prepare
from store.up.place import StackFault
from store.up.processes import MEMORY, ROOT, Child, Say, commands

_READY_S: Final = 90.0
_FALLS: Final = 3
_LOOK_S: Final = 0.1
_SERVERS_S: Final = 1.0
_OK: Final = 200

Start = Callable[[Path], Server]
_SERVERS: Final[Mapping[str, tuple[str, Start]]] = {
    "CUSTODY_DATABASE_URL": ("postgres", start_postgres),
    "CUSTODY_REDIS_URL": ("valkey", start_valkey),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    data_dir: Path | None = None
    port: int | None = None
    console_port: int | None = None
    console: bool = True
    duties: bool = True
    json_ready: str | None = None


def run(wanted: Wanted) -> int:
    """Bring the stack up and keep it until Ctrl-C or SIGTERM; 0 then, 1 where it cannot be had."""
    changes = {}
    if wanted.data_dir is not None:
        changes["CUSTODY_DATA_DIR"] = str(wanted.data_dir)
    if wanted.port is not None:
        changes["CUSTODY_PORT"] = str(wanted.port)
    if wanted.console_port is not None:
        changes["CUSTODY_CONSOLE_PORT"] = str(wanted.console_port)
    settings = from_environment(changes)
    # Its own lines are for whoever looks on; what its services log is not.
    logging.configure("error", sys.stderr)
    try:
        with place.taken(settings.data_dir):
            asyncio.run(_run(settings, changes, wanted))
    except EmbeddedFault as fault:
        raise StackFault(str(fault)) from None
    return os.EX_OK


async def _run(settings: Settings, changes: dict[str, str], wanted: Wanted) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    began = monotonic()
    say = _say
    _require_free(settings.host, settings.port, "--port")
    if wanted.console:
        _require_free(settings.console_host, settings.console_port, "--console-port or say --no-console")
    async with AsyncExitStack() as stack:
        say(f"custody: data in {settings.data_dir}")
        servers = await _servers(stack, settings.data_dir, changes, say)
        settings = from_environment(changes)
        keys = await _or_stopped(stop, prepare(settings, say))
        if stop.is_set():
            return
        environment = environment_of_child(
            {**MEMORY, **build_commit(), **changes, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        )
        stack.enter_context(place.told(settings.data_dir, changes))
        children = await stack.enter_async_context(_processes(settings, environment, wanted, say))
        if not await _ready(settings, children, wanted, stop):
            return
        _show_keys(keys, say)
        url = settings.public_url or f"http://{settings.host}:{settings.port}"
        console = settings.console_public_url or f"http://{settings.console_host}:{settings.console_port}"
        pids = {child.name: child.pid for child in children} | {name: it.pid for name, it in servers.items()}
        facts = {"url": url, "keys": dict(keys), "pids": {"up": os.getpid(), **pids}}
        _tell(wanted.json_ready, facts | ({"console": console} if wanted.console else {}), settings)
        if wanted.console:
            say(f"console: {console}")
        say(f"ready in {monotonic() - began:.1f} s: {url}   (Ctrl-C stops everything)")
        await _keep_servers(servers, settings.data_dir, stop, say)
        say("stopping …")
    say("stopped")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _require_free(host: str, port: int, option: str) -> None:
    """Refuse a port that somebody has: our servers would share it without a word."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()
        except OSError as fault:
            message = f"port {port} of {host} cannot be had ({fault.strerror}): choose another with {option}"
            raise StackFault(message) from None


async def _servers(
    stack: AsyncExitStack, directory: Path, changes: dict[str, str], say: Say
) -> dict[str, Server]:
    """Start a server of our own for each address that is not given, and put its address with the changes."""
    started = {}
    for setting, (name, start) in _SERVERS.items():
        if in_environment(setting):
            continue
        server = await asyncio.to_thread(start, directory / name)
        started[name] = server
        stack.push_async_callback(_stop_server, started, name)
        changes[setting] = server.url
        say(f"{name}: up" + (f"; {server.note}" if server.note else ""))
    return started


async def _stop_server(servers: Mapping[str, Server], name: str) -> None:
    await asyncio.to_thread(servers[name].stop)


async def _or_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, Mapping[str, str]]) -> Mapping[str, str]:
    """Do some work, unless we are told to stop meanwhile."""
    task, stopped = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return {}
    return task.result()


@asynccontextmanager
async def _processes(
    settings: Settings, environment: Mapping[str, str], wanted: Wanted, say: Say
) -> AsyncIterator[list[Child]]:
    console = (settings.console_host, settings.console_port) if wanted.console else None
    named = commands(settings.host, settings.port, duties=wanted.duties, console=console)
    children = [Child(name, command, environment, settings.data_dir, say) for name, command in named.items()]
    keepers = [asyncio.create_task(child.keep()) for child in children]
    try:
        yield children
    finally:
        # The api first, so that nothing more comes in; then the others have only to finish.
        for child in children:
            await child.stop()
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


async def _ready(settings: Settings, children: list[Child], wanted: Wanted, stop: asyncio.Event) -> bool:
    """Wait until api and console say that they can work; False where we are told to stop before."""
    until = monotonic() + _READY_S
    while not await asyncio.to_thread(_all_answer, settings, wanted):
        fallen = next((child for child in children if child.falls >= _FALLS), None)
        if fallen is not None:
            raise StackFault(f"{fallen.name} does not start: {fallen.last_words()}")
        if monotonic() > until:
            raise StackFault(
                f"api and console are not ready after {_READY_S:g} s (see {settings.data_dir / place.LOGS})"
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_S)
        if stop.is_set():
            return False
    return True


def _all_answer(settings: Settings, wanted: Wanted) -> bool:
    return _answers(settings.host, settings.port, "/readyz") and (
        not wanted.console or _answers(settings.console_host, settings.console_port, "/livez")
    )


def _answers(host: str, port: int, path: str) -> bool:
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - what it listens on, not we
    connection = http.client.HTTPConnection(here, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == _OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _show_keys(keys: Mapping[str, str], say: Say) -> None:
    if keys:
        say("the first keys, of the scope `default`; shown now and never again:")
        for role, text in keys.items():
            say(f"  {role:<9} {text}")


def _tell(target: str | None, facts: Mapping[str, object], settings: Settings) -> None:
    facts = {**facts, "data_dir": str(settings.data_dir)}
    if target == "-":
        _say(place.as_line(facts))
    elif target is not None:
        place.write_private(Path(target).absolute(), place.as_line(facts) + "\n")


async def _keep_servers(servers: dict[str, Server], directory: Path, stop: asyncio.Event, say: Say) -> None:
    """Start a server again that ended by itself, until we are told to stop; its address stays the same."""
    starts = dict(_SERVERS.values())
    while not stop.is_set():
        for name, server in list(servers.items()):
            if server.watcher.poll() is not None:
                say(f"{name} ended by itself; it is started again (see {server.log})")
                with suppress(EmbeddedFault):
                    servers[name] = await asyncio.to_thread(starts[name], directory / name)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _SERVERS_S)
