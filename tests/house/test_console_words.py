"""Every reason and every alarm has words in the console, and whatever the console writes is ours."""

import re

from console import alarm_words, words
from policies.reasons import OUTCOMES, READ_STATUS, Mark, Reason
from store.services.alarms import Alarm, Raised
from tests.support.sources import ROOT, tracked


def test_every_reason_is_a_sentence_with_something_to_do_about_it():
    assert set(words._OUTCOMES) == OUTCOMES
    # What a page can be refused with is what a read can be.
    assert set(words._READS) == set(READ_STATUS)
    assert words._OUTCOMES.keys() | words._READS.keys() == set(Reason)
    said = [way(reason) for reason in Reason for way in (words.of, words.at_read)]
    said += [words.of_mark(mark) for mark in Mark]
    for each in said:
        for text in (each.sentence, each.advice):
            assert re.fullmatch(r"[A-Z].*\.", text), text
        assert each.name


def test_every_alarm_is_a_sentence_with_something_to_do_about_it():
    for alarm in Alarm:
        said = alarm_words.of_alarm(Raised(alarm))
        assert all((said.name, said.sentence, said.advice))
        assert said.level in {"stop", "warn"}


def test_templates_write_no_value_unescaped_and_no_script_or_style():
    for path in tracked("console/templates/*.html"):
        text = path.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape|<style|\sstyle=|\son[a-z]+=|hx-on", text), path
        assert not re.search(r"<script(?![^>]*\ssrc=)", text), path
    assert "autoescape=True" in (ROOT / "console" / "rendering.py").read_text()


def test_every_form_that_changes_something_carries_the_token():
    for path in tracked("console/templates/*.html"):
        for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", path.read_text(), re.DOTALL):
            assert "csrf_field" in form, path
