"""A server's process: the lock that keeps a second one off its directory, its watcher, its handle."""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from store.clock import monotonic
from store.embedded.place import LOCK, Account, EmbeddedFault

# A child gets this environment and nothing of ours: no variable of the caller can change a server or leak into it.
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}

_WATCH: Final = Path(__file__).with_name("watch.py")
_START_S: Final = 30.0
_RELEASE_S: Final = 15.0
_STEP_S: Final = 0.01
_LOG_BYTES: Final = 8 * 1024 * 1024


@dataclass(slots=True)
class Server:
    """A running server. It stops with `stop`, when the handle is dropped, and when this process ends in any way."""

    url: str
    pid: int
    directory: Path
    log: Path
    watcher: subprocess.Popen[str]
    note: str = ""  # something the person in front should be told, such as where the data went

    def stop(self) -> None:
        """Stop in order and wait for it; a second call does nothing."""
        _let_go(self.watcher)


@contextmanager
def locked(directory: Path) -> Iterator[int]:
    """Hold the directory's lock. The server inherits it: who gets it knows that no process of a former one lives."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        _take(lock, directory)
        yield lock
    finally:
        os.close(lock)


def _take(lock: int, directory: Path) -> None:
    # A former server may still be stopping: its parent was killed a moment ago.
    deadline = monotonic() + _RELEASE_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                raise EmbeddedFault(
                    f"another server uses {directory}: stop it, or name another directory"
                ) from None
            time.sleep(_STEP_S)


@dataclass(frozen=True, slots=True)
class Start:
    """What is to be started, and how one sees that it is up."""

    name: str
    command: list[str]
    directory: Path
    stop_signal: int
    grace_s: float
    account: Account | None
    url: str
    is_up: Callable[[], bool]
    note: str = ""


def start(wanted: Start, lock: int) -> Server:
    """Start a server under its watcher and wait until it answers."""
    log = _log(wanted.directory)
    watcher = _watcher(wanted, lock, log)
    first = watcher.stdout.readline() if watcher.stdout else ""
    if not first:
        raise _did_not_start(wanted, watcher, log)
    server = Server(wanted.url, int(first), wanted.directory, log, watcher, wanted.note)
    deadline = monotonic() + _START_S
    while not wanted.is_up():
        if watcher.poll() is not None or monotonic() > deadline:
            raise _did_not_start(wanted, watcher, log)
        time.sleep(_STEP_S)
    return server


def _log(directory: Path) -> Path:
    """Name the log, and put the former one aside where it has grown."""
    log = directory / "log"
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(directory / "log.1")
    return log


def _watcher(wanted: Start, lock: int, log: Path) -> subprocess.Popen[str]:
    spec = {
        "command": wanted.command,
        "directory": str(wanted.directory),
        "environment": ENVIRONMENT,
        "stop_signal": wanted.stop_signal,
        "grace_s": wanted.grace_s,
        "keep_fds": [lock],
        "account": wanted.account.as_process() if wanted.account else {},
    }
    # -I and -S: nothing of the caller's environment or site directories runs in it. Its own session: Ctrl-C reaches
    # whoever started us, who still needs the servers while it stops.
    command = [sys.executable, "-I", "-S", str(_WATCH), json.dumps(spec)]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            cwd="/",
            env=ENVIRONMENT,
            pass_fds=(lock,),
            start_new_session=True,
        )


def _let_go(watcher: subprocess.Popen[str]) -> None:
    """Close the life line, upon which the watcher stops the server, and wait until both are gone."""
    for pipe in (watcher.stdin, watcher.stdout):
        if pipe is not None:
            pipe.close()
    watcher.wait()


def _did_not_start(wanted: Start, watcher: subprocess.Popen[str], log: Path) -> EmbeddedFault:
    _let_go(watcher)
    lines = log.read_text("utf-8", "replace").splitlines()
    last = lines[-1].strip() if lines else "it said nothing"
    return EmbeddedFault(f"{wanted.name} did not start ({log}): {last}")
