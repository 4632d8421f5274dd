"""What docs/integrity.md says that can be asked of others, is so."""

import re

from custody_client.verify.report import Exit
from tests.support.sources import ROOT

TEXT = (ROOT / "docs" / "integrity.md").read_text()


def test_the_exit_codes_are_the_verifiers():
    codes = {value for name, value in vars(Exit).items() if name.isupper()}
    assert {int(code) for code in re.findall(r"^\| (\d) \| .+ \|$", TEXT, re.MULTILINE)} == codes


def test_the_residual_is_told_in_the_same_words_wherever_it_is_told():
    sentence = re.search(r"\*(After an early erasure .+?)\*", TEXT, re.DOTALL)
    assert sentence is not None
    said = " ".join(sentence[1].split())
    assert said in " ".join((ROOT / "docs" / "operations.md").read_text().split())


def test_the_readme_leads_to_it():
    assert "`docs/integrity.md`" in (ROOT / "README.md").read_text()
