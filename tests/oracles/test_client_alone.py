"""The client, installed by pip into an environment where nothing else is: how much comes with it, and that it works."""

import json
import subprocess
import sys

import pytest

from tests.support.sources import ROOT

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(120)]

WHEELS = ROOT / ".venv-oracles/wheels"
MOST = 4


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A new environment with the client, from the wheels that the lock names, without any extra."""
    home = tmp_path_factory.mktemp("alone")
    run(sys.executable, "-m", "venv", home)
    python = home / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", WHEELS, "custody-client")
    return python


def run(*command, code=0):
    done = subprocess.run(
        [*map(str, command)], check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_few_distributions_come_with_it(alone):
    listed = json.loads(run(alone, "-m", "pip", "list", "--format=json"))
    brought = {each["name"] for each in listed} - {"pip", "setuptools", "wheel"}
    assert "custody-client" in brought
    assert len(brought) <= MOST, brought


def test_it_captures_without_anything_else(alone):
    program = """\
from custody_client import Custody, current_run
custody = Custody("http://127.0.0.1:9", "ck_runtime_none")
with custody.run("r-1"):
    attempt = current_run().exchange().attempt()
    attempt.capture_request({"model": "m"})
custody.close(0.1)
print(custody.counters().observed)
"""
    assert run(alone, "-c", program).strip() == "1"


def test_its_command_says_what_it_lacks(alone):
    said = run(alone, "-m", "custody_client", "check", code=1)
    assert said.startswith("address   failed")
    done = run(alone, "-m", "custody_client", "verify", "bundle.zip", "--policy", "policy.txt", code=2)
    assert done == ""


def test_its_entry_point_is_found(alone):
    program = """\
from importlib.metadata import entry_points
(found,) = entry_points(group="opentelemetry_genai_completion_hook", name="custody")
print(found.load().__name__)
"""
    assert run(alone, "-c", program).strip() == "CompletionHook"
