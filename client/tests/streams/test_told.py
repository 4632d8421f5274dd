"""What docs/outputs.md says is what outputs hold; and their form stays as it was."""

import ast
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from client.tests.streams.made import ALL
from client.tests.streams.wire import assembler
from custody_client.streams import assembler as at_the_end
from custody_client.streams import output
from tests.support.sources import ROOT

TEXT = (ROOT / "docs" / "outputs.md").read_text()
SOURCES = Path(output.__file__).parent
GOLDEN = json.loads((Path(__file__).parent / "outputs.json").read_text())


def notes() -> set[str]:
    """Every note that a source names, without what follows a colon in it."""
    said = {word for file in SOURCES.glob("*.py") for word in words(ast.parse(file.read_text()))}
    remarks = Path(at_the_end.__file__).read_text().partition("def _remarks")[2].partition("def ")[0]
    return said | set(re.findall(r'"([a-z-]+)":', remarks)) | {"markup-calls-left-out"}


def words(tree: ast.AST) -> set[str]:
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    inner = [one for call in calls if getattr(call.func, "attr", "") == "note" for one in ast.walk(call)]
    texts = [one.value for one in inner if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return {text.partition(":")[0] for text in texts}


def test_every_note_is_told_and_no_other():
    table = TEXT.partition("## Notes")[2].partition("\n`facts`")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = {word.partition(":")[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert told == notes()
    assert len(told) > 25


@pytest.mark.parametrize("closed", [output.State, output.ArgumentsState])
def test_every_state_is_told(closed):
    assert [word for word in get_args(closed) if f"`{word}`" not in TEXT] == []


def test_every_wire_format_is_told():
    assert [api for api in ALL if f"`{api}`" not in TEXT] == []


@pytest.mark.parametrize("api", ALL)
def test_the_form_of_an_output_stays(api):
    """Field by field: what once was stored must be readable by what reads it today."""
    assert json.loads(assembler(api, ALL[api].data).encode()) == GOLDEN[api]
