"""The door, the locks, the images: what a stranger meets first."""

import re
import subprocess
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from store.embedded import postgres, valkey
from store.services import server_settings
from tests.support.sources import ROOT, tracked

LOCKS = ("runtime", "embedded", "dev", "browser")
APART = ("oracles", "providers")  # each has an environment of its own


def pinned(lock: str) -> dict[str, tuple[str, int]]:
    """Read a lock file: per name its version and how many hashes it has."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    blocks = re.split(r"(?m)^(?=\w)", text)
    found: dict[str, tuple[str, int]] = {}
    for block in filter(None, blocks):
        requirement = Requirement(block.partition("\\")[0].strip())
        version = str(requirement.specifier).removeprefix("==")
        found[canonicalize_name(requirement.name)] = (
            version,
            len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)),
        )
    return found


def test_make_help_lists_every_target_with_its_meaning():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert phony
    assert targets == set(phony.group(1).split())
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    told = dict(re.findall(r"^  make (\S+) +(\S.+)$", shown, re.MULTILINE))
    assert set(told) == targets
    assert {"setup", "demo", "up", "test", "test-long", "check", "bench", "migrate", "lock"} <= targets


def test_ci_goes_through_the_door():
    run = (ROOT / ".ci" / "run").read_text()
    assert {
        "make check", "make test", "make test-browser", "make test-providers", "make test-oracles",
    } <= set(run.splitlines())  # fmt: skip
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


@pytest.mark.parametrize("lock", [*LOCKS, *APART])
def test_locks_carry_hashes_for_all_and_addresses_for_none(lock):
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert "://" not in text
    options = {line.split("=")[0].strip() for line in text.splitlines() if line.lstrip().startswith("-")}
    assert options == {"--hash"}
    for name, (version, hashes) in pinned(lock).items():
        assert re.fullmatch(r"\d[\w.]*", version), name
        assert hashes > 0, name


def test_each_requirement_is_locked_once_and_as_the_project_asks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = {
        "runtime": project["project"]["dependencies"],
        "embedded": project["dependency-groups"]["embedded"],
        "dev": project["dependency-groups"]["dev"],
        "browser": project["dependency-groups"]["browser"],
    }
    locks = {lock: pinned(lock) for lock in LOCKS}
    names = [name for lock in LOCKS for name in locks[lock]]
    assert len(names) == len(set(names))
    everything = {name: version for lock in LOCKS for name, (version, _) in locks[lock].items()}
    for lock in LOCKS:
        for text in asked[lock]:
            requirement = Requirement(text)
            assert everything[canonicalize_name(requirement.name)] in requirement.specifier, text
    for text in asked["runtime"]:
        assert canonicalize_name(Requirement(text).name) in locks["runtime"], text


@pytest.mark.parametrize("lock", APART)
def test_what_is_apart_stands_alone_and_takes_what_the_service_takes(lock):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    apart, runtime = pinned(lock), pinned("runtime")
    for text in project["dependency-groups"][lock]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(
            apart[canonicalize_name(requirement.name)][0], prereleases=True
        ), text
    for name in apart.keys() & runtime.keys():
        assert apart[name][0] == runtime[name][0], name


def test_no_statement_asks_for_whatever_columns_there_are():
    star = re.compile(r"\b(SELECT|RETURNING)\s+(\w+\.)?\*|,\s*\w+\.\*", re.IGNORECASE)
    for path in tracked("*.sql", "store/**/*.py", "workers/**/*.py", "demo/**/*.py"):
        text = re.sub(r"--.*", "", path.read_text()) if path.suffix == ".sql" else path.read_text()
        assert not star.search(text), path
    assert star.search("select  *")
    assert star.search("SELECT a, r.* FROM r")
    assert not star.search("SELECT count(*) FROM r WHERE a * 2 > b")


def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_containers_and_embedded_servers_keep_the_same_things_out_of_their_logs():
    flags = [flag.removeprefix("-c") for flag in compose()["services"]["postgres"]["command"][1:]]
    given = dict(flag.split("=", 1) for flag in flags)
    for name, value in postgres._SETTINGS.items():
        if name.startswith("log_") and name not in {"log_timezone", "log_checkpoints"}:
            assert given[name] == value, name
    for name, value in {**server_settings.CONTENT, **server_settings.STATEMENTS}.items():
        assert given[name] == postgres._SETTINGS[name] == value, name
    assert given["max_locks_per_transaction"] == str(server_settings.LOCKS)
    here = dict(line.split(" ", 1) for line in valkey._SETTINGS.splitlines() if line and line[0] != "#")
    conf = (ROOT / "deploy" / "valkey.conf").read_text().splitlines()
    there = dict(line.split(" ", 1) for line in conf if line and line[0] != "#")
    for name in there.keys() - {"dir", "maxmemory", "appendfsync", "protected-mode"}:
        assert here[name] == there[name], name
    assert there["appendfsync"] == "everysec"
    assert {
        "maxmemory-policy",
        "appendonly",
        "crash-log-enabled",
        "commandlog-execution-slower-than",
    } <= there.keys()


def test_containers_have_every_secret_that_they_are_promised(tmp_path):
    script = tmp_path / "make-secrets"
    script.write_text((ROOT / "deploy" / "make-secrets").read_text())
    script.chmod(0o755)
    subprocess.run([script], check=True, capture_output=True)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert set(made) == set(compose()["secrets"])
    assert made["service_password"] in made["database_url"]
    assert len(set(made.values())) == len(made)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    subprocess.run([script], check=True, capture_output=True)
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made
    for service in compose()["services"].values():
        assert set(service.get("secrets", ())) <= set(made)


def test_containers_say_when_they_are_well_and_leave_no_core_dump():
    services = compose()["services"]
    assert {
        "postgres",
        "valkey",
        "migrate",
        "keys",
        "api-1",
        "api-2",
        "console",
        "writer-1",
        "writer-2",
        "duties",
        "publisher",
        "proxy",
    } == set(services)
    for name, service in services.items():
        assert name == "proxy" or service["ulimits"] == {"core": 0}
        if "healthcheck" in service:
            assert {"interval", "start_interval", "start_period"} <= service["healthcheck"].keys(), name
    assert {"postgres", "valkey", "api-1", "api-2", "console", "duties", "proxy"} <= {
        name for name, service in services.items() if "healthcheck" in service
    }


def test_only_the_publisher_has_the_key_that_signs_and_writes_the_mirror():
    mounts = {
        name: {volume.split(":")[0]: volume.split(":")[2:] for volume in service.get("volumes", ())}
        for name, service in compose()["services"].items()
    }
    assert {name for name, volumes in mounts.items() if "signing" in volumes} == {"keys", "publisher"}
    writes = {name for name, volumes in mounts.items() if volumes.get("mirror", ["ro"]) != ["ro"]}
    assert writes == {"publisher"}
    assert not {"keys", "keys-copy"} & mounts["publisher"].keys()


def test_the_proxy_logs_no_lengths_and_no_query_strings_and_holds_back_no_request():
    conf = re.sub(r"#.*", "", (ROOT / "deploy" / "nginx.conf").read_text())
    form = re.search(r"log_format custody '([^']+)'", conf)
    assert form
    assert set(form.group(1).split()) == {
        "$time_iso8601",
        "$request_method",
        "$logged_uri",
        "$status",
        "$request_time",
    }
    assert re.search(r"error_log \S+ crit;", conf)
    assert re.search(r'map \$uri \$logged_uri \{\s*"~ck_', conf)
    assert "proxy_request_buffering off;" in conf
    # A refusal by the proxy would have no receipt, and leave no gap.
    assert "client_max_body_size 0;" in conf
    assert re.search(r"location = /metrics \{\s*return 404;", conf)
