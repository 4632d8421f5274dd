"""The page of `tools` shows what happens."""

import re

import pytest

from custody_toolchain.facts import STATUSES
from custody_toolchain.tools.schema import ANNOTATIONS, SUPPORTED
from toolchain.tests.pages import DOCS, examples, printed

PAGE = (DOCS / "tools.md").read_text()


@pytest.mark.parametrize(("code", "says"), examples("tools.md"), ids=lambda _: "")
def test_the_page_prints_what_it_says(code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed(code) == says


def test_the_page_has_an_example():
    assert examples("tools.md")


def test_the_page_has_every_stage_with_its_statuses():
    rows = dict(re.findall(r"^\| `(\w+)` \| ([a-z_,; ]+) \|$", PAGE, re.MULTILINE))
    told = {
        stage: set(re.findall(r"[a-z]+_?[a-z]+", said)) - {"later", "then", "or"}
        for stage, said in rows.items()
    }
    assert told == {stage.value: {status.value for status in may} for stage, may in STATUSES.items()}


def test_the_page_has_every_keyword_that_is_supported_and_says_what_is_not():
    words = set(re.findall(r"`([$a-zA-Z]+)", PAGE.partition("## Schemas")[2]))
    assert words >= SUPPORTED | ANNOTATIONS
    assert words & {"pattern", "format"} == {"pattern", "format"}
