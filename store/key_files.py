"""One file for each secret: written whole, on the disk before it has its name, and for its owner alone."""

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from store import ids

_TEMPORARY: Final = ".tmp"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def begun(paths: Sequence[Path], secret: bytes) -> Iterator[list[Path]]:
    """Write a secret beside each of these names, for the time in which it may take them."""
    temporaries = [path.with_name(f".{path.name}.{ids.secret(8).hex()}{_TEMPORARY}") for path in paths]
    try:
        for temporary in temporaries:
            _write_new(temporary, secret)
        yield temporaries
    finally:
        for temporary in temporaries:
            with suppress(OSError):
                temporary.unlink()


def begun_for(name: str) -> str:
    """Return which secret a temporary file is about; of others something that is no name."""
    return name[1:].removesuffix(_TEMPORARY).rpartition(".")[0] if name.endswith(_TEMPORARY) else ""


def took_name(temporary: Path, path: Path) -> bool:
    """Give a written secret its name, durably; False if the name is taken."""
    try:
        # link(2) fails where a rename would overwrite: two makers of one name cannot both win.
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        sync(path.parent)
    return True


def link_new(path: Path, secret: bytes) -> bool:
    """Write one secret under its name; False if the name is taken."""
    with begun([path], secret) as (temporary,):
        return took_name(temporary, path)


def content(path: Path) -> bytes | None:
    """Return what a file holds; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Keep out, in all processes, whoever else asks for the same directory."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync(directory: Path) -> None:
    """Have the names in a directory on the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_to_others(place: Path) -> str | None:
    """Say to an operator that others may look into a directory; None where they may not."""
    mode = stat.S_IMODE(place.stat().st_mode)
    return (
        f"key directory {place} is open to other users (mode {mode:04o}): chmod 0700 it"
        if mode & _OTHERS
        else None
    )


def faults_of(place: Path) -> list[str]:
    """Say what is wrong with a directory and the modes and owners of what is in it; files are counted, not named."""
    found = [fault for fault in [open_to_others(place)] if fault]
    status = [place.stat(), *_statuses(place)]
    opened = sum(bool(stat.S_IMODE(each.st_mode) & _OTHERS) for each in status[1:])
    strange = sum(each.st_uid != status[0].st_uid for each in status[1:])
    if opened:
        found.append(f"{opened} files in {place} are open to other users: chmod 0600 them")
    if strange:
        found.append(f"{strange} files in {place} belong to somebody else than the directory: chown them")
    return found


def _statuses(place: Path) -> Iterator[os.stat_result]:
    for path in place.iterdir():
        # Destroyed since: nothing is wrong with it any more.
        with suppress(FileNotFoundError):
            yield path.stat()


def _write_new(path: Path, secret: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
