"""Two contents held together: what changed is found where it is, in little time and on a bounded page."""

import json
import random
import time

import pytest

from console.showing.comparing import Comparison, compare


def request(*texts: str, **more: object) -> bytes:
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": text} for text in texts], **more}
    ).encode()


def sides(found: Comparison) -> list[tuple[str, str]]:
    return [(line.side, str(line.html)) for row in found.differs for line in row.lines]


def test_equal_bytes_are_said_to_be_equal_and_nothing_else_is():
    assert compare(b"\xff", b"\xff") == Comparison(equal=True)
    spaced = compare(
        b'{"messages":[{"role":"user","content":"a"}]}', b'{"messages": [{"role":"user","content":"a"}]}'
    )
    assert (spaced.equal, spaced.differs, "differ in spacing" in spaced.remarks[-1]) == (False, [], True)


def test_a_message_that_came_between_is_only_on_one_side():
    found = compare(request("a", "b"), request("a", "new", "b"))
    assert [(row.change, row.role) for row in found.rows] == [
        ("same", ""), ("same", "user"), ("right", "user"), ("same", "user"),
    ]  # fmt: skip
    assert sides(found) == [("right", "new")]


def test_lines_that_changed_stand_with_what_is_near_to_them():
    was = "\n".join(f"line {number}" for number in range(100))
    found = compare(request(was), request(was.replace("line 50\n", "<b>50</b>\n")))
    assert sides(found) == [
        ("skipped", "47 lines are the same"),
        *[("both", f"line {number}") for number in (47, 48, 49)],
        ("left", "line 50"),
        ("right", "&lt;b&gt;50&lt;/b&gt;"),
        *[("both", f"line {number}") for number in (51, 52, 53)],
        ("skipped", "46 lines are the same"),
    ]


def test_digits_that_a_float_would_merge_differ():
    found = compare(request("a", seed=9007199254740992), request("a", seed=9007199254740993))
    assert sides(found) == [
        ("left", "&#34;seed&#34;: 9007199254740992"),
        ("right", "&#34;seed&#34;: 9007199254740993"),
    ]


def test_keys_that_stand_twice_are_compared_by_lines_and_not_by_one_of_them():
    found = compare(b'{"messages":[],"model":"a","model":"b"}', b'{"messages":[],"model":"c","model":"b"}')
    assert "compared by lines" in found.remarks[0]
    assert [side for side, _ in sides(found) if side != "both"] == ["left", "right"]


def hard(seed: int) -> bytes:
    chance = random.Random(seed)
    return "\n".join(chance.choice("ab") for _ in range(100_000)).encode()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (hard(1), hard(2)),
        ("\n".join(map(str, range(599))).encode(), "\n".join(map(str, range(599, 0, -1))).encode()),
        (request(*"ab" * 190), request(*"ba" * 190)),
        (request(*map(str, range(2_000))), request(*map(str, range(1, 2_000)))),
        (b"[" * 100_000 + b"]" * 100_000, b"[" * 100_000),
        (b"\xff" * 200_000, b"\xfe" * 200_000),
        (b"\x00\x01" * 100_000, b"\x01\x00" * 100_000),
        (b"", request("a")),
    ],
)
def test_any_two_contents_are_compared_in_little_time_and_a_bounded_page(left, right):
    began = time.thread_time()
    found = compare(left, right)
    assert time.thread_time() - began < 3
    assert not found.equal
    assert sum(len(html) for _, html in sides(found)) < 3 << 20
