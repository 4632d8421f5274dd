"""Where an embedded server may live, and as whom: directories, owners, socket paths. Starts nothing."""

import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

# The kernel allows 107 bytes (103 on macOS) and PostgreSQL puts `.lock` behind it.
SOCKET_PATH_BYTES: Final = 90
# Marks a directory as ours, and is locked while a server, or any process of it, lives.
LOCK: Final = "lock"


class EmbeddedFault(Exception):
    """An embedded server cannot be had; the message is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a server runs as, where that is not ourselves."""

    name: str
    uid: int
    gid: int

    def as_process(self) -> dict[str, Any]:
        """Arguments of `subprocess` that run a command as this user and nobody else."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def caller_name() -> str:
    """Name of the user that we run as; PostgreSQL must be able to tell it from a connection."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise EmbeddedFault(
            f"user id {os.geteuid()} has no name on this machine, and PostgreSQL needs one: add it to /etc/passwd"
        ) from None


def unprivileged() -> Account | None:
    """Choose the user for a server that refuses to run as root; None where we are not root and it runs as we do."""
    if os.geteuid() != 0:
        return None
    for name in ("custody", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedFault(
        "PostgreSQL does not run as root, and there is neither a user `custody` nor a user `nobody`: add one"
    )


def reachable(path: Path, account: Account | None) -> bool:
    """Whether that user may pass through `path` and everything above it. Nothing is ever opened to make it so."""
    return account is None or all(_passable(place, account) for place in (path, *path.parents))


def _passable(place: Path, account: Account) -> bool:
    facts = place.stat()
    if facts.st_uid == account.uid:
        return bool(facts.st_mode & 0o100)
    if facts.st_gid == account.gid:
        return bool(facts.st_mode & 0o010)
    return bool(facts.st_mode & 0o001)


def named_apart(directory: Path, elsewhere: Path) -> Path:
    """Name the place below `elsewhere` that stands for `directory`, the same one every time."""
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return elsewhere / f"{directory.name}-{digest}"


def make_ours(directory: Path, account: Account | None = None) -> None:
    """Make a directory that only its server's user can enter; never touch one that holds something else."""
    if directory.exists() and any(directory.iterdir()) and not (directory / LOCK).exists():
        raise EmbeddedFault(
            f"{directory} holds something that is not an embedded server's: name a new or an empty directory"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        (directory / LOCK).touch(mode=0o600)
        if account:
            os.chown(directory, account.uid, account.gid)
    except OSError as fault:
        raise EmbeddedFault(f"{directory} cannot be made or taken over: {fault.strerror}") from None


def socket_path(directory: Path, name: str) -> Path:
    """Path of a socket that clients can address, or a fault that says why there can be none."""
    path = directory / name
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES:
        raise EmbeddedFault(
            f"socket path {path} has {length} bytes, more than {SOCKET_PATH_BYTES}: name a shorter directory"
        )
    if quote(str(path)) != str(path):
        raise EmbeddedFault(
            f"socket path {path} holds characters that an address cannot carry plainly: name another directory"
        )
    return path
