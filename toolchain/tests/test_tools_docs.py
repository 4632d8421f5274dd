"""The page of `tools` shows what happens."""

import pytest

from toolchain.tests.pages import examples, printed


@pytest.mark.parametrize(("code", "says"), examples("tools.md"), ids=lambda _: "")
def test_the_page_prints_what_it_says(code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert printed(code) == says


def test_the_page_has_an_example():
    assert examples("tools.md")
