"""What a program loads that imports the client: not the time, which is the machine's, but what makes it."""

import json
import os
import subprocess
import sys

import pytest

# Long to load, and not needed by a program before its first capture leaves, if at all.
SLOW = {"asyncio", "cryptography", "email", "http", "logging", "ssl", "unittest", "urllib", "xml"}


def loaded(statement):
    """Name the modules that a statement loads in a new process."""
    told = "print(json.dumps([*set(sys.modules) - before]))"
    program = f"import json, sys; before = set(sys.modules); {statement}; {told}"
    found_here = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=found_here
    )
    return set(json.loads(done.stdout))


def roots(names):
    return {name.partition(".")[0] for name in names}


@pytest.fixture(scope="module")
def with_the_client():
    return loaded("import custody_client")


def test_nothing_but_msgspec_is_loaded_that_is_not_pythons_own(with_the_client):
    ours = {"custody_client", "msgspec", *roots(loaded("import msgspec"))}
    assert roots(with_the_client) - ours - sys.stdlib_module_names == set()


def test_no_adapter_and_no_verifier_is_loaded(with_the_client):
    assert not {name for name in with_the_client if name.startswith("custody_client.adapters")}
    assert not {
        name for name in with_the_client if name.startswith(("custody_client.verify", "custody_client.diag"))
    }


def test_nothing_slow_is_loaded_that_msgspec_does_not_load_anyway(with_the_client):
    assert SLOW & roots(with_the_client) - roots(loaded("import msgspec")) == set()


def test_the_doctor_is_there_when_it_is_called():
    statement = "import custody_client; r = custody_client.doctor('', ''); r = custody_client.doctor('', '')"
    assert "custody_client.diagnostics" in loaded(statement)
