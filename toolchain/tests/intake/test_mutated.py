"""Texts and answers that were damaged at random: always a result, never an exception, and no more work than is linear.

`make test-long` takes 200,000 of them; their seed is named where one fails.
"""

import json
import random
import time
from typing import Any

import pytest

from custody_toolchain.intake import (
    Dialect,
    Limits,
    Result,
    Truncated,
    permitting,
    read_answer,
    read_markup,
    read_output,
    read_plan,
    read_stream,
)
from toolchain.tests.intake import test_native, written
from toolchain.tests.intake.goldens import GOLDENS
from toolchain.tests.intake.test_plans import GOLDEN

MARKS = [
    "<tool_call>", "</tool_call>", "<function=", "<function=f>", "</function>", "<parameter=a>", "</parameter>",
    "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|eom_id|>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<|DSML|", "</|DSML|", "<\uff5c",
    "<|DSML|function_calls>", '<|DSML|invoke name="f">', "</|DSML|invoke>", '<|DSML|parameter name="a" string="true">',
    "</|DSML|parameter>", "```", "```json\n", "~~~", "<think>", "</think>", "\n", "    ", "> ", '"', "\\", '\\"', "\\u",
    "\\ud800", "{", "}", "[", "]", ":", ",", "null", "NaN", "1e999", "9" * 70, "\ufeff", "\x00", "\U0001f600", "\ud800",
    '{"name":"f","arguments":{}}', '"a":1,"a":1',
]  # fmt: skip
LIMITS = Limits(text_bytes=1 << 20, actions=64, depth=32, parameter_bytes=4096)
ALL = permitting(dialects=list(Dialect), limits=LIMITS)
SALVAGE = permitting(dialects=list(Dialect), limits=LIMITS, truncated=Truncated.SALVAGE)
TEXTS = [*(golden.text for golden in GOLDENS.values()), GOLDEN]
VALUES: list[Any] = [
    None, "", "null", 0, -1, True, 1.5, float("nan"), [], {}, [[]], {"a": 1}, "A", "\ud800", b"x", 10**80, "x" * 300,
]  # fmt: skip


def damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        way = chance.randrange(6)
        if way == 0:
            text = text[:at] + chance.choice(MARKS) + text[at:]
        elif way == 1:
            text = text[:at] + text[min(end, at + 20) :]
        elif way == 2:
            text = text[:at]
        elif way == 3:
            text = text[:at] + text[at:end] * 2 + text[end:]
        elif way == 4:
            other = chance.choice(TEXTS)
            text = text[:at] + other[chance.randint(0, len(other)) :]
        else:
            text = text[:at] + chance.choice(MARKS) * chance.randint(2, 90) + text[at:]
    return text[:8192]


def damaged_value(value: Any, chance: random.Random) -> Any:
    """Change one place of a decoded answer."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        changed = dict(value)
        if chance.random() < 0.1:
            del changed[key]
        else:
            changed[key] = damaged_value(value[key], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.85:
        changed_list = list(value)
        at = chance.randrange(len(value))
        if chance.random() < 0.1:
            changed_list.insert(at, changed_list[at])
        else:
            changed_list[at] = damaged_value(value[at], chance)
        return changed_list
    if isinstance(value, str) and value and chance.random() < 0.5:
        return damaged(value, chance)
    return chance.choice(VALUES)


def checked(result: Result) -> None:
    """What holds for every result, whatever was read."""
    if result.refusal is not None:
        assert result.actions == ()
        assert len(str(result.refusal)) < 250
    assert [action.ordinal for action in result.actions] == list(range(len(result.actions)))
    ids = [action.call_id for action in result.actions if action.call_id is not None]
    assert len(ids) == len(set(ids))
    assert set(ids) <= set(result.native.call_ids)
    for action in result.actions:
        assert action.name
        assert isinstance(action.arguments, dict)
        json.dumps(action.arguments, ensure_ascii=False, allow_nan=False, default=str).encode()


def one(seed: int) -> None:
    chance = random.Random(seed)
    way = seed % 4
    if way < 2:
        text = damaged(chance.choice(TEXTS), chance)
        checked(read_markup(text, ALL, complete=chance.random() < 0.9))
        checked(read_plan(text, chance.choice((ALL, SALVAGE))))
    elif way == 2:
        api = chance.choice(list(test_native.WHOLE))
        checked(read_answer(api, damaged_value(test_native.WHOLE[api], chance), ALL))
    else:
        api = chance.choice(list(test_native.STREAMS))
        chunks = test_native.STREAMS[api]([test_native.RAW[:9], test_native.RAW[9:]])
        changed = damaged_value(chunks, chance)
        changed = changed if isinstance(changed, list) else [changed]
        checked(read_stream(api, changed, chance.choice((ALL, SALVAGE))))
        checked(read_output(damaged_value(RECORDED, chance), ALL))


RECORDED = {
    "schema": "observable-output/1",
    "route": {"host": "h", "api": "chat.completions"},
    "response_id": "c",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "role": "assistant",
            "items": [
                {"type": "text", "text": GOLDENS["dsml"].text},
                {
                    "type": "tool_call",
                    "ordinal": 0,
                    "wire_index": 0,
                    "id": "A",
                    "item_id": None,
                    "name": "f",
                    "arguments": {
                        "raw": '{"a":1}',
                        "state": "valid-json",
                        "fragments": [{"seq": 0}, {"seq": 1, "n": 7}],
                    },
                    "opaque": {},
                },
            ],
            "finish": {"reason": "tool_calls", "class": "tool_call"},
        }
    ],
    "stream": {"streamed": True, "state": "completed"},
    "notes": [],
    "limits": {"truncated": False, "dropped_items": 0, "dropped_events": 0},
}


def test_what_is_damaged_at_random_is_always_a_result():
    for seed in range(4000):
        try:
            one(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_thousand_damaged_inputs_are_results_and_none_takes_long():
    slowest = 0.0
    for seed in range(200_000):
        began = time.thread_time()
        try:
            one(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        slowest = max(slowest, time.thread_time() - began)
    # At most 8 KiB each: what is linear takes a few milliseconds, what is not would take many seconds.
    assert slowest < 2.0


HOSTILE = {
    "openings": "<tool_call>",
    "openings in a line": "x<tool_call>",
    "functions": "<function=f>",
    "openings with JSON": '<tool_call>{"name":"f","arguments":{"a":"',
    "openings in lines": "\n<tool_call>{",
    "dsml": "<|DSML|invoke",
    "dsml whole": '<|DSML|invoke name="f">',
    "dsml in a line": 'x <|DSML|function_calls><|DSML|invoke name="f">',
    "kimi": "\n<|tool_calls_section_begin|><|tool_call_begin|>",
    "kimi in a line": "x <|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{",
    "mistral": "[TOOL_CALLS][",
    "mistral in a line": "x [TOOL_CALLS]f[ARGS]{",
    "llama in a line": 'x <|python_tag|>{"a":[',
    "whole examples of mistral": "x [TOOL_CALLS]f{} y\n",
    "whole lists of mistral": 'x [TOOL_CALLS][{"name":"f","arguments":{}}] y\n',
    "whole examples of llama": 'x <|python_tag|>{"name":"f","arguments":{}} y\n',
    "fences": "```\n",
    "fences with words": "```a\n",
    "long fences": "````\n```\n",
    "spans": "``` ` ",
    "fences in a line": "a ```e``` ",
    "mentions": "the `<tool_call>` tag\n",
    "thoughts": "<think>",
    "closed thoughts": "</think>",
    "quotes": '"',
    "escaped quotes": '\\"',
    "an open string": '{"a":"' + '\\"' * 10,
    "brackets": "[",
    "pairs of brackets": "[],",
    "backslashes": "\\",
    "quotations": "> <tool_call>\n",
    "spaces": " ",
    "lines": "\n",
    "spaces and marks": "   <tool_call>",
    "ends": "</s>",
    "wide": "\uff5c",
    "elements": "<pre>\n",
    "elements in a line": "<pre>",
    "closed elements": "<a>\n</a>\n",
    "open tags": "<a ",
    "many elements": "".join(f"<a{nth}>\n" for nth in range(64)) + "</a0>\n",
    "open comments": "<!--\n",
    "comments": "<!-- -->\n",
    "items": "- a\n",
    "indented lines": "  a\n",
    "surrogates": '"\\ud83d\\ude00",',
}
BEFORE = {
    "none": "",
    "a call": '<tool_call>{"name":"f","arguments":{}}</tool_call>',
    "an open call": '<tool_call>{"name":"f","arguments":{"a":"',
    "mistral": '[TOOL_CALLS][{"a":"',
}
# Only for a whole batch at the end is it looked up in what it stands.
BEHIND = dict.fromkeys(
    [
        "elements", "elements in a line", "closed elements", "open tags", "many elements", "open comments", "comments",
        "items", "indented lines", "fences", "long fences", "spans", "lines",
    ],
    '\n  <tool_call>{"name":"f","arguments":{}}</tool_call>',
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("named", HOSTILE)
@pytest.mark.parametrize("before", BEFORE)
def test_texts_that_are_made_to_be_slow_take_time_in_proportion(named, before):
    wide = permitting(
        dialects=list(Dialect), limits=Limits(text_bytes=1 << 22, actions=1 << 20, parameter_bytes=1 << 22)
    )

    def seconds(size: int) -> float:
        text = BEFORE[before] + HOSTILE[named] * (size // len(HOSTILE[named])) + BEHIND.get(named, "")
        began = time.thread_time()
        checked_quickly(read_markup(text, wide))
        checked_quickly(read_plan(text, wide))
        return time.thread_time() - began

    # What is linear takes 64 times as long for the second, what is not 4096 times.
    small = min(seconds(1 << 14) for _ in range(3))
    assert seconds(1 << 20) < 64 * 4 * small + 0.4


def checked_quickly(result: Result) -> None:
    assert result.refusal is None or result.actions == ()


def test_every_dialect_takes_time_in_proportion_to_its_calls():
    wide = permitting(
        dialects=list(Dialect), limits=Limits(text_bytes=1 << 24, actions=1 << 20, parameter_bytes=1 << 22)
    )
    for word, write in written.WRITERS.items():
        times = []
        for count in (200, 6400):
            text = write([("find", {"text": f"number {at}", "sort": "new"}) for at in range(count)])
            began = time.thread_time()
            assert len(read_markup(text, wide).actions) == count, word
            times.append(time.thread_time() - began)
        assert times[1] < 32 * 8 * times[0] + 1.0, word
