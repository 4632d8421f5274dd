"""Headers as a socket can carry them: repeated, long, of any bytes; and what comes after them on the connection."""

import asyncio

import msgspec
import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st

from policies.reasons import READ_STATUS, STATUS, Reason
from tests.support.answers import echoes_nothing
from tests.support.capture import Capturing
from tests.support.fuzzing import FIELD_VALUES, LONG, SMOKE
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = st.sampled_from(
    [
        "Custody-Ticket", "Custody-Session", "Custody-Sequence", "Custody-Sequences", "Custody-Sources",
        "Custody-Content", "Custody-Completeness", "Custody-Captured-At", "Custody-Vantage", "Custody-Dispatch",
        "Custody-Settlement", "Custody-Scope", "Custody-Purpose", "Custody-Else", "Content-Type", "Content-Digest",
        "Content-Encoding", "Prefer", "Authorization", "X-Else", "Accept", "Cookie", "If-None-Match", "Range",
    ]
)  # fmt: skip
FIELDS = st.lists(st.tuples(NAMES, FIELD_VALUES), max_size=5)
Fields = list[tuple[str, bytes]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(standing: Journey) -> Capturing:
    roomy = {"run_parts": 100_000, "run_bytes": "64MiB"}
    return await standing.runtime("fuzzed", limits=roomy, waiting={"run_parts": 4_000, "run_notes": 4_000})


@given(fields=FIELDS, replaced=st.booleans(), body=st.binary(max_size=30))
@example(
    fields=[("Custody-Sequence", b"0" * 4_999 + b"1"), ("Custody-Session", b"s-1")], replaced=True, body=b"{}"
)
@example(fields=[("Content-Digest", b"sha-256=@999999999999999")], replaced=True, body=b"{}")
@SMOKE
async def test_any_headers_are_answered(
    standing: Journey, runtime: Capturing, fields: Fields, replaced: bool, body: bytes
):
    await sent(standing, runtime, fields, body, replaced=replaced)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(fields=FIELDS, replaced=st.booleans(), body=st.binary(max_size=30))
@LONG
async def test_any_headers_are_answered_at_length(
    standing: Journey, runtime: Capturing, fields: Fields, replaced: bool, body: bytes
):
    await sent(standing, runtime, fields, body, replaced=replaced)


async def sent(way: Journey, runtime: Capturing, fields: Fields, body: bytes, *, replaced: bool) -> None:
    """Send a part with such headers, and another request after it: nothing of a body is ever taken for one."""
    usual = {name.lower(): value.encode() for name, value in runtime.headers().items()}
    if replaced:
        for name, _ in fields:
            usual.pop(name.lower(), None)
    lines = [*usual.items(), *fields, ("content-length", str(len(body)).encode())]
    head = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in lines)
    begin = f"PUT {runtime.path()} HTTP/1.1\r\nhost: custody\r\n".encode()
    after = b"GET /livez HTTP/1.1\r\nhost: custody\r\nconnection: close\r\n\r\n"
    answers = await spoken(way.api.port, begin + head + b"\r\n" + body + after)

    assert 1 <= len(answers) <= 2, answers
    first = answers[0]
    assert first.status < 500, first
    if first.status >= 400:
        assert first.refused_as_it_should, first
    if len(answers) == 2:
        assert answers[1].status == 200
        assert b"alive" in answers[1].body
    else:
        assert first.closes, first
    await way.write()


class Answer(msgspec.Struct, frozen=True):
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def closes(self) -> bool:
        # What is no HTTP at all is answered by the server alone, without a body, and closed.
        return self.fields.get("connection") == "close" or not self.body

    @property
    def refused_as_it_should(self) -> bool:
        """A problem of ours, or the bare refusal of what the server could not even read."""
        if not self.body:
            return self.status in (400, 431)
        found = msgspec.json.decode(self.body, type=dict)
        echoes_nothing(found)
        reason = Reason(found["reason"])
        return self.fields["content-type"] == "application/problem+json" and self.status in {
            STATUS.get(reason), READ_STATUS.get(reason),
        }  # fmt: skip


async def spoken(port: int, request: bytes) -> list[Answer]:
    """Send bytes, and read answers until the connection is closed, as it must be."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(10):
            heard = await reader.read(-1)
    finally:
        writer.close()
    return list(_answers(heard))


def _answers(heard: bytes):
    while heard:
        head, _, rest = heard.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        size = int(fields.get("content-length", "0"))
        yield Answer(int(status.split()[1]), fields, rest[:size])
        heard = rest[size:]
