"""The page on lineage shows code that runs and prints what the page says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from custody_toolchain.facts import Link
from custody_toolchain.lineage import Lineage, tracing

PAGE = (Path(__file__).parents[1] / "docs/lineage.md").read_text("utf-8")


def test_the_pages_code_prints_what_the_page_says():
    (code,), (said,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "text"))
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "lineage.md", "exec"), {})  # noqa: S102 - the page's own
    assert printed.getvalue() == said


def test_the_page_has_every_function_and_every_link():
    rows = set(re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE))
    assert {"bind", "inherit", "cut_rows", "cut_bytes", "reference", "omit"} <= rows
    assert {link.value for link in Link if link is not Link.BOUND} <= rows
    public = {name for name in vars(Lineage) if not name.startswith("_")}
    assert {name for name in public if f"`{name}" not in PAGE and f"lineage.{name}" not in PAGE} <= {"close"}


def test_the_bounds_are_as_the_page_says():
    assert (tracing.MOST_TEXTS, tracing.MOST_TEXT_BYTES, tracing.MOST_OCCURRENCES) == (
        16_384,
        64 * 2**20,
        16_384,
    )
    for told in ("16,384", "64 MiB"):
        assert told in PAGE
