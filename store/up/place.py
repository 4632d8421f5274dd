"""The data directory of a stack: who uses it now, where its servers are, where its processes log."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ENV_FILE: Final = "stack.env"
LOGS: Final = "log"

_LOCK: Final = "up.lock"
_LOG_BYTES: Final = 16 << 20


class StackFault(Exception):
    """The stack cannot come up, or is not there; the message is one line that says why and what to do."""


@contextmanager
def taken(directory: Path) -> Iterator[None]:
    """Have a data directory for ourselves, making it first where there is none."""
    try:
        # PostgreSQL refuses to run as root and then runs as somebody else, who has to walk through here; everything
        # inside is closed by its own mode.
        directory.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        (directory / LOGS).mkdir(mode=0o700, exist_ok=True)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise StackFault(f"{directory} cannot be used as data directory: {fault.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StackFault(f"another stack runs in {directory}: stop it, or name another --data-dir") from None
    finally:
        os.close(lock)


@contextmanager
def told(directory: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """Tell commands on this machine how to reach the stack, as long as it runs."""
    path = directory / ENV_FILE
    write_private(path, "".join(f"{name}={value}\n" for name, value in sorted(settings.items())))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_stack(directory: Path) -> dict[str, str]:
    """Return the settings of the stack that runs in a data directory; empty where none does."""
    if not _in_use(directory):
        return {}
    try:
        lines = (directory / ENV_FILE).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise StackFault(f"{directory / ENV_FILE} cannot be read: {fault.strerror}") from None
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _in_use(directory: Path) -> bool:
    """Say whether a stack has the directory: one that was killed leaves its file behind, but no lock."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def log_of(directory: Path, name: str) -> Path:
    """Return where a process logs; a log that has grown is put aside."""
    path = directory / LOGS / f"{name}.log"
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path


def as_line(facts: Mapping[str, Any]) -> str:
    """Write facts as one line of JSON."""
    return json.dumps(facts)


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by us alone."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
