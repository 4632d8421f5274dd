"""Runs the examples of a page of the docs, and compares what they print with what the page says."""

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(name):
    """Give each example of a page with what it should print."""
    return _EXAMPLE.findall((DOCS / name).read_text())


def printed(code):
    """Run an example as the only module of a program would be run, and return what it prints."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "example", "exec"), {"__name__": "example"})  # noqa: S102 - the page's own code
    return shown.getvalue()
