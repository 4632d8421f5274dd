import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from store import logging
from store.__main__ import main
from store.db import DUTIES_ROLE, Database
from store.services import rewrapping
from store.up.processes import commands
from tests.support.api import Api, running, settings_for
from tests.support.duties import execute, keyring_of, new_scope, scalar
from tests.support.exporting import LOG, published
from tests.support.log import go_back, grow

FAULTY = '{"retention": {"max": 3}, "sampliing": 1}'
ROOT = Path(__file__).parent.parent.parent


class Cli:
    """The commands as somebody on the host calls them; in this process, in a thread with a loop of its own."""

    def __init__(self, patch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
        self._patch = patch
        self.set(environment)
        # It takes over all logging of a process, which here is the tests'.
        patch.setattr(logging, "configure", lambda *_: None)

    def set(self, environment: Mapping[str, str]) -> None:
        for name, value in environment.items():
            self._patch.setenv(name, value)

    async def __call__(self, *arguments: str, said: str = "") -> tuple[int, str, str]:
        return await asyncio.to_thread(self._run, arguments, said)

    def _run(self, arguments: Sequence[str], said: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        self._patch.setattr(sys, "stdin", io.StringIO(said))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(list(arguments))
            except SystemExit as usage:
                code = int(usage.code or 0)
        # Without its configuration, structlog prints where commands answer.
        return code, re.sub(r"^\d{4}-\d\d-\d\d .*\n", "", out.getvalue(), flags=re.MULTILINE), err.getvalue()


async def set_of_database(database_url: str, name: str, value: str) -> None:
    """Set the server otherwise for this test's database alone."""
    database = await scalar(database_url, "SELECT current_database()")
    await execute(database_url, f"ALTER DATABASE \"{database}\" SET {name} = '{value}'")


@pytest.fixture
def cli(
    tmp_path: Path, database_url: str, redis_url: str, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Cli:
    return Cli(
        monkeypatch,
        {
            "CUSTODY_DATABASE_URL": database_url, "CUSTODY_REDIS_URL": redis_url, "CUSTODY_DATA_DIR": str(tmp_path),
            "CUSTODY_CANARY": "false",
        },
    )  # fmt: skip


@pytest.mark.usefixtures("keys_dir")
async def test_it_is_a_command_of_its_own(tmp_path: Path, database_url: str, redis_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "store", "scopes", "list", cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "CUSTODY_DATABASE_URL": database_url, "CUSTODY_REDIS_URL": redis_url,
            "CUSTODY_DATA_DIR": str(tmp_path),
        },
    )  # fmt: skip
    out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"")


async def test_scopes_and_keys_from_the_making_to_the_end(
    cli: Cli, database_url: str, tmp_path: Path
) -> None:
    assert (await cli("scopes", "create", "team-a"))[0] == 0
    code, _, error = await cli("scopes", "create", "team-a")
    assert (code, error.strip()) == (1, "custody: there is a scope of that name")

    code, key, _ = await cli(
        "keys", "create", "runtime", "--scope", "team-a", "--note", "ci", "--expires", "30d"
    )
    assert code == 0
    assert key.startswith("ck_runtime_")
    key_id = key.split("_")[2]
    code, listed, _ = await cli("keys", "list", "--scope", "team-a")
    assert (code, listed.split()[:3]) == (0, [key_id, "runtime", "team-a"])
    assert key.split("_")[3].strip() not in listed
    assert (await cli("keys", "revoke", key_id))[0] == 0
    assert "revoked" in (await cli("keys", "list"))[1]
    assert await scalar(database_url, "SELECT array_agg(action ORDER BY at) FROM operator_actions") == [
        "scope_created", "key_created", "key_revoked"
    ]  # fmt: skip


async def test_a_rotated_key_has_two_secrets_until_the_older_is_retired(
    cli: Cli, database_url: str, redis_url: str, keys_dir: Path
) -> None:
    await cli("scopes", "create", "team-a")
    # Over HTTP nobody but its holder could rotate it: whoever does learns its secret.
    first = (await cli("keys", "create", "reviewer", "--scope", "team-a"))[1].strip()
    key_id = first.split("_")[2]

    code, second, error = await cli("keys", "rotate", key_id)
    assert (code, error, second.startswith(f"ck_reviewer_{key_id}_")) == (0, "", True)
    texts = (first, second.strip())
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        assert [await answer(api, text) for text in texts] == [200, 200]
    assert (await cli("keys", "retire", key_id))[0] == 0
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        assert [await answer(api, text) for text in texts] == [401, 200]

    assert await scalar(
        database_url,
        "SELECT array_agg(action || ' ' || key_id ORDER BY at) FROM operator_actions WHERE target = $1",
        key_id,
    ) == ["key_created command-line", "key_rotated command-line", "secret_retired command-line"]
    await cli("keys", "revoke", key_id)
    assert (await cli("keys", "rotate", key_id))[::2] == (1, "custody: the key is revoked\n")
    assert (await cli("keys", "rotate", "0" * 16))[0] == 1


async def answer(api: Api, text: str) -> int:
    return (await api.client.get("/v1/runs", headers={"Authorization": f"Bearer {text}"})).status_code


async def test_the_help_of_up_names_every_process_that_it_starts(cli: Cli) -> None:
    code, out, _ = await cli("up", "--help")
    told = set(re.findall(r"\w+", out.partition("options:")[0]))
    started = commands("127.0.0.1", 1, duties=True, console=("127.0.0.1", 2))
    assert (code, set(started) - told) == (0, set())


async def test_a_policy_is_shown_and_put(cli: Cli, tmp_path: Path) -> None:
    await cli("scopes", "create", "team-a")
    shown = json.loads((await cli("scopes", "policy", "team-a"))[1])
    assert shown["version"] == 1

    policy = {**shown["policy"], "sampling": 0.25}
    code, put, _ = await cli("scopes", "policy", "team-a", "--set", "-", said=json.dumps(policy))
    assert (code, json.loads(put)) == (0, {"version": 2, "policy": policy})

    code, _, error = await cli(
        "scopes", "policy", "team-a", "--set", "-", said='{"retention": {"max": 3}, "sampliing": 1}'
    )
    assert code == 1
    assert len(error.strip().splitlines()) == 2
    assert "Traceback" not in error


async def test_purge_now_does_every_duty_once_and_shortens_nothing(cli: Cli, database_url: str) -> None:
    await cli("scopes", "create", "team-a")

    code, out, _ = await cli("purge", "--now")

    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [
        [name, "ok"]
        for name in (
            "intake_keys",
            "buckets",
            "reconcile",
            "accounts",
            "purge",
            "expiry",
            "sequence",
            "metadata",
            "months",
            "depths",
            "bucket_keys",
        )
    ]
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state <> 'live'") == 0
    assert await scalar(database_url, "SELECT count(*) FROM buckets") > 90


async def test_purge_now_says_what_somebody_else_does(cli: Cli, database_url: str) -> None:
    await scalar(
        database_url,
        "INSERT INTO leases (duty, holder, held_until) VALUES ('purge', gen_random_uuid(), now() + interval '1 hour')"
        " RETURNING 1",
    )
    code, out, _ = await cli("purge", "--now")
    assert code == 0
    assert "purge        skipped: locked" in out


async def test_keys_are_looked_at_and_those_of_buckets_changed(
    cli: Cli, keys_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrapping, "GRACE_S", 0)
    await cli("scopes", "create", "team-a")
    await cli("purge", "--now")
    code, out, _ = await cli("keys-at-rest", "check")
    assert (code, out.splitlines()[-1]) == (0, "sound")
    (bucket,) = {path.name.partition(".")[2] for path in list((keys_dir / "bucket").iterdir())[:1]}

    code, out, _ = await cli("keys-at-rest", "rewrap", "--scope", "team-a", "--bucket", bucket)
    assert (code, out) == (0, "0 secrets are wrapped anew, and 1 old keys are gone from every copy\n")
    assert bucket not in {path.name.partition(".")[2] for path in (keys_dir / "bucket").iterdir()}
    assert (await cli("keys-at-rest", "rewrap", "--bucket", "x"))[0] == 1

    # A copy that was not there before is begun by who says so.
    cli.set({"CUSTODY_KEYS_COPY_DIR": str(tmp_path / "copy")})
    code, out, _ = await cli("keys-at-rest", "check", "--json")
    assert (code, json.loads(out)["sound"]) == (1, False)
    code, out, _ = await cli("keys-at-rest", "check", "--repair", "--json")
    found = json.loads(out)
    assert (code, found["sound"]) == (0, True)
    assert found["repaired"] == len([path for path in (tmp_path / "copy").rglob("*") if path.is_file()])


async def test_a_schema_that_is_there_needs_nothing(cli: Cli) -> None:
    assert await cli("migrate") == (0, "nothing to apply\n", "")


async def test_a_sound_store_verifies(cli: Cli) -> None:
    await cli("scopes", "create", "team-a")
    await cli("purge", "--now")
    code, out, _ = await cli("verify")
    assert (code, out.splitlines()[-1]) == (0, "sound")


async def test_check_config_masks_secrets_and_finds_faults(cli: Cli, tmp_path: Path, redis_url: str) -> None:
    code, out, error = await cli("check-config")
    assert (code, error) == (0, "")
    assert "CUSTODY_BUCKET_SPAN=1d" in out
    assert "in no backup and no snapshot" in out
    password = redis_url.split(":")[2].split("@", maxsplit=1)[0]
    assert password not in out + error

    (tmp_path / "keys" / "bucket").mkdir(parents=True, exist_ok=True)
    (tmp_path / "keys" / "bucket").chmod(0o755)
    code, _, error = await cli("check-config")
    assert code == 1
    assert "open to other users" in error


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("log_error_verbosity", "default", "terse"),
        ("log_parameter_max_length", "-1", "0"),
        ("log_parameter_max_length_on_error", "64", "0"),
    ],
)
async def test_check_config_finds_a_postgres_that_would_log_content(
    cli: Cli, database_url: str, name: str, value: str, good: str
) -> None:
    await set_of_database(database_url, name, value)
    code, _, error = await cli("check-config")
    assert code == 1
    assert error == (
        f"custody: Postgres would write content into its log: {name} is {value} and must be {good}\n"
    )


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("log_min_error_statement", "error", "panic"),
        ("log_statement", "all", "none"),
        ("log_min_duration_statement", "250", "-1"),
    ],
)
async def test_check_config_warns_of_a_postgres_that_logs_statements(
    cli: Cli, database_url: str, name: str, value: str, good: str
) -> None:
    await set_of_database(database_url, name, value)
    code, _, error = await cli("check-config")
    assert code == 0
    assert error == (
        f"custody: warning: Postgres writes statements into its log: {name} is {value} and should be {good}\n"
    )


async def test_check_config_warns_where_the_pools_take_more_connections_than_postgres_has(
    cli: Cli, database_url: str
) -> None:
    most = int(await scalar(database_url, "SHOW max_connections"))
    cli.set({"CUSTODY_DB_POOL": str(most // 7)})
    code, _, error = await cli("check-config")
    assert code == 0
    assert f"custody: warning: Postgres may refuse connections: max_connections is {most}, and" in error
    assert f"with CUSTODY_DB_POOL={most // 7} " in error


async def test_check_config_notices_the_key_directory_of_another_store(
    cli: Cli, tmp_path: Path, database_url: str
) -> None:
    await new_scope(database_url)
    assert (await cli("purge", "--now"))[0] == 0
    assert (await cli("check-config"))[0] == 0

    (tmp_path / "keys" / "bucket").rename(tmp_path / "not-mounted")
    code, _, error = await cli("check-config")
    assert code == 1
    assert "live buckets have no key" in error

    (tmp_path / "keys").rename(tmp_path / "away")
    code, _, error = await cli("check-config")
    assert code == 1
    assert "is it mounted?" in error


def files_in(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


async def test_keys_are_made_once_by_who_sets_a_store_up_and_by_nobody_else(
    cli: Cli, tmp_path: Path, keys_dir: Path, database_url: str
) -> None:
    shutil.rmtree(keys_dir)
    code, _, error = await cli("scopes", "list")
    assert (code, error.count("keys-at-rest init"), files_in(keys_dir)) == (1, 1, {})
    code, out, error = await cli("keys-at-rest", "init")
    assert (code, error) == (0, "")
    assert str(keys_dir / "token") in out
    made = files_in(keys_dir)
    assert made.keys() >= {"token/lookup", "token/ticket", "signing/log"}
    assert len(set(made.values())) == len(made)
    assert (await cli("keys-at-rest", "init"))[0] == 0
    assert files_in(keys_dir) == made
    assert (await cli("scopes", "list"))[0] == 0

    # Not mounted: it makes no others. And another store's: it does nothing with them.
    shutil.move(keys_dir, tmp_path / "own")
    code, _, error = await cli("keys-at-rest", "init")
    assert (code, "mount it" in error, files_in(keys_dir)) == (1, True, {})
    keyring_of(keys_dir)
    for command in (("scopes", "list"), ("keys-at-rest", "init"), ("purge", "--now")):
        code, out, error = await cli(*command)
        assert (code, out, "another store's" in error) == (1, "", True)
    assert await scalar(database_url, "SELECT count(*) FROM key_marks") == 1


async def test_where_the_keys_are_lost_the_owner_lets_others_in(
    cli: Cli, tmp_path: Path, keys_dir: Path, database_url: str
) -> None:
    await new_scope(database_url)
    assert (await cli("keys-at-rest", "init"))[0] == 0
    assert (await cli("purge", "--now"))[0] == 0
    shutil.move(keys_dir, tmp_path / "gone")
    for more in ((), ("--keys-are-lost",)):
        code, _, error = await cli("keys-at-rest", "init", *more)
        assert (code, "key_marks" in error, "--keys-are-lost" in error) == (1, True, True)
    await execute(database_url, "DELETE FROM key_marks WHERE name = 'lookup'")
    # A store that was used is still not taken for a new one by mistake.
    code, _, error = await cli("keys-at-rest", "init")
    assert (code, "mount it" in error, files_in(keys_dir)) == (1, True, {})
    code, _, error = await cli("keys-at-rest", "init", "--keys-are-lost")
    assert (code, error) == (0, "")
    assert (await cli("scopes", "list"))[0] == 0
    assert await scalar(database_url, "SELECT count(*) FROM key_marks") == 1


async def test_a_store_that_was_used_before_its_keys_were_set_down_gets_no_others(
    cli: Cli, keys_dir: Path, database_url: str
) -> None:
    await new_scope(database_url)
    assert (await cli("purge", "--now"))[0] == 0
    shutil.rmtree(keys_dir / "token")
    code, _, error = await cli("keys-at-rest", "init")
    assert (code, "mount it" in error) == (1, True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"CUSTODY_RETENTION_MAX": "3", "CUSTODY_PORT": "0"}, 2),
        ({"CUSTODY_NOTHING": "1"}, 1),
    ],
)
async def test_settings_that_cannot_be_are_all_named_and_nothing_is_done(
    cli: Cli, settings: dict[str, str], said: int
) -> None:
    cli.set(settings)
    for command in (("check-config",), ("purge", "--now"), ("up",)):
        code, out, error = await cli(*command)
        assert (code, out) == (1, "")
        assert len(error.strip().splitlines()) == said


async def test_while_postgres_is_away_one_line_says_so(cli: Cli) -> None:
    cli.set({"CUSTODY_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"})
    for command in (("scopes", "list"), ("migrate",), ("verify",)):
        code, _, error = await cli(*command)
        assert (code, error) == (
            1,
            "custody: Postgres or the key directory does not do its part (ConnectionRefusedError)\n",
        )


async def test_where_nothing_runs_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, error = await Cli(monkeypatch, {})("keys", "list", "--data-dir", str(tmp_path))
    assert code == 1
    assert "python -m store up" in error


async def test_wrong_usage_ends_with_two(cli: Cli) -> None:
    for command in (("nonsense",), ("purge",), ("keys", "create", "king"), ()):
        code, _, error = await cli(*command)
        assert code == 2
        assert "usage:" in error


async def test_a_scope_that_is_not_there_is_one_line(cli: Cli) -> None:
    code, _, error = await cli("keys", "create", "runtime", "--scope", "nope")
    assert (code, error) == (1, "custody: there is nothing of that name\n")
    code, _, error = await cli("keys", "create", "runtime", "--scope", "nope", "--expires", "3")
    assert code == 1
    assert "--expires needs" in error


async def test_the_log_is_told_of_and_its_keys_are_printed(
    cli: Cli, tmp_path: Path, keys_dir: Path, database_url: str
) -> None:
    code, _, error = await cli("log", "policy")
    assert (code, error.count("nobody has begun")) == (1, 1)
    duties = await Database.open(database_url, role=DUTIES_ROLE, size=2)
    await published(duties, tmp_path / "mirror")
    code, out, error = await cli("log", "status")
    assert (code, error) == (0, "")
    assert "leaves     1, of which 1 are published\n" in out
    assert "mirror     1 leaves, agrees\n" in out
    code, out, _ = await cli("log", "policy")
    log, bundle = out.splitlines()
    assert (code, log) == (0, f"log {LOG.key.text}")
    assert bundle.startswith("bundle custody.local/log/bundle+")
    assert (await cli("verify"))[0] == 0

    code, _, error = await cli("log", "resume")
    assert (code, error) == (1, "custody: the log is not stopped\n")
    await go_back(database_url, 0)
    assert (await cli("verify"))[0] == 1
    code, out, _ = await cli("log", "status")
    assert (code, "1 leaves, rolled_back" in out) == (1, True)
    await duties.close()


@pytest.mark.usefixtures("keys_dir")
async def test_a_restore_is_checked_done_and_told_of(cli: Cli, tmp_path: Path, database_url: str) -> None:
    duties = await Database.open(database_url, role=DUTIES_ROLE, size=2)
    await published(duties, tmp_path / "mirror")
    await grow(database_url, 600)
    await published(duties, tmp_path / "mirror")
    before = await scalar(database_url, "SELECT root FROM log_state")
    code, out, error = await cli("restore-check")
    assert (code, out.splitlines()[-1], error) == (0, "nothing is to be done", "")
    assert (await cli("restore"))[:2] == (0, "nothing is missing: the database has what was published\n")

    await go_back(database_url, 300)
    code, out, _ = await cli("restore-check")
    assert code == 1
    assert "closed: not_compared\n" in out
    assert "beyond           301  resume\nrun `python -m store restore`\n" in out
    mirror = (tmp_path / "mirror").rename(tmp_path / "away")
    code, out, _ = await cli("restore-check")
    assert (code, "is it mounted?" in out) == (1, True)
    code, _, error = await cli("restore")
    assert (code, "the mirror is empty" in error) == (1, True)
    mirror.rename(tmp_path / "mirror")

    code, out, error = await cli("restore")
    assert (code, error) == (0, "")
    assert out.startswith("reads are closed; leaves 300 to 601 come from the mirror\ncopied 301 leaves; ")
    assert out.endswith("reads are open, and the log goes on\n")
    assert await scalar(database_url, "SELECT root FROM log_state") == before
    code, out, _ = await cli("restore-check")
    assert (code, "last       begun" in out, out.splitlines()[-1]) == (0, True, "nothing is to be done")
    await duties.close()
