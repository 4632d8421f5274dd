"""The page on the surface shows code that runs and prints what the page says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from custody_toolchain.facts import Change
from custody_toolchain.surface import copies

PAGE = (Path(__file__).parents[1] / "docs/surface.md").read_text("utf-8")


def test_the_pages_code_prints_what_the_page_says():
    pairs = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(pairs) == 2
    for code, said in pairs:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(code, "surface.md", "exec"), {})  # noqa: S102 - the page's own
        assert printed.getvalue() == said


def test_the_page_has_every_change():
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert {change.value for change in Change} <= named


def test_the_bounds_are_as_the_page_says():
    bounds = (copies.MOST_TOOLS, copies.MOST_VALUES, copies.MOST_CHARACTERS, copies.DEEPEST)
    assert bounds == (1024, 200_000, 8 * 2**20, 64)
    assert "1,024 tools, 200,000 values, 8 MiB of text, 64 levels" in PAGE
