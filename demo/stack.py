"""Bring the whole service up as a child process in a directory of its own, and take it down again."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

_READY_WITHIN_S = 90
_GONE_WITHIN_S = 20
_ROOT = Path(__file__).parent.parent
# The demonstration does not wait half a minute for stragglers before it closes a run.
_SETTINGS = {"CUSTODY_CLOSING": "2s"}


@dataclass(frozen=True)
class Stack:
    """A running service: where it is, and a key for each role."""

    url: str
    keys: Mapping[str, str]
    directory: Path
    pid: int


class NotUp(Exception):
    """The service did not come up; what it said is above."""


@asynccontextmanager
async def running(console: Console, *, keep: bool) -> AsyncIterator[Stack]:
    """Start the embedded stack; unless it is to be kept, stop it and remove what it wrote."""
    directory = _place()
    process = await _spawn(directory)
    kept = False
    try:
        yield await _ready(console, process, directory)
        kept = keep
    finally:
        if not kept:
            await _stop(process)
            shutil.rmtree(directory, ignore_errors=True)


async def _spawn(directory: Path) -> Process:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("CUSTODY_")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "store",
        "up",
        "--data-dir",
        str(directory / "data"),
        "--port",
        str(_free_port()),
        "--console-port",
        str(_free_port()),
        "--json-ready",
        str(directory / "ready.json"),
        cwd=_ROOT,
        stdout=(directory / "up.log").open("wb"),
        stderr=STDOUT,
        stdin=PIPE,
        env={**settings, **_SETTINGS, "PYTHONPATH": str(_ROOT)},
        # Ctrl-C reaches the demonstration, which then stops its stack in order; a kept stack outlives it.
        start_new_session=True,
    )


async def _ready(console: Console, process: Process, directory: Path) -> Stack:
    """Show what the stack says while it comes up, and return once it is ready."""
    log, shown = directory / "up.log", 0
    try:
        async with asyncio.timeout(_READY_WITHIN_S):
            while not (directory / "ready.json").exists():
                shown = _show(console, log, shown)
                if process.returncode is not None:
                    raise NotUp
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise NotUp from None
    finally:
        _show(console, log, shown)
    said = json.loads((directory / "ready.json").read_text())
    return Stack(said["url"], said["keys"], directory, process.pid)


def _show(console: Console, log: Path, shown: int) -> int:
    lines = log.read_text(errors="replace").splitlines()
    for line in lines[shown:]:
        # Keys are printed once by the stack; here they would only be noise, and scroll by.
        if "ck_" not in line and not line.startswith("{"):
            console.print(f"  {line}", style="dim", markup=False, highlight=False)
    return len(lines)


async def _stop(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _GONE_WITHIN_S)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)


def _place() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="custody-demo-"))
    # PostgreSQL refuses to run as root and then runs as somebody else, who must be able to walk in here (not to look).
    directory.chmod(0o711)
    return directory


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
