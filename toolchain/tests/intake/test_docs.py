"""The page about intake says what is: its examples run and print what they say, its tables are whole."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from custody_toolchain.intake import Dialect, Limits

PAGE = (Path(__file__).parents[2] / "docs" / "intake.md").read_text("utf-8")


def test_the_examples_print_what_the_page_says():
    first, second = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    said = re.search(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert said is not None
    names: dict[str, Any] = {}
    assert printed(first, names) == said.group(1)
    assert printed(second, names).splitlines() == [
        "plan_parse done None None",
        "policy_check done 0 None",
        "tool_run failed 0 timeout",
    ]


def printed(example: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, "intake.md", "exec"), names)  # noqa: S102 - the page's own example
    return out.getvalue()


def test_every_bound_and_every_dialect_is_named():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Bounds")[2], re.MULTILINE)
    assert rows == list(Limits.__struct_fields__)
    for dialect in Dialect:
        assert f"`{dialect}`" in PAGE
