"""Every dialect as it is written by hand, fed in pieces, cut at every byte, quoted, nested, and given twice."""

# ruff: noqa: RUF001 - marks of these models are made of such characters

import json
from typing import Any

import pytest

from custody_toolchain.intake import (
    Boundary,
    Dialect,
    Limits,
    Options,
    Refusal,
    Result,
    Source,
    TextReader,
    Why,
    permitting,
    read_answer,
    read_markup,
)
from toolchain.tests.intake.goldens import GOLDENS, Golden
from toolchain.tests.intake.written import BAR, ENDLESS, LOW, WRITERS, dsml

ALL = permitting(dialects=list(Dialect), limits=Limits(actions=20_000, text_bytes=8 * 1024 * 1024))
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("find", {"text": "ä \U0001f600", "sort": "new"}),
    ("read", {"file": "a"}),
]
WORDS = sorted(WRITERS)


def only(golden: Golden) -> Options:
    return permitting(dialects=[Dialect(golden.dialect)])


def found(result: Result) -> list[tuple[str, dict[str, Any], str | None]]:
    assert result.refusal is None, str(result.refusal)
    return [(action.name, action.arguments, action.call_id) for action in result.actions]


def brief(result: Result) -> list[tuple[str, dict[str, Any]]]:
    return [(name, arguments) for name, arguments, _ in found(result)]


def why(result: Result) -> Why:
    assert isinstance(result.refusal, Refusal)
    assert result.actions == ()
    return result.refusal.why


def fed(*pieces: bytes | str, options: Options = ALL, complete: bool = True) -> Result:
    reader = TextReader(options)
    for piece in pieces:
        reader.feed(piece)
    return reader.markup(complete=complete)


@pytest.mark.parametrize("name", GOLDENS)
def test_a_golden_is_what_was_meant_by_it_also_with_all_dialects_permitted(name):
    golden = GOLDENS[name]
    for options in (only(golden), ALL):
        result = read_markup(golden.text, options)
        assert found(result) == golden.calls
        assert result.source is Source.MARKUP
        assert {action.dialect for action in result.actions} == {Dialect(golden.dialect)}
        assert [action.ordinal for action in result.actions] == list(range(len(golden.calls)))
        assert result.native.response is golden.text
        assert result.native.call_ids == tuple(call_id for _, _, call_id in golden.calls)


@pytest.mark.parametrize("name", GOLDENS)
def test_each_action_says_where_it_stands(name):
    golden = GOLDENS[name]
    spans = [action.span or (0, 0) for action in read_markup(golden.text, only(golden)).actions]
    assert spans == sorted(spans)
    for (begin, end), (tool, _, _) in zip(spans, golden.calls, strict=True):
        assert tool in golden.text[begin:end]


@pytest.mark.parametrize("name", GOLDENS)
def test_a_text_may_be_cut_into_pieces_at_every_byte(name):
    golden = GOLDENS[name]
    data = golden.text.encode()
    for at in range(len(data) + 1):
        assert found(fed(data[:at], data[at:])) == golden.calls
    assert found(fed(*(data[at : at + 1] for at in range(len(data))))) == golden.calls
    assert found(fed(*golden.text)) == golden.calls


@pytest.mark.parametrize("name", GOLDENS)
def test_a_text_that_ends_at_any_byte_gives_no_wrong_plan_and_no_part_of_one(name):
    golden = GOLDENS[name]
    data = golden.text.encode()
    whole = len(golden.text.rstrip().encode())
    for at in range(whole):
        ended = fed(data[:at])
        if ended.actions and golden.has_an_end:
            # Only marks of the turn's end may be missing.
            assert found(ended) == golden.calls, at
            assert data[at:whole].decode().startswith(("<|e", "</s>", "<｜end")) or _within_an_end(data, at)
        elif ended.actions:
            count = len(ended.actions)
            assert found(ended) == golden.calls[:count], at
        assert fed(data[:at], complete=False).actions == ()


def _within_an_end(data: bytes, at: int) -> bool:
    return any(
        data[: len(data.rstrip())].endswith(mark) and at >= len(data.rstrip()) - len(mark) for mark in _ENDS
    )


_ENDS = [mark.encode() for mark in ("<|eom_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|im_end|>")]


@pytest.mark.parametrize("word", WORDS)
def test_two_calls_that_end_at_any_byte_are_both_or_refused_unless_the_dialect_has_no_end(word):
    text = WRITERS[word](CALLS)
    data = text.encode()
    assert brief(read_markup(text, ALL)) == CALLS
    for at in range(len(data)):
        ended = fed(data[:at])
        if word in ENDLESS:
            assert brief(ended) in ([], CALLS[:1], CALLS) if ended.refusal is None else ended.actions == ()
        else:
            assert ended.actions == (), at
        assert fed(data[:at], complete=False).actions == ()


@pytest.mark.parametrize("word", WORDS)
def test_quoted_fenced_indented_and_inline_markup_is_text(word):
    text = WRITERS[word](CALLS)
    if word == "json-block":
        text = text.replace("```", "~~~")  # a fence within a fence of the same mark is none
    for around in (
        "```\n{}\n```",
        "~~~xml\n{}\n~~~~\n",
        "````\n```\n{}\n```\n````",
        "Look: `{}`",
        "He said: {}",
        '"{}"',
        "    {}",
        "\t{}",
        "```\n{}",
        "<think>\n{}\n</think>\nDone.",
        "<think>\n{}",
        "<attachment>\n{}\n</attachment>",
        "{}\nThat is how it is written.",
    ):
        result = read_markup(around.replace("{}", text), ALL)
        assert result.refusal is None, (around, str(result.refusal))
        assert result.actions == (), around
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    assert found(read_markup(quoted, ALL)) == []


@pytest.mark.parametrize("word", WORDS)
def test_markup_inside_a_json_string_is_text(word):
    text = WRITERS[word](CALLS)
    assert found(read_markup(json.dumps({"answer": text}, ensure_ascii=False), ALL)) == []
    if word != "qwen-xml":
        # As an argument of a call it is the argument.
        outer = [("write", {"content": text, "n": 1})]
        assert brief(read_markup(WRITERS["hermes"](outer), ALL)) == outer
        assert brief(read_markup(WRITERS["mistral"](outer), ALL)) == outer
        assert brief(read_markup(WRITERS["kimi"](outer), ALL)) == outer


# Places behind which no batch may begin, for every dialect.
INSIDE = {
    "hermes": ["<tool_call>", "<tool_call>\n{"],
    "qwen-xml": ["<tool_call>", "<function=find>", "<parameter=text>", "</parameter>", "</function>"],
    "mistral": ["[TOOL_CALLS]", "[TOOL_CALLS][", '"arguments": '],
    "llama": ["<|python_tag|>", '"parameters": ', "; "],
    "kimi": ["section_begin|>", "call_begin|>", "argument_begin|>", '"new"}', "call_end|>"],
    "deepseek": [f"calls{LOW}begin{BAR}>", f"call{LOW}begin{BAR}>", f"sep{BAR}>", "```json\n", "\n```"],
    "dsml": ["function_calls>", 'name="find">', 'string="true">', "parameter>", "invoke>"],
}


@pytest.mark.parametrize(("word", "mark"), [(word, mark) for word, marks in INSIDE.items() for mark in marks])
def test_a_batch_nested_in_its_like_is_refused(word, mark):
    text = WRITERS[word](CALLS)
    at = text.index(mark) + len(mark)
    assert isinstance(why(read_markup(text[:at] + text + text[at:], ALL)), Why)


@pytest.mark.parametrize("word", [word for word in WORDS if word != "json-block"])
def test_a_batch_given_twice_is_both_calls_or_refused_where_a_batch_is_one_block(word):
    text = WRITERS[word](CALLS)
    result = read_markup(f"{text}\n{text}", ALL)
    if word in {"hermes", "qwen-xml", "mistral"}:  # each call, or list of them, has a mark of its own
        assert brief(result) == CALLS * 2
    else:
        assert why(result) is Why.AMBIGUOUS


@pytest.mark.parametrize("word", [word for word in WORDS if word != "json-block"])
def test_an_example_and_a_batch_at_the_same_place_are_ambiguous(word):
    text = WRITERS[word](CALLS)
    assert why(read_markup(f"{text}\nand so\n{text}", ALL)) is Why.AMBIGUOUS


def test_two_dialects_in_one_batch_are_ambiguous_but_for_those_that_share_a_tag():
    hermes, xml = WRITERS["hermes"](CALLS), WRITERS["qwen-xml"](CALLS)
    assert brief(read_markup(f"{hermes}\n{xml}", ALL)) == CALLS * 2
    assert why(read_markup(f"{hermes}\n{dsml(CALLS)}", ALL)) is Why.AMBIGUOUS
    assert why(read_markup(f"{dsml(CALLS)}\n{hermes}", ALL)) is Why.AMBIGUOUS


@pytest.mark.parametrize("word", WORDS)
def test_ten_thousand_calls(word):
    calls = [("find", {"text": str(at)}) for at in range(10_000)]
    assert brief(read_markup(WRITERS[word](calls), ALL)) == calls


@pytest.mark.parametrize("word", WORDS)
def test_one_call_too_many_refuses_all(word):
    calls = [("find", {"text": str(at)}) for at in range(6)]
    few = permitting(dialects=list(Dialect), limits=Limits(actions=5))
    result = read_markup(WRITERS[word](calls), few)
    assert why(result) is Why.TOO_MANY_ACTIONS
    assert len(read_markup(WRITERS[word](calls[:5]), few).actions) == 5


@pytest.mark.parametrize("word", [word for word in WORDS if word != "qwen-xml"])
def test_depth_of_ten_thousand_is_refused_by_name(word):
    text = WRITERS[word]([("find", {"deep": [0]})])
    for nested in ("[" * 10_000 + "0" + "]" * 10_000, '{"a":' * 10_000 + "0" + "}" * 10_000, "[" * 10_000):
        result = read_markup(text.replace("[0]", nested), ALL)
        assert why(result) in {Why.TOO_DEEP, Why.CUT, Why.UNCLOSED}
    assert why(read_markup(text.replace("[0]", "[" * 10_000 + "]" * 10_000), ALL)) is Why.TOO_DEEP


def test_marks_nested_ten_thousand_deep_are_refused_by_name():
    for mark in (
        "<tool_call>",
        "<function=f>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "<|tool_calls_section_begin|>",
        f"<{BAR}DSML{BAR}function_calls>",
        f'<{BAR}DSML{BAR}invoke name="f">',
        "<｜tool▁calls▁begin｜>",
        "<tool_call>\n<function=f>\n<parameter=p>",
        "```json\n",
    ):
        assert read_markup(mark * 10_000, ALL).actions == ()
        assert mark.startswith("```") or read_markup(mark * 10_000, ALL).refusal is not None


def test_a_parameter_that_is_too_long_is_named():
    options = permitting(dialects=list(Dialect), limits=Limits(parameter_bytes=64), echo=["text"])
    long = [("find", {"sort": "new", "text": "ä" * 33})]
    for word in WORDS:
        refusal = read_markup(WRITERS[word](long), options).refusal
        assert refusal is not None
        assert (refusal.why, refusal.call, refusal.parameter) == (Why.PARAMETER_TOO_LONG, 0, 1)
        assert (refusal.boundary, refusal.name) == (Boundary.PARAMETER, "text")
        assert len(read_markup(WRITERS[word]([("find", {"text": "ä" * 31})]), options).actions) == 1


P = f"{BAR}DSML{BAR}"


def wrapped(inner: str) -> str:
    return f"<{P}function_calls>{inner}</{P}function_calls>"


def invoke(inner: str) -> str:
    return wrapped(f'<{P}invoke name="f">{inner}</{P}invoke>')


def parameter(name: str, value: str, string: str = "true") -> str:
    return f'<{P}parameter name="{name}" string="{string}">{value}</{P}parameter>'


@pytest.mark.parametrize(
    ("text", "expected", "boundary", "call", "at_parameter"),
    [
        (f"<{P}function_calls>", Why.UNCLOSED, Boundary.BLOCK, 0, None),
        (f"<{P}function_calls>\nand then", Why.UNEXPECTED_TEXT, Boundary.BLOCK, 0, None),
        (f"</{P}function_calls>", Why.UNOPENED, Boundary.BLOCK, 0, None),
        (wrapped(""), Why.EMPTY, Boundary.BLOCK, 0, None),
        (wrapped(wrapped("")), Why.UNKNOWN_NESTING, Boundary.BLOCK, 0, None),
        (invoke(parameter("q", "x"))[: -len(f"</{P}function_calls>")], Why.UNCLOSED, Boundary.BLOCK, 1, None),
        (invoke("") + f'<{P}invoke name="g"></{P}invoke>', Why.AMBIGUOUS, Boundary.BLOCK, 1, None),
        (wrapped(f"<{P}invoke></{P}invoke>"), Why.NAME_MISSING, Boundary.CALL, 0, None),
        (wrapped(f'<{P}invoke name=""></{P}invoke>'), Why.NAME_MISSING, Boundary.CALL, 0, None),
        (wrapped(f'<{P}invoke name="f" string="true"></{P}invoke>'), Why.UNKNOWN_MARK, Boundary.CALL, 0, None),
        (wrapped(f'<{P}call name="f"></{P}call>'), Why.UNKNOWN_MARK, Boundary.BLOCK, 0, None),
        (wrapped(parameter("q", "x")), Why.UNKNOWN_NESTING, Boundary.BLOCK, 0, None),
        (invoke(f'<{P}invoke name="g"></{P}invoke>'), Why.UNKNOWN_NESTING, Boundary.CALL, 0, 0),
        (invoke(parameter("q", parameter("r", "x"))), Why.UNKNOWN_NESTING, Boundary.PARAMETER, 0, 0),
        (invoke(parameter("q", "1") + parameter("q", "2")), Why.PARAMETER_REPEATED, Boundary.PARAMETER, 0, 1),
        (invoke(parameter("q", "1") + parameter("", "2")), Why.NAME_MISSING, Boundary.PARAMETER, 0, 1),
        (invoke(f'<{P}parameter name="q">1</{P}parameter>'), Why.AMBIGUOUS, Boundary.PARAMETER, 0, 0),
        (invoke(parameter("q", "{", "false")), Why.CUT, Boundary.PARAMETER, 0, 0),
        (invoke(parameter("q", "NaN", "false")), Why.NOT_A_NUMBER, Boundary.PARAMETER, 0, 0),
        (invoke(parameter("q", "x", "false")), Why.NOT_JSON, Boundary.PARAMETER, 0, 0),
        (invoke(parameter("q", '{"a":1,"a":1}', "false")), Why.DUPLICATE_KEY, Boundary.PARAMETER, 0, 0),
        (invoke("text"), Why.UNEXPECTED_TEXT, Boundary.CALL, 0, None),
        (invoke("").replace(f"</{P}invoke", "</|DSML|invoke"), Why.AMBIGUOUS, Boundary.BLOCK, 0, None),
        (invoke("") .replace("</", "<", 1), Why.UNKNOWN_NESTING, Boundary.CALL, 0, 0),
        ("<tool_call></tool_call>", Why.EMPTY, Boundary.BLOCK, 0, None),
        ("<tool_call><tool_call></tool_call></tool_call>", Why.UNKNOWN_NESTING, Boundary.BLOCK, 0, None),
        ("<tool_call>f()</tool_call>", Why.UNEXPECTED_TEXT, Boundary.BLOCK, 0, None),
        ('<tool_call>{"name":"f","arguments":{}}', Why.UNCLOSED, Boundary.BLOCK, 0, None),
        ('<tool_call>{"name":"f","arguments":{}} x</tool_call>', Why.NOT_JSON, Boundary.ARGUMENTS, 0, None),
        ('<tool_call>{"name":"f","arguments":{}</tool_call>', Why.CUT, Boundary.ARGUMENTS, 0, None),
        ('<tool_call>{"name":"f"}</tool_call>', Why.ARGUMENTS_MISSING, Boundary.CALL, 0, None),
        ('<tool_call>{"name":1,"arguments":{}}</tool_call>', Why.WRONG_TYPE, Boundary.CALL, 0, None),
        ('<tool_call>{"name":"f","arguments":[]}</tool_call>', Why.NOT_AN_OBJECT, Boundary.ARGUMENTS, 0, None),
        ('<tool_call>{"name":"f","args":{},"input":{}}</tool_call>', Why.ARGUMENTS_CONFLICT, Boundary.CALL, 0, None),
        ('<tool_call>{"name":"f","tool":"g","arguments":{}}</tool_call>', Why.AMBIGUOUS, Boundary.CALL, 0, None),
        ("<function=f><parameter=a>1</parameter><parameter=a>1</parameter></function>", Why.PARAMETER_REPEATED,
         Boundary.PARAMETER, 0, 1),
        ("<function=f><parameter=a>1<parameter=b>2</parameter></parameter></function>", Why.UNKNOWN_NESTING,
         Boundary.PARAMETER, 0, 0),
        ("<function=f><parameter=a>1</function>", Why.UNKNOWN_NESTING, Boundary.PARAMETER, 0, 0),
        ("<function=f><parameter=a>1", Why.UNCLOSED, Boundary.PARAMETER, 0, 0),
        ("<function=f>text</function>", Why.UNEXPECTED_TEXT, Boundary.CALL, 0, 0),
        ("<function=></function>", Why.NAME_MISSING, Boundary.CALL, 0, None),
        ("[TOOL_CALLS][]", Why.EMPTY, Boundary.BLOCK, 0, None),
        ("[TOOL_CALLS][1]", Why.NOT_AN_OBJECT, Boundary.BLOCK, 0, None),
        ("[TOOL_CALLS]{}", Why.UNEXPECTED_TEXT, Boundary.BLOCK, 0, None),
        ("[TOOL_CALLS]f[ARGS]1", Why.UNEXPECTED_TEXT, Boundary.ARGUMENTS, 0, None),
        ("[TOOL_CALLS]f[CALL_ID]a[ARGS]{}[TOOL_CALLS]g[CALL_ID]a[ARGS]{}", Why.ID_REPEATED, Boundary.CALL, 1, None),
        ("<|python_tag|>print(1)", Why.AMBIGUOUS, Boundary.BLOCK, 0, None),
        ('<|python_tag|>{"name":"f","parameters":{}};', Why.UNCLOSED, Boundary.BLOCK, 1, None),
        ("<|tool_calls_section_begin|><|tool_calls_section_end|>", Why.EMPTY, Boundary.BLOCK, 0, None),
        (
            WRITERS["kimi"]([("find", {})]).replace("functions.find:0", ""),
            Why.NAME_MISSING, Boundary.CALL, 0, None,
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_call_parameter_and_boundary(text, expected, boundary, call, at_parameter):
    refusal = read_markup(text, ALL).refusal
    assert refusal is not None
    assert (refusal.why, refusal.boundary, refusal.call, refusal.parameter) == (
        expected,
        boundary,
        call,
        at_parameter,
    )


def test_a_refusal_repeats_nothing_of_what_a_model_wrote_but_permitted_names():
    secret = "sk-live-0123456789"
    text = wrapped(
        f'<{P}invoke name="{secret}">{parameter(secret, secret)}{parameter(secret, secret)}</{P}invoke>'
    )
    refusal = read_markup(text, ALL).refusal
    assert refusal is not None
    assert secret not in str(refusal)
    assert secret not in repr(refusal)
    assert refusal.length == len(secret)
    known = read_markup(text, permitting(dialects=[Dialect.DSML], echo=[secret])).refusal
    assert known is not None
    assert known.name == secret


def test_only_permitted_dialects_are_read_and_others_are_noted():
    for word in WORDS:
        if word == "json-block":
            continue
        others = [dialect for dialect in Dialect if dialect != word]
        shared = {"hermes", "qwen-xml"}
        result = read_markup(WRITERS[word](CALLS), permitting(dialects=others))
        if word in shared:
            assert why(result) is Why.NOT_PERMITTED
        else:
            assert found(result) == []
            assert "markup-not-permitted" in result.notes


def test_alone_means_that_nothing_else_is_in_the_text():
    options = permitting(dialects=[Dialect.HERMES], alone=True)
    text = WRITERS["hermes"](CALLS)
    assert brief(read_markup(text, options)) == CALLS
    assert brief(read_markup(f"<think>Hm.</think>\n{text}\n", options)) == CALLS
    beside = read_markup(f"Yes.\n{text}", options)
    assert found(beside) == []
    assert beside.notes == ("markup-elsewhere",)


def test_marks_that_are_only_mentioned_do_not_hide_a_batch_and_very_many_are_noted():
    text = WRITERS["hermes"](CALLS)
    assert brief(read_markup("I use `<tool_call>` now.\n" * 9 + text, ALL)) == CALLS
    many = read_markup("I use `<tool_call>` now.\n" * 99 + text, ALL)
    assert found(many) == []
    assert "markup-elsewhere" in many.notes


def test_a_batch_in_the_middle_of_a_line_and_one_at_the_right_place_are_ambiguous():
    text = WRITERS["hermes"](CALLS)
    assert why(read_markup(f"He said: {text} and\n{text}", ALL)) is Why.AMBIGUOUS
    assert found(read_markup(f"He said: {text}", ALL)) == []


def test_a_thought_that_quotes_markup_is_passed_over():
    text = WRITERS["dsml"](CALLS)
    assert brief(read_markup(f"<think>\n{text}\n```\n</think>{text}", ALL)) == CALLS


def test_a_batch_in_a_later_thought_that_was_not_closed_is_ambiguous():
    batch = WRITERS["hermes"]([("f", {"q": 1})])
    for before in ("Well.\n<think>\nMaybe:\n", "<think>a</think>\nWell.\n <thinking>Maybe:\n"):
        assert why(read_markup(before + batch, ALL)) is Why.AMBIGUOUS
    for before in ("Well.\n<think>no</think>\n", "The tag <think> is one.\n", "<think>a</think>\n"):
        assert len(read_markup(before + batch, ALL).actions) == 1


@pytest.mark.parametrize("word", sorted(set(WORDS) - {"json-block"}))
@pytest.mark.parametrize(
    "before",
    [
        "Like so:\n<pre>\n",
        "Like so: <pre>\n",
        "Like so: <pre>a\n",
        "Here is <attachment name='a'>the text.\nDo this:\n",
        "<!-- of old\n",
        "They wrote: <!--\n",
        "<attachment>\nDo this:\n",
        '<ATTACHMENT name="a"\n kind="b">\n\n',
        '<attachment name="a"\n',
        "<ns:part>\n<br>\n",
        "<ul>\n<li>a\n</ul>\n<pre>a\n",
        "<pre>\n</b>\n",
        "<pre>one <pre>two</pre>\n",
        "<details>\n```\n</details>\n```\n",
        "<!-- a -->\n<div>\n<!-- b </div> -->\n",
        "Well.\n<think>a</think>\n<pre>\n",
    ],
)
def test_a_batch_in_an_element_that_was_not_closed_is_ambiguous(before, word):
    assert why(read_markup(before + WRITERS[word](CALLS), ALL)) is Why.AMBIGUOUS


@pytest.mark.parametrize(
    "before",
    [
        "<pre>\na\n</pre>\n",
        "<PRE>a</pre>\n",
        "<!-- a -->\n",
        "The tag <div> is one.\n",
        "The tags '<pre>', \"<code>\" and `a <pre>` are three.\n",
        "The marks `<!--` and `<pre>`\n",
        "```html\n<pre>\n<!--\n```\n",
        "I run cat <path>\n",
        "A Vec<String>\n",
        "<https://a.example/b> says so.\n",
        "<ul><li>a</ul>\n",
        "<br>\n<hr/>\n<part/>\n",
        "<s>Well.\n",
        "1 < 2, and\n< 3\n",
        "</pre>\n",
    ],
)
def test_a_batch_behind_elements_that_were_closed_or_only_mentioned_is_read(before):
    assert brief(read_markup(before + WRITERS["hermes"](CALLS), ALL)) == CALLS


@pytest.mark.parametrize("word", sorted(set(WORDS) - {"json-block"}))
@pytest.mark.parametrize(
    "before",
    ["- a\n  ", "* a\n\n  ", "1. a\n   ", "+ a\n  - b\n\n  c\n\n   ", "9) a\nand so on\n ", "-\r\n  "],
)
def test_an_indented_batch_in_an_item_of_a_list_is_ambiguous(before, word):
    assert why(read_markup(before + WRITERS[word](CALLS), ALL)) is Why.AMBIGUOUS


@pytest.mark.parametrize(
    "before", ["- a\n", "- a\n\n", "- a\n\nSo:\n\n  ", "Well:\n  ", "  ", "---\n  ", "<think>- a</think>  "]
)
def test_a_batch_behind_a_list_is_read(before):
    assert brief(read_markup(before + WRITERS["hermes"](CALLS), ALL)) == CALLS


def test_values_of_a_dialect_without_types_are_text_unless_they_were_declared():
    text = "<function=f><parameter=a>1</parameter><parameter=b>[1]</parameter><parameter=c>{}</parameter></function>"
    types = {"f": {"b": "json", "c": "text"}}
    action = read_markup(text, permitting(dialects=[Dialect.QWEN_XML], types=types)).actions[0]
    assert action.arguments == {"a": "1", "b": [1], "c": "{}"}
    assert action.untyped == ("a",)


def test_a_text_that_is_no_text_is_refused():
    assert why(read_markup(b"\xff", ALL)) is Why.NOT_UTF8
    assert why(read_markup("\ufeff" + WRITERS["dsml"](CALLS), ALL)) is Why.BYTE_ORDER_MARK
    assert why(read_markup("\ud800" + WRITERS["dsml"](CALLS), ALL)) is Why.LONE_SURROGATE
    assert why(read_markup("a" * 9, permitting(limits=Limits(text_bytes=8)))) is Why.TOO_MANY_BYTES
    assert why(read_markup("ä" * 5, permitting(limits=Limits(text_bytes=8)))) is Why.TOO_MANY_BYTES


def test_a_reader_holds_no_more_than_its_limit():
    reader = TextReader(permitting(limits=Limits(text_bytes=8)))
    for _ in range(1000):
        reader.feed("aaaa")
    assert sum(map(len, reader._texts)) <= 8
    assert why(reader.markup()) is Why.TOO_MANY_BYTES


def test_halves_of_a_surrogate_pair_that_came_in_two_pieces_are_one_character():
    text = WRITERS["dsml"]([("f", {"q": "\U0001f600"})])
    high, low = "\ud83d", "\ude00"
    before, after = text.split("\U0001f600")
    assert brief(fed(before + high, low + after)) == [("f", {"q": "\U0001f600"})]
    assert why(fed(before + high, after)) is Why.LONE_SURROGATE


def test_markup_of_an_answer_is_read_only_in_what_the_model_said():
    text = WRITERS["hermes"](CALLS)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    body = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    assert brief(read_answer("chat.completions", body, ALL)) == CALLS
    assert found(read_answer("chat.completions", body)) == []
    for elsewhere in (
        {"content": "Yes.", "reasoning_content": text},
        {"content": "Yes.", "refusal": text},
        {"content": [{"type": "thinking", "thinking": text}, {"type": "text", "text": "Yes."}]},
        {"content": [{"type": "file", "file": {"data": text}}]},
    ):
        body["choices"][0]["message"] = elsewhere
        assert found(read_answer("chat.completions", body, ALL)) == []


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_batch_in_an_answer_that_was_cut_is_refused_even_if_it_looks_whole(reason):
    message = {"role": "assistant", "content": WRITERS["hermes"](CALLS)}
    body = {"choices": [{"index": 0, "finish_reason": reason, "message": message}]}
    assert why(read_answer("chat.completions", body, ALL)) is Why.CUT
