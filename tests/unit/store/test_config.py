"""Settings: good defaults, no nonsense, every fault at once, and no secret shown."""

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.limits import DEFAULT_RUN_LIMITS, DEFAULT_SCOPE_LIMITS, DEFAULT_SHARD_LIMITS
from policies.scope_policy import ScopePolicy
from store.config import SETTINGS, Settings, describe_markdown, from_environment
from store.errors import ConfigFaults
from store.forms import Secret
from tests.support.sources import tracked

ROOT = Path(__file__).parents[3]
PASSWORD = "CANARY-pw-7f3a"
DATABASE = f"postgresql://custody:{PASSWORD}@db.example:5432/custody?sslmode=verify-full&password={PASSWORD}"


def faults(**environ: str) -> list[str]:
    with pytest.raises(ConfigFaults) as raised:
        Settings.load({f"CUSTODY_{name}": value for name, value in environ.items()})
    return raised.value.faults


def loaded(**environ: str) -> Settings:
    return Settings.load({f"CUSTODY_{name}": value for name, value in environ.items()})


def test_the_table_and_the_struct_have_the_same_settings():
    assert Settings.__struct_fields__ == tuple(setting.field for setting in SETTINGS)


def test_the_page_of_settings_is_made_from_the_table():
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == describe_markdown(), "run `make settings`"


def test_every_value_is_of_its_declared_type():
    environ = {
        "CUSTODY_DATABASE_URL": DATABASE,
        "CUSTODY_REDIS_URL": "redis://r",
        "CUSTODY_DISK_LIMIT": "1GiB",
    }
    settings = Settings.load(environ)
    hints = Settings.__annotations__
    for name in Settings.__struct_fields__:
        value = getattr(settings, name)
        assert isinstance(value, hints[name]), name


def test_the_defaults_of_new_scopes_are_those_of_the_policies():
    settings = loaded()
    assert settings.scope_policy() == ScopePolicy()
    assert settings.scope_policy().run_limits == DEFAULT_RUN_LIMITS
    assert settings.scope_policy().scope_limits == DEFAULT_SCOPE_LIMITS
    assert settings.shard_limits() == DEFAULT_SHARD_LIMITS


def test_every_setting_of_a_new_scope_reaches_its_policy():
    policy = loaded(
        PART_BYTES="1KiB",
        RUN_PARTS="2",
        RUN_BYTES="3KiB",
        RUN_WAITING_PARTS="4",
        RUN_WAITING_BYTES="5KiB",
        RUN_WAITING_NOTES="6",
        SCOPE_WAITING_PARTS="7",
        SCOPE_WAITING_BYTES="8KiB",
        SCOPE_SHARE="0.25",
        RETENTION_DEFAULT="9s",
        RETENTION_MAX="10s",
        METADATA_RETENTION="11s",
        DESTROY_AFTER="12s",
    ).scope_policy()
    run, scope = policy.run_limits, policy.scope_limits
    assert [getattr(run, field.name) for field in fields(run)] == [1024, 2, 3072, 4, 5120, 6]
    assert [getattr(scope, field.name) for field in fields(scope)] == [7, 8192, 0.25]
    found = (
        policy.retention_default_s,
        policy.retention_max_s,
        policy.metadata_retention_s,
        policy.destroy_after_s,
    )
    assert found == (9, 10, 11, 12)


@pytest.mark.parametrize("name", ["RETENTION_DEFAULT", "RETENTION_MAX", "BUCKET_SPAN", "TICKET_LIFETIME"])
@pytest.mark.parametrize(
    "value",
    [
        "3",
        "0",
        "-1",
        "",
        "1e9",
        "0s",
        "-1s",
        "3 d",
        "3D",
        "d",
        "3d4h",
        "99999999d",
        "for ever",
        "3d\n",
        "\u0663d",
    ],
)
def test_a_bad_duration_is_refused(name, value):
    [fault] = faults(**{name: value})
    assert fault.startswith(f"CUSTODY_{name} ")


@pytest.mark.parametrize("name", ["PART_BYTES", "SHARD_BYTES", "BODY_BUDGET", "DISK_LIMIT"])
@pytest.mark.parametrize(
    "value", ["1024", "0", "-1KiB", "", "1e9", "1KB", "1 KiB", "0B", "1PiB", "999999TiB", "1B"]
)
def test_a_bad_size_is_refused(name, value):
    [fault] = faults(**{name: value})
    assert fault.startswith(f"CUSTODY_{name} ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "80.5"),
        ("PORT", "8_750"),
        ("PORT", " 8750"),
        ("RUN_PARTS", "0"),
        ("RUN_PARTS", "1e3"),
        ("QUEUE_SHARDS", "0"),
        ("QUEUE_SHARDS", "999999"),
        ("SCOPE_SHARE", "0"),
        ("SCOPE_SHARE", "0.0"),
        ("SCOPE_SHARE", "1.5"),
        ("SCOPE_SHARE", "-0.5"),
        ("SCOPE_SHARE", "nan"),
        ("SCOPE_SHARE", "inf"),
        ("CANARY", "yes"),
        ("CANARY", "0"),
        ("CANARY", "True"),
        ("LOG_LEVEL", "loud"),
        ("LOG_LEVEL", "INFO"),
        ("LOG_ORIGIN", "a+b"),
        ("LOG_ORIGIN", "a b"),
        ("LOG_ORIGIN", "/log"),
        ("HOST", ""),
        ("HOST", "a b"),
        ("PUBLIC_URL", "custody.example"),
        ("PUBLIC_URL", "ftp://custody.example"),
        ("PUBLIC_URL", "https://user:pw@custody.example"),
        ("PUBLIC_URL", "https://custody.example?token=x"),
        ("PUBLIC_URL", "https://custody.example:port"),
        ("KEYS_DIR", ""),
        ("DATABASE_URL", ""),
        ("DATABASE_URL", "db.example"),
        ("DATABASE_URL", "mysql://db"),
        ("DATABASE_URL", "postgresql:db"),
        ("REDIS_URL", "postgresql://db"),
        ("REDIS_URL", "http://redis"),
    ],
)
def test_nonsense_is_refused(name, value):
    [fault] = faults(**{name: value})
    assert fault.startswith(f"CUSTODY_{name} ")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("RETENTION_DEFAULT", "90d", timedelta(days=90)),
        ("CLOSING", "10m", timedelta(minutes=10)),
        ("NEVER_CLOSED", "48h", timedelta(days=2)),
        ("RUN_VIEW_AGE", "50ms", timedelta(milliseconds=50)),
        ("PART_BYTES", "2048B", 2048),
        ("DISK_LIMIT", "2TiB", 2 << 40),
        ("SCOPE_SHARE", "1", 1.0),
        ("CANARY", "false", False),
        ("WAITERS", "0", 0),
        ("PUBLIC_URL", "https://custody.example/", "https://custody.example"),
    ],
)
def test_a_good_value_is_read(name, value, expected):
    assert getattr(loaded(**{name: value}), name.lower()) == expected


def test_all_faults_are_named_at_once():
    found = faults(PORT="x", PART_BYTES="1", PORTT="1", DATABASE_URL="x", RETENTION_MAX="3")
    assert sorted(fault.split()[0] for fault in found) == [
        "CUSTODY_DATABASE_URL",
        "CUSTODY_PART_BYTES",
        "CUSTODY_PORT",
        "CUSTODY_PORTT",
        "CUSTODY_RETENTION_MAX",
    ]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RETENTION_DEFAULT": "91d"}, "RETENTION_DEFAULT is longer"),
        ({"METADATA_RETENTION": "89d"}, "metadata must outlive content"),
        ({"PART_BYTES": "4MiB"}, "RUN_WAITING_BYTES cannot hold one sealed part"),
        ({"RUN_BYTES": "255KiB"}, "PART_BYTES is more than CUSTODY_RUN_BYTES"),
        ({"FLUSH_BYTES": "128KiB"}, "PART_BYTES is more than CUSTODY_FLUSH_BYTES"),
        ({"FLUSH_BYTES": "33MiB"}, "FLUSH_BYTES is more than four fifths of CUSTODY_BODY_BUDGET"),
        ({"RUN_WAITING_BYTES": "65MiB"}, "RUN_WAITING_BYTES is more than CUSTODY_SCOPE_WAITING_BYTES"),
        ({"SCOPE_WAITING_BYTES": "257MiB"}, "SCOPE_WAITING_BYTES is more than CUSTODY_SHARD_BYTES"),
        ({"SCOPE_WAITING_PARTS": "31"}, "do not grow in this order"),
        ({"SCOPE_WAITING_PARTS": "16385"}, "do not grow in this order"),
        ({"KEY_GRACE": "4s"}, "KEY_GRACE is shorter"),
        ({"KEYS_DIR": "/k", "KEYS_COPY_DIR": "/k"}, "where the keys already are"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(environ, words):
    [fault] = faults(**environ)
    assert words in fault


def test_an_unknown_name_is_refused_with_a_suggestion():
    assert faults(RETENTION_DEFUALT="3d") == [
        "CUSTODY_RETENTION_DEFUALT is no setting; is CUSTODY_RETENTION_DEFAULT meant?"
    ]
    assert faults(ZZZZQQQQ="1") == ["CUSTODY_ZZZZQQQQ is no setting"]
    # Only secrets may come from files.
    assert faults(PORT_FILE="/x")[0].startswith("CUSTODY_PORT_FILE is no setting")


def test_the_variables_that_the_client_reads_stop_no_process_and_those_alone():
    source = "\n".join(path.read_text() for path in tracked("client/src/**/*.py"))
    read = set(re.findall(r"\bCUSTODY_([A-Z_]+)", source))
    assert {"URL", "KEY", "KEY_FILE"} <= read
    loaded(**dict.fromkeys(read, "x"))
    assert all(f"`CUSTODY_{name}`" in describe_markdown() for name in read)
    assert [fault.split(" is no setting")[0] for fault in faults(URL_FILE="x", KEYS="x")] == [
        "CUSTODY_KEYS",
        "CUSTODY_URL_FILE",
    ]


def test_other_names_and_those_of_the_tests_are_left_alone():
    Settings.load({"PATH": "/bin", "CUSTODY_TEST_DATABASE_URL": "anything", "custody_port": "x"})


def test_a_secret_comes_from_a_file(tmp_path):
    file = tmp_path / "url"
    file.write_text(DATABASE + "\n", encoding="utf-8")
    assert loaded(DATABASE_URL_FILE=str(file)) == loaded(DATABASE_URL=DATABASE)


def test_a_file_that_cannot_be_read_or_is_one_too_many_is_a_fault(tmp_path):
    [fault] = faults(DATABASE_URL_FILE=str(tmp_path / "none"))
    assert "(FileNotFoundError)" in fault
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    [fault] = faults(DATABASE_URL_FILE=str(tmp_path / "binary"))
    assert "(UnicodeDecodeError)" in fault
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    [fault] = faults(DATABASE_URL_FILE=str(tmp_path / "empty"))
    assert "is empty" in fault
    [fault] = faults(DATABASE_URL=DATABASE, DATABASE_URL_FILE=str(tmp_path / "empty"))
    assert "leave one out" in fault


def test_addresses_fall_back_to_the_plain_ones():
    settings = loaded(DATABASE_URL=DATABASE, REDIS_URL="rediss://:pw@r:6380/0")
    assert settings.owner_database_url == settings.duties_database_url == Secret(DATABASE)
    assert settings.arq_redis_url == Secret("rediss://:pw@r:6380/0")
    apart = loaded(DATABASE_URL=DATABASE, OWNER_DATABASE_URL="postgres://owner@db/x")
    assert apart.owner_database_url == Secret("postgres://owner@db/x")
    assert loaded().database_url is None


def test_directories_fall_back_into_each_other(tmp_path):
    settings = loaded(DATA_DIR=str(tmp_path))
    assert settings.keys_dir == tmp_path / "keys"
    assert settings.token_keys_dir == tmp_path / "keys" / "token"
    assert settings.signing_keys_dir == tmp_path / "keys" / "signing"
    assert settings.mirror_dir == tmp_path / "mirror"
    assert settings.keys_copy_dir is None
    assert loaded(KEYS_DIR="/k").token_keys_dir == Path("/k/token")
    assert loaded(DATA_DIR="~/here").data_dir == Path.home() / "here"
    assert loaded(DATA_DIR="here").data_dir == Path.cwd() / "here"


def test_no_secret_shows():
    settings = loaded(DATABASE_URL=DATABASE, REDIS_URL=f"unix://:{PASSWORD}@/run/redis.sock?db=1")
    shown = [repr(settings), str(settings), settings.describe(), f"{settings.database_url}"]
    shown += ["%s" % settings.database_url, repr([settings.redis_url])]  # noqa: UP031 - one more way to show it
    assert not [text for text in shown if PASSWORD in text]
    lines = settings.describe().splitlines()
    assert (
        lines[0]
        == "CUSTODY_DATABASE_URL=postgresql://custody:***@db.example:5432/custody?sslmode=verify-full&password=***"
    )
    assert "CUSTODY_REDIS_URL=unix://:***@/run/redis.sock?db=1" in lines
    assert settings.database_url is not None
    assert settings.database_url.reveal() == DATABASE


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:1/{PASSWORD}@db/x",
        f"postgresql://u:1?{PASSWORD}@db/x",
        f"postgresql://u:1#{PASSWORD}@db/x",
        f"postgresql://u:{PASSWORD} @db/x",
        f"postgresql://u:p@db:{PASSWORD}/x",
        f"postgresql://u:p@[{PASSWORD}/x",
        f"{PASSWORD}",
        f"mysql://u:{PASSWORD}@db/x",
    ],
)
def test_a_fault_quotes_nothing_of_a_secret(address):
    with pytest.raises(ConfigFaults) as raised:
        loaded(DATABASE_URL=address)
    assert PASSWORD not in str(raised.value)
    assert raised.value.faults[0].startswith("CUSTODY_DATABASE_URL ")


@given(st.sampled_from([setting.env for setting in SETTINGS]), st.text(max_size=30))
def test_any_text_is_read_or_is_a_fault_of_that_setting(name, text):
    named = [name]
    try:
        Settings.load({name: text})
    except ConfigFaults as raised:
        named = raised.faults
    assert all(name in fault for fault in named)


def test_what_is_described_can_be_read_back():
    settings = loaded(CLOSING="1500ms", DISK_LIMIT="3GiB", PUBLIC_URL="https://c.example", KEYS_COPY_DIR="/c")
    pairs = (line.split("=", 1) for line in settings.describe().splitlines())
    assert Settings.load({name: value for name, value in pairs if value}) == settings


def test_the_settings_of_this_process_come_from_its_environment(monkeypatch):
    monkeypatch.setenv("CUSTODY_PORT", "9999")
    assert from_environment().port == 9999
