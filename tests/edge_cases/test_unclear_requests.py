"""What is unclear is refused or means the stricter policy: at the edges of numbers, times, texts and words.

Every input here once was, or could have been, an internal error or content that nobody allowed.
"""

from typing import Any

import msgspec
import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import OUTPUT, REQUEST
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}


def frame(**said: Any) -> list[Any]:
    names = {name.replace("_", "-"): value for name, value in said.items()}
    return ["part", {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST, **names}, b"{}"]


@pytest.mark.parametrize(
    "number", ["0" * 19 + "1" + "0" * 40, "0" * 5000 + "1", "1" * 17, str(2**53), "0", "-1", "1e3", "²"]
)
async def test_a_number_that_is_none_is_malformed_however_it_is_padded(way: Journey, number: str):
    """A sequence is part of what identifies; 5,000 digits are no number and no fault of ours."""
    runtime = await way.runtime()
    answer = await runtime.put(b"{}", Custody_Session="s-1", Custody_Sequence=number.encode())  # type: ignore[arg-type]
    assert problem(answer)["reason"] == "malformed_request"
    flushed = await runtime.flush(frame(session="s-1", sequence=number))
    assert [view["reason"] for view in flushed.json()["receipts"]] == ["encoding_failed"]


@pytest.mark.parametrize(
    "said",
    [
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.999999-23:59",
        "10000-01-01T00:00:00Z",
        "yesterday",
        "2026-01-01T00:00:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    ],
)
async def test_a_capture_time_beyond_the_calendar_is_left_out_and_the_part_is_stored(way: Journey, said: str):
    """The caller's time is shown and decides nothing, also not whether the part can be written."""
    runtime = await way.runtime()
    assert (await runtime.put(b"{}", Custody_Captured_At=said)).status_code == 202
    await way.write()
    part = await way.json(runtime.path(), runtime)
    assert part["captured_at"] is None
    assert await way.content(runtime) == b"{}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("9999-12-31T23:59:59.999998+00:00", "9999-12-31T23:59:59.999998Z"),
        ("2026-02-03T04:05:06.789013+02:00", "2026-02-03T02:05:06.789013Z"),
        ("0001-01-01T00:00:00.000001Z", "0001-01-01T00:00:00.000001Z"),
    ],
)
async def test_a_capture_time_is_kept_to_the_microsecond(way: Journey, said: str, kept: str):
    """A time that passes through a float loses a microsecond now and then."""
    runtime = await way.runtime()
    await runtime.put(b"{}", Custody_Captured_At=said)
    await way.write()
    assert (await way.json(runtime.path(), runtime))["captured_at"] == kept


@pytest.mark.parametrize("path", ["/v1/parts", "/v1/runs", "/v1/accesses"])
@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00", "24", "\x00"]
)
async def test_a_time_that_no_page_can_begin_at_is_malformed(way: Journey, path: str, time: str):
    """Bounds of pages are times with an offset, within the calendar."""
    runtime = await way.runtime()
    answer = await way.get(path, runtime, Role.OPERATOR, params={"from": time})
    assert problem(answer)["reason"] == "malformed_request"


@pytest.mark.parametrize("path", ["/v1/parts", "/v1/runs"])
async def test_a_label_that_the_database_could_not_be_asked_for_is_malformed(way: Journey, path: str):
    """Text that Postgres refuses never reaches it."""
    runtime = await way.runtime()
    for label in ("a=\x00", "\x00", "a=\x1b[31m"):
        answer = await way.get(path, runtime, params={"label": label})
        assert problem(answer)["reason"] == "malformed_request"
    assert (await way.get(path, runtime, params={"label": "a=\U0001f600"})).json()["items"] == []


@pytest.mark.parametrize("verb", ["confirm", "rotate", "retire", "revoke"])
@pytest.mark.parametrize("key_id", ["%00", "%FF", "a" * 3000, "0123456789abcdeg", "command-line"])
async def test_a_key_that_cannot_be_is_not_found(way: Journey, verb: str, key_id: str):
    """An id from a path is looked at before the database is asked for it."""
    runtime = await way.runtime()
    headers = await way.key(Role.OPERATOR, runtime.scope)
    answer = await way.client.post(f"/v1/keys/{key_id}/{verb}", headers=headers)
    assert problem(answer)["reason"] == "not_found"


HALVES = [
    ("PUT", "/v1/runs/r-1", b'{"subject": "\\ud800"}'),
    ("PUT", "/v1/runs/r-1", b'{"labels": {"\\udfff": "a"}}'),
    ("PUT", "/v1/runs/r-1", b'{"labels": {"a": "\\ud83d"}}'),
    ("POST", "/v1/runs/r-1/close", b'{"sessions": {"\\ud800": 1}}'),
    ("POST", "/v1/runs/r-1/gaps", b'{"gaps": [{"session": "\\ud800", "sequences": "1", "reason": "not_observed"}]}'),
    ("POST", "/v1/keys", b'{"role": "auditor", "note": "\\ud800"}'),
    ("POST", "/v1/keys", b'{"role": "reviewer", "clearances": ["\\ud800"]}'),
    ("POST", "/v1/keys", b'{"role": "reviewer", "clearances": ["\\u0000"]}'),
    ("PUT", "/v1/sources/s-1", b'{"audience": ["\\ud800"]}'),
    ("POST", "/v1/erasures", b'{"part": "\\ud800"}'),
    ("PUT", "/v1/scopes/{scope}/policy", b'{"policy": {"\\ud800": 1}}'),
    ("PUT", "/v1/scopes/{scope}/policy", b'{"policy": {"content": "\\ud800"}}'),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), HALVES)
async def test_half_of_a_surrogate_pair_in_a_document_is_malformed(
    way: Journey, method: str, path: str, body: bytes
):
    """Where text is needed it must be text, and one strict reading of it."""
    runtime = await way.runtime()
    runs = path.startswith("/v1/runs")
    headers = runtime.key if runs else await way.key(Role.OPERATOR, runtime.scope)
    path = path.replace("{scope}", runtime.scope.name).replace("r-1", runtime.run)
    answer = await way.client.request(method, path, content=body, headers={**headers, **JSON})
    assert problem(answer)["reason"] == "malformed_request"
    assert "ud800" not in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("exchanges/x-1/attempts/a-1", b'{"dispatch": "dispatched", "dispatch": "not_dispatched"}'),
        ("gaps", b'{"gaps": [{"session": "s", "session": "t", "sequences": "1", "reason": "not_observed"}]}'),
        ("gaps", b'{"gaps": [], "gaps": [{"session": "t", "sequences": "1", "reason": "not_observed"}]}'),
    ],
)
async def test_a_note_that_says_something_twice_is_malformed(way: Journey, path: str, body: bytes):
    """Two readers of one document would see two values."""
    runtime = await way.runtime()
    answer = await way.client.request(
        "PUT" if path.startswith("ex") else "POST",
        f"/v1/runs/{runtime.run}/{path}",
        content=body,
        headers=runtime.headers(),
    )
    assert problem(answer)["reason"] == "malformed_request"


async def test_a_frame_that_says_something_twice_is_no_frame(way: Journey):
    """The policy would read one value and a reader the other."""
    runtime = await way.runtime()
    pairs = [
        ("exchange", "x-1"), ("attempt", "a-1"), ("kind", REQUEST), ("content", "opt_out"), ("content", "allow"),
    ]  # fmt: skip
    encode = msgspec.msgpack.encode
    short = bytes([0x80 | len(pairs)]) + b"".join(encode(text) for pair in pairs for text in pair)
    many = [*pairs, *((f"n-{number}", "") for number in range(20))]
    wide = [
        head + b"".join(encode(text) for pair in many for text in pair)
        for head in (b"\xde" + len(many).to_bytes(2), b"\xdf" + len(many).to_bytes(4))
    ]
    for said in (short, *wide):
        answer = await way.client.post(
            f"/v1/runs/{runtime.run}/frames", content=b"\x91\x93" + encode("part") + said + encode(b"{}"),
            headers=runtime.headers(Content_Type="application/msgpack"),
        )  # fmt: skip
        assert answer.json()["receipts"][0]["reason"] == "encoding_failed"
    # The same width without a repeat is read.
    whole = {name: value for name, value in many if name != "content"}
    answer = await way.client.post(
        f"/v1/runs/{runtime.run}/frames",
        content=b"\x91\x93" + encode("part") + b"\xdf" + len(whole).to_bytes(4)
        + b"".join(encode(text) for pair in whole.items() for text in pair) + encode(b"{}"),
        headers=runtime.headers(Content_Type="application/msgpack"),
    )  # fmt: skip
    assert answer.json()["receipts"][0]["capture"] == "queued"


@pytest.mark.parametrize(
    "word", [False, True, 0, 1, None, "", "false", "FALSE", "Allow", " allow", b"allow", ["allow"], {}]
)
async def test_an_unclear_word_about_content_in_a_frame_means_that_none_is_captured(way: Journey, word: Any):
    """`false`, `0`, empty and whatever else is not the one word that allows."""
    runtime = await way.runtime()
    answer = await runtime.flush(frame(content=word))
    receipt = answer.json()["receipts"][0]
    assert (receipt["capture"], receipt["reason"], receipt["recorded"]) == (
        "not_captured",
        "content_opt_out",
        True,
    )
    assert (await runtime.flush(frame(content="allow"))).json()["receipts"][0]["capture"] == "queued"


@pytest.mark.parametrize(
    "word", ["false", "0", "FALSE", "", "no", "allow,allow", "allow, opt_out", "ALLOW", "allow;q=1", b"\xff"]
)
async def test_an_unclear_word_about_content_in_a_header_means_that_none_is_captured(way: Journey, word: Any):
    """One word allows; no other is near enough."""
    runtime = await way.runtime()
    refused = await runtime.put(b"CANARY-7f3a", Custody_Content=word)
    assert problem(refused)["reason"] == "content_opt_out"
    twice = [*runtime.headers().items(), ("Custody-Content", "allow"), ("Custody-Content", "opt_out")]
    answer = await way.client.put(runtime.path(kind=OUTPUT), content=b"CANARY-7f3a", headers=twice)
    assert problem(answer)["reason"] == "malformed_request"
    assert (await runtime.put(b"{}", kind=OUTPUT, Custody_Content="allow")).status_code == 202


@pytest.mark.parametrize("name", ["content-digest", "session"])
async def test_a_frame_whose_digest_or_session_is_no_text_is_no_frame(way: Journey, name: str):
    """What was said to be checked is checked, or said not to be understood."""
    runtime = await way.runtime()
    for value in (b"sha-256=:AAAA:", 5, ["s"]):
        answer = await runtime.flush(frame(**{name.replace("-", "_"): value}))
        assert answer.json()["receipts"][0]["reason"] == "encoding_failed"


async def test_words_that_decide_nothing_are_unknown_where_they_are_unclear(way: Journey):
    """They are never guessed at, and the observation is kept."""
    runtime = await way.runtime()
    unclear = {
        "dispatch": 5,
        "settlement": "done",
        "completeness": None,
        "vantage": b"wire",
        "captured_at": 0,
        "content_type": 1,
    }
    (receipt,) = (await runtime.flush(frame(**unclear))).json()["receipts"]
    assert receipt["capture"] == "queued"
    await way.write()
    part = await way.json(runtime.path(), runtime)
    words = ("dispatch", "settlement", "completeness", "vantage", "captured_at", "media_type")
    assert [part[word] for word in words] == [
        "unknown",
        "unknown",
        "unknown",
        "sdk",
        None,
        "application/octet-stream",
    ]
