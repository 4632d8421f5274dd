"""The page of `coverage` shows what happens."""

import re

import pytest

from custody_toolchain.facts import Deviation
from toolchain.tests.pages import DOCS, examples, printed

PAGE = (DOCS / "coverage.md").read_text()


@pytest.mark.parametrize(("code", "says"), examples("coverage.md"), ids=lambda _: "")
def test_the_page_prints_what_it_says(code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed(code) == says


def test_the_page_has_an_example():
    assert examples("coverage.md")


def test_the_page_has_every_deviation():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == {
        deviation.value for deviation in Deviation
    }
