"""Whatever a body holds, a reviewer reads the bytes that were posted, and its neighbours are none the worse for it."""

import base64
import hashlib
from typing import Any

import pytest

from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUL = [
    b'{"messages":[{"role":"tool","content":"head\\u0000tail"}]}',
    b'{"content":"six characters: \\\\u0000"}',
    b'{"content":"raw \x00 byte"}',
    b"\x00",
    b"\x00" * 4_096,
    b'{"content":"Modified UTF-8: \xc0\x80"}',
]
HALVES = [
    b'{"text":"done \\ud83d"}',
    b'{"text":"done \xed\xa0\xbd"}',
    b'{"text":"\\udc00\\ud800"}',
    b'"\xed\xa0\xbd\xed\xb8\x80"',
    b"\xf0\x9f\x98",
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    '{"a":1}'.encode("utf-16"),
    '{"a":1}'.encode("utf-32"),
]
NUMBERS = [
    b'{"order_id":9007199254740993,"max":18446744073709551616,"neg":-9223372036854775809}',
    b'{"n":1E100000}',
    b'{"n":[' + b",".join([b"1E100000"] * 2_000) + b"]}",
    b'{"n":' + b"9" * 5_001 + b"}",
    b'{"n":[NaN,Infinity,-Infinity,-0,-0.0,1.0,1e5,0.1e-400]}',
]
DEEP = [
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
    b"[" * 131_072,
    b'{"a":' * 1_001 + b"[]" + b"}" * 1_001,
]
TWICE = [
    b'{"model":"model-a","messages":[],"model":"model-b","run_id":"r-1","run_id":"r-2"}',
    b'{"scope":"other","exchange":"x-9","attempt":"a-9","kind":"observable-output","content":"opt_out","content":"allow"}',
    b'{"__proto__":{"admitted":true},"constructor":1}',
]
UNKNOWN_SHAPES = [
    b"{}",
    b"",
    b"null",
    b'{"input":[{"type":"input_text","text":"a Responses call"}],"previous_response_id":"resp_1"}',
    b'{"type":"response.create","session":{"modalities":["audio"]}}',
    b'event: message\ndata: {"delta":"a"}\n\ndata: [DONE]\n\n',
    b'{ "spaces" :  [ 1 ,\t2 ]\r\n}\n\n',
    b'{"escapes":"\\u0041\\/\\"","key order":1,"a":2}',
]  # fmt: skip
AWKWARD = {
    "1": NUL, "2": HALVES, "4": NUMBERS, "5b": DEEP, "6": TWICE, "22": UNKNOWN_SHAPES,
}  # fmt: skip


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("by", ["parts", "frames"])
async def test_awkward_content_is_read_back_byte_for_byte_between_clean_neighbours(
    way: Journey, case: str, by: str
):
    """NUL, half pairs, numbers, depth, names that stand there twice, unknown shapes."""
    runtime = await way.runtime()
    clean = b'{"clean":true}'
    contents = [content for awkward in AWKWARD[case] for content in (clean, awkward)] + [clean]
    await (posted if by == "parts" else flushed)(runtime, contents)
    await way.write()
    for number, content in enumerate(contents):
        answer = await way.read(runtime, f"x-{number}")
        assert answer.status_code == 200
        assert answer.content == content
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert answer.headers["repr-digest"] == f"sha-256=:{digest}:"
        assert answer.headers["content-type"] == (
            "text/plain; charset=utf-8" if is_text(content) else "application/octet-stream"
        )
    await listed(way, runtime, contents)


async def listed(way: Journey, runtime: Capturing, contents: list[bytes]) -> None:
    """Lists and receipts name every part, by its own identity, whatever the bodies say."""
    page = await way.json("/v1/parts", runtime, run=runtime.run, order="oldest", limit=200)
    shown = {
        item["exchange_id"]: (item["run_id"], item["kind"], item["bytes"], item["availability"]["readable"])
        for item in page["items"]
    }
    assert shown == {
        f"x-{number}": (runtime.run, REQUEST, len(content), True) for number, content in enumerate(contents)
    }
    run = await way.json(f"/v1/runs/{runtime.run}", runtime)
    assert run["counts"] == {"stored": len(contents), "not_captured": {}, "unaccounted": 0}
    receipts = (
        await way.client.get(f"/v1/runs/{runtime.run}/receipts?limit=200", headers=runtime.key)
    ).json()["items"]
    assert {receipt["capture"] for receipt in receipts} == {"stored"}


async def posted(runtime: Capturing, contents: list[bytes]) -> None:
    for number, content in enumerate(contents):
        answer = await runtime.put(content, exchange=f"x-{number}", Content_Type="application/json")
        assert answer.status_code == 202, answer.text


async def flushed(runtime: Capturing, contents: list[bytes]) -> None:
    def frame(number: int, content: bytes) -> list[Any]:
        said = {
            "exchange": f"x-{number}",
            "attempt": "a-1",
            "kind": REQUEST,
            "content-type": "application/json",
        }
        return ["part", said, content]

    answer = await runtime.flush(*(frame(number, content) for number, content in enumerate(contents)))
    assert {receipt["capture"] for receipt in answer.json()["receipts"]} == {"queued"}


def is_text(content: bytes) -> bool:
    """One strict reading: json.loads(bytes) would take more than this for text."""
    try:
        content.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return False
    return True


async def test_two_half_pairs_between_eight_good_parts_of_two_other_runs(way: Journey):
    """The good parts of one batch are stored whoever they are batched with."""
    scope = await way.scope()
    one, two, bad = [await way.runtime(of=scope) for _ in range(3)]
    for number in range(4):
        await one.put(b"good", exchange=f"x-{number}")
        await two.put(b"good", exchange=f"x-{number}")
        if number < 2:
            await bad.put(HALVES[number], exchange=f"x-{number}", kind=OUTPUT, Content_Type="text/plain")
    await way.write()
    for runtime in (one, two):
        assert [await way.content(runtime, f"x-{number}") for number in range(4)] == [b"good"] * 4
    answers = [await way.read(bad, f"x-{number}", kind=OUTPUT) for number in range(2)]
    assert [answer.content for answer in answers] == HALVES[:2]
    assert [answer.headers["content-type"] for answer in answers] == [
        "text/plain; charset=utf-8",
        "application/octet-stream",
    ]
    assert await way.gaps(bad) == []


async def test_what_a_body_says_of_itself_decides_nothing(way: Journey):
    """Identity and policy come from path, headers and key; two keys in a body make no second reader."""
    opted_out = b'{"content":"allow","mode":"normal","kind":"observable-output"}'
    runtime = await way.runtime()
    await runtime.declare(content="opt_out")
    assert (await runtime.put(opted_out)).json()["reason"] == "content_opt_out"
    other = await way.runtime()
    assert (await other.put(b'{"content":"opt_out","mode":"temporary","erase":true}')).status_code == 202
    await way.write()
    assert (await way.json(other.path(), other))["kind"] == REQUEST


async def test_a_picture_is_stored_whole_or_refused_whole(way: Journey):
    """190 KiB of base64 fit; twice that does not, and never half of it."""
    runtime = await way.runtime()
    url = b"data:image/png;base64," + base64.b64encode(b"\x89PNG" + bytes(range(256)) * 570)[: 190 * 1024]
    image = b'{"type":"image_url","image_url":{"url":"%s"}}' % url
    one, two = b'{"content":[%s]}' % image, b'{"content":[%s,%s]}' % (image, image)
    assert (await runtime.put(one)).status_code == 202
    refused = await runtime.put(two, exchange="x-2")
    assert (refused.status_code, refused.json()["reason"]) == (413, "part_too_large")
    await way.write()
    assert await way.content(runtime) == one
    assert (await way.read(runtime, "x-2")).json()["reason"] == "not_stored"
