"""What providers do differently (docs/outputs.md), one file of events for each, and the siblings of each kind."""

import json
from typing import Any

import msgspec
import pytest

from client.tests.streams.wire import (
    DEVIATIONS,
    DONE,
    brief,
    calls,
    chat,
    chunk,
    deviation,
    output,
    sse,
    text,
    tools,
)
from custody_client.streams import Output
from custody_client.streams.output import Fragment, Reasoning

NAMES = sorted(path.stem for path in DEVIATIONS.glob("*.jsonl"))


def finish(given: Output) -> tuple[str | None, str] | None:
    found = given.choices[0].finish
    return None if found is None else (found.reason, found.class_)


def reasoning(given: Output) -> list[Reasoning]:
    return [item for item in given.choices[0].items if isinstance(item, Reasoning)]


def spans(given: Output) -> list[tuple[str, str, bool]]:
    """Dialect, the text it marks, and whether it is closed."""
    texts = [getattr(item, "text", "") for item in given.choices[0].items]
    return [(one.dialect, texts[one.item][one.start : one.end], one.complete) for one in given.markup]


def test_there_is_a_file_for_each_of_the_thirteen():
    assert [name[:2] for name in NAMES] == [f"{number:02}" for number in range(1, 14)]


@pytest.mark.parametrize("name", NAMES)
def test_each_ends_as_completed_and_nothing_in_it_is_unknown(name):
    given = chat(deviation(name))
    assert given.stream.state == "completed"
    assert given.unknown is msgspec.UNSET
    assert not given.limits.truncated


def test_01_an_empty_id_and_a_null_name_belong_to_the_call_before():
    given = chat(deviation("01-empty-id-on-continuation"))
    assert brief(given) == [("call_A", "f", '{"a":1}')]
    assert calls(given)[0].arguments.state == "valid-json"
    assert calls(given)[0].arguments.fragments == [
        Fragment(0),
        Fragment(1, 5, id="", name=None),
        Fragment(2, 2, id="", name=None),
    ]


def test_02_an_index_with_another_id_and_a_name_is_another_call():
    given = chat(deviation("02-index-reused"))
    assert brief(given) == [("A", "f", "{}"), ("B", "f", "{}")]
    assert given.notes == ["index-reused"]


def test_02_without_ids_a_second_named_call_begins_when_the_first_is_whole():
    def piece(name: str | None, arguments: str) -> dict[str, Any]:
        return tools({"index": 0, "function": {"name": name, "arguments": arguments}})

    whole = chat(sse(piece("f", "{}"), piece("f", '{"a":1}')))
    assert [call[1:] for call in brief(whole)] == [("f", "{}"), ("f", '{"a":1}')]
    repeated = chat(sse(piece("f", '{"a":'), piece("f", "1}")))
    assert [call[1:] for call in brief(repeated)] == [("f", '{"a":1}')]


def test_03_another_id_without_a_name_changes_nothing():
    given = chat(deviation("03-id-changes"))
    assert brief(given) == [("call_b49e", "f", '{"city":"Paris"}')]
    assert given.response_id == "x-1"
    assert given.notes == ["response-id-changed", "id-changed"]


def test_04_without_an_index_the_id_decides_else_the_last_call():
    given = chat(deviation("04-no-index"))
    assert brief(given) == [("c1", "f", '{"q":1}'), ("c2", "g", '{"q":2}')]
    assert {"index-missing", "finish-stop-with-tool-calls"} == set(given.notes)
    assert calls(given)[1].arguments.fragments[1].missing == ("index",)
    kept = json.loads(msgspec.json.encode(calls(given)[0]))["opaque"]
    assert kept == {"extra_content": {"google": {"thought_signature": "c2ln", "weight": 1.5}}}


def test_05_an_object_is_written_once_and_its_numbers_keep_their_digits():
    given = chat(deviation("05-arguments-as-object"))
    assert calls(given)[0].arguments.state == "object"
    assert calls(given)[0].arguments.raw == (
        '{"city":"Rome","order":9007199254740993,"max":18446744073709551616,'
        '"neg":-9223372036854775809,"rate":1.10,"far":1e400}'
    )
    assert "arguments-object" in given.notes


def test_05_an_object_from_an_sdk_keeps_its_digits_too():
    made = {
        "index": 0,
        "id": "c",
        "function": {"name": "f", "arguments": {"max": 2**64, "neg": -(2**63) - 1}},
    }
    wire = chat(sse(tools(made)))
    assert calls(wire)[0].arguments.raw == '{"max":18446744073709551616,"neg":-9223372036854775809}'


def test_06_the_text_null_is_no_id_and_one_chunk_may_hold_two_calls_of_one_index():
    given = chat(deviation("06-id-is-the-text-null"))
    assert brief(given) == [(None, "f", '{"a":1}'), (None, "g", '{"b":2}')]
    assert calls(given)[0].arguments.fragments[0].id == "null"
    assert text(given) == "I call both."
    assert reasoning(given)[0].text == "Hm."
    assert finish(given) == ("error", "error")


def test_07_dsml_is_named_by_its_place_and_stays_where_it_is():
    given = chat(deviation("07-dsml-in-content"))
    said = "".join(
        json.loads(line)["choices"][0]["delta"].get("content", "")
        for line in (DEVIATIONS / "07-dsml-in-content.jsonl").read_text().splitlines()
    )
    assert text(given) == said
    assert spans(given) == [("dsml", said[3:], True)]
    assert not calls(given)
    assert brief(given, "markup") == [(None, "f", '{"q":"x \\"y\\"","n":[1, 2.50]}')]


BAR = "\uff5c"
INVOKE = (
    f'<{BAR}DSML{BAR}invoke name="f"><{BAR}DSML{BAR}parameter name="q" string="true">x</{BAR}DSML{BAR}parameter>'
    f"</{BAR}DSML{BAR}invoke>"
)


@pytest.mark.parametrize(
    ("said", "marked", "complete", "found"),
    [
        (f"<{BAR}DSML{BAR}tool_calls>{INVOKE}</{BAR}DSML{BAR}tool_calls>", None, True, 1),
        (f"{INVOKE}", None, True, 1),
        (f"<{BAR}DSML{BAR}function_calls>{INVOKE}", None, False, 1),
        (f"<{BAR}DSML{BAR}function_calls>{INVOKE[:-9]}", None, False, 0),
        (INVOKE.replace(BAR, BAR * 2).replace("DSML" + BAR * 2, "DSML" + BAR * 2 + " "), None, True, 1),
        (INVOKE.replace(BAR, "\u2016"), None, True, 1),
        (INVOKE.replace(BAR, "|"), None, True, 1),
        (f"<{BAR}DSML{BAR}function_calls> and so on", f"<{BAR}DSML{BAR}function_calls>", False, 0),
    ],
)
def test_07_variants_of_dsml(said, marked, complete, found):
    given = chat(sse(chunk({"content": said}, "stop")))
    assert text(given) == said
    assert spans(given) == [("dsml", marked or said, complete)]
    assert brief(given, "markup") == [(None, "f", '{"q":"x"}')] * found


def test_07_a_stray_mark_stands_beside_the_structured_call():
    call = {"index": 0, "id": "A", "function": {"name": "f", "arguments": "{}"}}
    given = chat(
        sse(chunk({"content": f"<{BAR}DSML{BAR}function_calls>"}), tools(call, finish="tool_calls")), DONE
    )
    assert brief(given) == [("A", "f", "{}")]
    assert spans(given) == [("dsml", f"<{BAR}DSML{BAR}function_calls>", False)]
    assert not calls(given, "markup")


def test_08_hermes_and_qwen_in_the_same_tag():
    given = chat(deviation("08-hermes-tags"))
    assert [one[0] for one in spans(given)] == ["hermes", "hermes"]
    assert brief(given, "markup") == [(None, "f", '{"q":1}'), (None, "g", '{"q":1}')]


LOW = "\u2581"
DEEPSEEK = (
    f"<{BAR}tool{LOW}calls{LOW}begin{BAR}><{BAR}tool{LOW}call{LOW}begin{BAR}>function<{BAR}tool{LOW}sep{BAR}>f"
    f'\n```json\n{{"q": 1}}\n```<{BAR}tool{LOW}call{LOW}end{BAR}><{BAR}tool{LOW}calls{LOW}end{BAR}>'
)


@pytest.mark.parametrize(
    ("dialect", "said", "complete", "found"),
    [
        ("qwen-xml", "<function=f>\n<parameter=q>\nx\n</parameter>\n</function>", True, [("f", '{"q":"x"}')]),
        ("qwen-xml", "<function", False, []),
        ("json-block", '```json\n{"name": "f", "arguments": {"q": 1.0}}\n```', True, [("f", '{"q":1.0}')]),
        ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"q": 1}}]', True, [("f", '{"q":1}')]),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"q": 1}', True, [("f", '{"q": 1}')]),
        ("mistral", '[TOOL_CALLS][{"name": "f", "argu', False, []),
        ("llama", '<|python_tag|>{"name": "f", "parameters": {"q": 1}}<|eom_id|>', True, [("f", '{"q":1}')]),
        (
            "kimi",
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
                '{"q": 1}<|tool_call_end|><|tool_calls_section_end|>'
            ),
            True,
            [("f", '{"q": 1}')],
        ),
        (
            "deepseek",
            DEEPSEEK,
            True,
            [("f", '{"q": 1}')],
        ),
        ("hermes", '<tool_call>\n{"name": "f", "arguments": "{\\"q\\": 1}"}', False, [("f", '{"q": 1}')]),
    ],
)
def test_08_other_dialects(dialect, said, complete, found):
    given = chat(sse(chunk({"content": "é " + said}, "stop")))
    assert text(given) == "é " + said
    assert spans(given) == [(dialect, said, complete)]
    assert [call[1:] for call in brief(given, "markup")] == found


@pytest.mark.parametrize(
    "said",
    ["a < b", "```json\n{}\n```", '```json\n{"name": 1, "arguments": 2}\n```', "<table>", "use [TOOLS]"],
)
def test_08_what_is_no_dialect_is_not_marked(said):
    assert not spans(chat(sse(chunk({"content": said}, "stop"))))


def test_09_reasoning_is_taken_once_under_whatever_name():
    given = chat(deviation("09-reasoning-names"))
    assert [one.text for one in reasoning(given)] == ["One. Two. Three."]
    assert "reasoning-twice" in given.notes
    details = json.loads(msgspec.json.encode(reasoning(given)[0]))["opaque"]["reasoning_details"]
    assert [one["signature"] for one in details] == ["c2ln"]
    assert text(given) == "<think>Four.</think>Yes."
    assert spans(given) == [("think", "<think>Four.</think>", True)]


def test_10_chunks_without_choices_or_delta_are_facts():
    given = chat(deviation("10-azure"))
    assert text(given) == "Hello"
    assert given.response_id == "chatcmpl-1"
    facts = json.loads(msgspec.json.encode(given))
    assert facts["facts"]["prompt_filter_results"][0]["prompt_index"] == 0
    assert facts["choices"][0]["facts"]["content_filter_offsets"] == {"check_offset": 44}


def test_11_pieces_of_two_calls_may_come_in_turns():
    given = chat(deviation("11-litellm"))
    assert brief(given) == [("A", "f", '{"a":1}'), ("B", "g", '{"b":2}')]
    assert calls(given)[0].arguments.fragments[-1] == Fragment(3, 2, id=None)
    assert given.choices[0].finish is None
    assert given.notes == ["finish-missing"]
    assert (
        json.loads(msgspec.json.encode(reasoning(given)[0]))["opaque"]["thinking_blocks"][0]["signature"]
        == "c2ln"
    )


def test_12_a_stop_is_no_sign_that_there_are_no_calls():
    given = chat(deviation("12-finish-stop-with-calls"))
    assert brief(given) == [("A", "f", "{}")]
    assert finish(given) == ("stop", "stop")
    assert given.notes == ["finish-stop-with-tool-calls"]


def test_12_gemini_says_stop_for_calls_as_well():
    part = {"functionCall": {"name": "f", "args": {"order": 9007199254740993}}, "thoughtSignature": "c2ln"}
    event = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]
    }
    given = output("gemini", sse(event))
    assert brief(given) == [(None, "f", '{"order":9007199254740993}')]
    assert given.notes == ["finish-stop-with-tool-calls"]
    assert given.stream.state == "completed"
    assert json.loads(msgspec.json.encode(calls(given)[0]))["opaque"] == {"thoughtSignature": "c2ln"}


def test_13_a_message_beside_a_delta_is_not_read():
    given = chat(deviation("13-cumulative-message"))
    assert text(given) == "One two"
    assert (given.usage.input, given.usage.output, given.usage.source) == (5, 2, "provider")


@pytest.mark.parametrize("name", NAMES)
def test_events_that_an_sdk_decoded_give_the_same_as_bytes(name):
    """But for digits: an object that was decoded has no others than Python gives it."""
    from custody_client.streams import Assembler  # noqa: PLC0415 -- beside what it is held against

    lines = (DEVIATIONS / f"{name}.jsonl").read_bytes().splitlines()
    decoded = Assembler("chat.completions")
    for line in lines:
        decoded.event(json.loads(line))
    raw = chat(sse(*lines))
    if name.startswith("05"):
        assert calls(decoded.output())[0].arguments.raw.startswith('{"city":"Rome","order":9007199254740993,')
    else:
        assert json.loads(decoded.encode()) == json.loads(msgspec.json.encode(raw))
