"""Who may import whom, and who may touch the world: the clock, the environment, the random generator."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT, SERVICE, module_of, names_used, python_files

CLOCKS = (
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|process_time|localtime|gmtime)",
    r"datetime\.(datetime|date)\.(now|utcnow|today)",
)
ENVIRONMENT = (r"os\.(environ|environb|getenv|getenvb|putenv|unsetenv)(\..*)?",)
RANDOMNESS = (
    r"os\.(urandom|getrandom)",
    r"random\..*",
    r"secrets\.(?!compare_digest$).*",
    r"uuid\.uuid\d",
    r"uuid_utils\..*",
    r"cryptography\..*\.(generate_key|generate)",
)
# What may be touched only in one file. Its own module is named beside it.
ONLY = {
    "clock": (CLOCKS, "store.clock"),
    "environment": (ENVIRONMENT, "store.config"),
    "randomness": (RANDOMNESS, "store.ids"),
}


def offences(source: str, patterns: tuple[str, ...]) -> list[str]:
    return [
        f"line {line}: {name}"
        for line, name in names_used(source)
        if any(re.fullmatch(pattern, name) for pattern in patterns)
    ]


@pytest.mark.parametrize("what", ONLY)
def test_the_world_is_touched_in_one_file(what):
    patterns, home = ONLY[what]
    found = {
        module_of(path): offences(path.read_text(), patterns)
        for path in python_files(*SERVICE)
        if module_of(path) != home
    }
    assert {module: lines for module, lines in found.items() if lines} == {}
    assert offences((ROOT / f"{home.replace('.', '/')}.py").read_text(), patterns)


@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("clock", "import time\ntime.monotonic()"),
        ("clock", "from time import time as t\nt()"),
        ("clock", "import datetime as d\nd.datetime.now(d.UTC)"),
        ("clock", "from datetime import datetime\ndatetime.utcnow()"),
        ("environment", "import os\nos.environ['X']"),
        ("environment", "from os import getenv"),
        ("randomness", "import os\nos.urandom(1)"),
        ("randomness", "from uuid import uuid4"),
        ("randomness", "import secrets\nsecrets.token_hex()"),
        ("randomness", "from cryptography.x import Key\nKey.generate()"),
    ],
)
def test_the_check_sees_each_way_of_doing_it(what, source):
    assert offences(source, ONLY[what][0])


def test_the_check_leaves_alone_what_only_looks_like_it():
    source = "import time, secrets\ntime.sleep(1)\nsecrets.compare_digest(a, b)\nself.time.time()"
    assert not any(offences(source, patterns) for patterns, _ in ONLY.values())


@pytest.mark.parametrize("name", SERVICE)
def test_the_service_is_ours_and_not_an_installed_package_of_the_same_name(name):
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin) == ROOT / name / "__init__.py"


def test_the_floors_hold():
    lint = Path(sys.executable).with_name("lint-imports")
    # What make gives, where the tests are run without it.
    found = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "toolchain" / "src")))}
    result = subprocess.run(
        [lint, "--no-cache"], cwd=ROOT, env=found, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


# Handing `receive` on reads nothing.
BODY = re.compile(r"\.(receive|stream|body|json|form|msgpack)\b(?! = )")


@pytest.mark.parametrize("module", ["guards", "headers", "identity", "direct"])
def test_what_runs_before_a_body_may_be_read_reads_none(module):
    assert BODY.findall((ROOT / "store" / "api" / f"{module}.py").read_text().partition('"""\n')[2]) == []
    assert BODY.search("await request.body()")
