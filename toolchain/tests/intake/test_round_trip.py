"""Calls that are written out by `written`, which knows nothing of the code that reads, come back as they were."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.intake import Dialect, TextReader, permitting, read_markup, read_plan
from toolchain.tests.intake import written

MARKS = (
    "<tool_call>", "</tool_call>", "<function=f>", "</parameter>", "[TOOL_CALLS]", "<|python_tag|>", "<|eom_id|>", ";",
    "<|tool_call_end|>", "<|tool_calls_section_end|>", "```", "\n```\n", "</think>", "\\", '"', "{", "]", "\n", "> ",
)  # fmt: skip
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,30}", fullmatch=True)
TEXTS = st.text(max_size=20) | st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=6).map("".join)
# What a value may not hold that stands in the open, between the dialect's own marks.
QWEN_TEXTS = TEXTS.filter(
    lambda text: not any(mark in text for mark in ("<tool_call>", "</", "<function=", "<parameter="))
)
NUMBERS = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
ENDS = {"llama": "", "kimi": "<|im_end|>\n", "mistral": "</s>"}


def calls_of(
    values: st.SearchStrategy[Any], keys: st.SearchStrategy[str]
) -> st.SearchStrategy[list[written.Call]]:
    return st.lists(st.tuples(NAMES, st.dictionaries(keys, values, max_size=4)), min_size=1, max_size=4)


JSON_CALLS = calls_of(VALUES, TEXTS)


@pytest.mark.parametrize("word", ["hermes", "mistral", "llama", "kimi", "deepseek", "json-block"])
@given(calls=JSON_CALLS, before=st.sampled_from(["", "Well.\n", "<think>Hm.</think>"]))
def test_dialects_of_json_give_back_what_was_written(word, calls, before):
    before = "" if word == "json-block" else before
    text = before + written.WRITERS[word](calls) + ENDS.get(word, "\n")
    assert back(text, word) == calls


@given(
    calls=calls_of(VALUES, KEYS),
    bars=st.sampled_from(["\uff5c", "|", "\u2016", "\uff5c\uff5c"]),
    space=st.sampled_from(["", " "]),
    wrapper=st.sampled_from(["function_calls", "tool_calls", "calls", None]),
)
def test_dsml_gives_back_what_was_written_in_all_its_forms(calls, bars, space, wrapper):
    assert back(written.dsml(calls, bars=bars, space=space, wrapper=wrapper), "dsml") == calls


@given(calls=calls_of(QWEN_TEXTS, KEYS))
def test_xml_of_qwen_gives_back_texts(calls):
    assert back(written.qwen_xml(calls), "qwen-xml") == calls


@given(calls=calls_of(VALUES, TEXTS))
def test_mistral_by_name_gives_back_what_was_written(calls):
    assert back(written.mistral_named(calls), "mistral") == calls


@given(calls=JSON_CALLS)
def test_plans_give_back_what_was_written(calls):
    result = read_plan(written.plan(calls))
    assert result.refusal is None, str(result.refusal)
    assert [(one.name, one.arguments) for one in result.actions] == calls


@given(
    calls=JSON_CALLS,
    cuts=st.lists(st.integers(0, 2000), max_size=5),
    word=st.sampled_from(["hermes", "kimi", "mistral"]),
)
def test_any_cutting_into_pieces_gives_the_same(calls, cuts, word):
    data = written.WRITERS[word](calls).encode()
    reader = TextReader(permitting(dialects=[Dialect(word)]))
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        reader.feed(data[begin:end])
    result = reader.markup()
    assert result.refusal is None, str(result.refusal)
    assert [(one.name, one.arguments) for one in result.actions] == calls


def back(text: str, word: str) -> list[written.Call]:
    result = read_markup(text, permitting(dialects=[Dialect(word)]))
    assert result.refusal is None, str(result.refusal)
    return [(one.name, one.arguments) for one in result.actions]
