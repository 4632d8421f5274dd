"""The client and the service share no code: they are held together by formats, and by golden files, only."""

import ast
import sys

import pytest

from tests.support.sources import ROOT, SERVICE, names_used, python_files

# What is needed beside the standard library: by the verifier, and by the rest.
ALLOWED = {"custody_client", "cryptography", "msgspec"}
# What an adapter may import, inside a function: whoever does not use it needs none of them.
PROVIDERS = {"anthropic", "google", "httpx", "httpx2", "litellm", "openai", "opentelemetry"}


def roots(path):
    return {name.partition(".")[0] for _, name in names_used(path.read_text())}


def imported_at_once(path):
    """Name what a module imports when it is imported itself."""
    lazy = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not isinstance(node, lazy)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [inner for inner in node.body if not isinstance(inner, lazy)] or [ast.Pass()]
    return {name.partition(".")[0] for _, name in names_used(ast.unparse(tree))}


@pytest.mark.parametrize("path", python_files("client/src"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_client_imports_the_standard_library_and_itself(path):
    optional = PROVIDERS if "adapters" in path.parts else set()
    assert roots(path) - sys.stdlib_module_names - ALLOWED - optional == set()
    assert imported_at_once(path) & PROVIDERS == set()


def test_the_verifier_needs_no_msgspec():
    for path in python_files("client/src/custody_client/verify"):
        assert "msgspec" not in roots(path), path


def test_the_service_does_not_import_the_client():
    for path in python_files(*SERVICE, "demo"):
        assert "custody_client" not in roots(path), path


def test_only_the_verifier_needs_cryptography():
    for path in python_files("client/src"):
        assert "cryptography" not in roots(path) or "verify" in path.parts, path
