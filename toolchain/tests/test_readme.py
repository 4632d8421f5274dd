"""The distribution's first page: its start prints what it says, and its parts are those that there are."""

import re
from pathlib import Path

from toolchain.tests.pages import DOCS, examples, printed

README = DOCS.parent / "README.md"
PACKAGE = DOCS.parent / "src" / "custody_toolchain"
# What parts share; named in the text below the table.
SHARED = {"facts", "observing", "ids", "driving", "locking"}


def modules() -> set[str]:
    return {
        path.stem
        for path in Path(PACKAGE).iterdir()
        if not path.name.startswith("_") and path.name != "py.typed"
    }


def test_the_start_prints_what_it_says():
    ((code, says),) = examples("../README.md")
    assert printed(code) == says


def test_each_part_is_in_the_table_with_a_page_that_is_there():
    rows = re.findall(r"^\| `(\w+)` \| .+ \| \[\w+\]\((docs/\w+\.md)\) \|$", README.read_text(), re.MULTILINE)
    assert {part for part, _ in rows} == modules() - SHARED
    assert {page for _, page in rows} == {f"docs/{path.name}" for path in DOCS.glob("*.md")}
