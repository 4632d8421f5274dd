"""Policies decide and do nothing else: no clock, ids, logging, files or await; and each says which way it fails."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

POLICIES = Path(__file__).parents[2] / "policies"
FILES = sorted(POLICIES.rglob("*.py"))
# From the standard library only what computes. Whoever needs another module shows first that it is pure.
PURE = {
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "itertools",
    "math",
    "re",
    "types",
    "typing",
}
IMPURE_CALLS = {
    *("open", "print", "input", "exec", "eval", "__import__", "breakpoint", "globals"),
    # The clock, by whatever name it was imported.
    *("now", "utcnow", "today", "fromtimestamp", "time", "monotonic"),
    *("uuid4", "urandom", "random", "getLogger"),
}
DECIDES_NOTHING = {"__init__", "decisions", "facts", "kinds", "limits", "quantities", "reasons", "sequences"}


def faults(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] not in {*PURE, "policies"})
            case ast.ImportFrom(module=module, level=level):
                if level or (module or "").split(".")[0] not in {*PURE, "policies"}:
                    yield f"from {module}"
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in IMPURE_CALLS:
                yield f"{name}()"
            case (
                ast.AsyncFunctionDef()
                | ast.Await()
                | ast.AsyncFor()
                | ast.AsyncWith()
                | ast.Yield()
                | ast.Global()
            ):
                yield type(node).__name__


def test_there_is_something_to_look_at():
    assert {"admission.py", "availability.py", "reasons.py"} <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_policy_is_pure(file: Path):
    assert list(faults(file.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import datetime, os.path",
        "import asyncpg",
        "from store import errors",
        "from policiesx import kinds",
        "from . import kinds",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "from datetime import date\ndate.today()",
        "from uuid import uuid4",
        "import random",
        "import logging",
        "print('x')",
        "open('x')",
        "async def decide(): pass",
        "def decide():\n    global seen\n    seen = 1",
    ],
)
def test_what_is_impure_is_found(source: str):
    assert list(faults(source))


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import UTC, datetime",
        "import re",
        "from policies.kinds import Kind",
        "def expired(now): return now",
    ],
)
def test_what_is_pure_is_not_found(source: str):
    assert not list(faults(source))


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.stem not in DECIDES_NOTHING], ids=lambda file: file.stem
)
def test_a_policy_says_which_way_it_fails(file: Path):
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    assert "\nFails " in docstring


@pytest.mark.parametrize("name", ["admission", "content"])
def test_admission_and_content_fail_closed(name: str):
    docstring = ast.get_docstring(ast.parse((POLICIES / f"{name}.py").read_text())) or ""
    assert "\nFails closed" in docstring


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_policy_raises_only_for_faults_of_its_caller_and_of_documents(file: Path):
    raised = {
        ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Raise) and node.exc is not None
    }
    assert raised <= {"ValueError", "PolicyFault"}
