"""The client and the service share no code: they are held together by formats, and by golden files, only."""

import sys

import pytest

from tests.support.sources import ROOT, SERVICE, names_used, python_files

# What the verifier needs beside the standard library.
ALLOWED = {"custody_client", "cryptography"}


def roots(path):
    return {name.partition(".")[0] for _, name in names_used(path.read_text())}


@pytest.mark.parametrize("path", python_files("client/src"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_client_imports_the_standard_library_and_itself(path):
    assert roots(path) - sys.stdlib_module_names - ALLOWED == set()


def test_the_service_does_not_import_the_client():
    for path in python_files(*SERVICE, "demo"):
        assert "custody_client" not in roots(path), path


def test_only_the_verifier_needs_cryptography():
    for path in python_files("client/src"):
        assert "cryptography" not in roots(path) or "verify" in path.parts, path
