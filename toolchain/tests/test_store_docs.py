"""The page of `store` shows what happens, and every row that the store can answer."""

import re

import pytest

from policies.chain import Row
from policies.limits import RUN_FACTS
from tests.support.scripted import KEY, scripted
from toolchain.tests.pages import DOCS, examples, printed

PAGE = (DOCS / "store.md").read_text()


@pytest.mark.parametrize(("code", "says"), examples("store.md"), ids=lambda _: "")
def test_the_page_prints_what_it_says(code, says, monkeypatch):
    with scripted() as service:
        monkeypatch.setenv("CUSTODY_URL", service.url)
        monkeypatch.setenv("CUSTODY_KEY", KEY)
        assert printed(code) == says
        assert [each["fact"] for each in service.facts()] == ["delivery.report"]


def test_the_page_has_an_example_every_row_and_the_bound_of_a_run():
    assert examples("store.md")
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == {"row"} | {each.value for each in Row}
    assert f"{RUN_FACTS:,} facts" in PAGE
