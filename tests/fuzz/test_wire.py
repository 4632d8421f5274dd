"""What is hardly HTTP, over a socket: damaged heads, lengths that lie, chunks that are none, bodies that stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.capture import Capturing
from tests.support.fuzzing import LONG, SMOKE
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINES = st.sampled_from(
    [
        b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: -1", b"Content-Length: +5",
        b"Content-Length: 5, 5", b"Content-Length: 99999999999999999999", b"Content-Length: 0x5",
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity",
        b"Transfer-Encoding : chunked", b"Transfer-Encoding:\x0bchunked", b"Expect: 100-continue", b"Expect: 200-ok",
        b"Connection: upgrade", b"Upgrade: h2c", b"Connection: keep-alive, close", b"Host: other", b"Host:",
        b" folded: yes", b"\x00: a", b"a: \x00", b"a\x80: b", b"Trailer: Custody-Ticket",
        b"HTTP2-Settings: AAMAAABkAAQAAP__", b"Custody-Ticket: ct1.AAAA",
    ]
)  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [
            b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"5\r\nhell", b"FFFFFFFFFFFFFFFFF\r\n",
            b'5;ext="a\r\nb"\r\nhello\r\n0\r\n\r\n', b"0\r\nCustody-Ticket: ct1.AAAA\r\n\r\n", b"-1\r\n\r\n",
            b"5\nhello\n0\n\n", b"0\r\n\r\nGET /v1/parts HTTP/1.1\r\n\r\n",
            b"3e8\r\n" + b"x" * 1_000 + b"\r\n0\r\n\r\n",
        ]
    ),
)  # fmt: skip
TARGETS = st.sampled_from(
    [
        b"*", b"/", b"//", b"/../../etc/passwd", b"/v1/runs/\xff", b"/v1/runs/%", b"/v1/runs/%zz",
        b"http://other/v1/runs", b"", b"/v1/parts?%", b"/v1/parts?\xff=\xff", b"/v1/parts?" + b"a" * 9_000,
        b"/v1/runs/a b", b"/v1/runs#a", b"/livez?a=1&a=2",
    ]
)  # fmt: skip
METHODS = st.sampled_from(
    [b"PUT", b"POST", b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"put", b"P\x00T", b"PRI"]
)


@pytest.fixture(scope="module")
def journey_settings() -> dict[str, str]:
    # Room for eight bodies without a length: if any request keeps its place, that soon shows.
    return {"body_budget": "1MiB", "flush_bytes": "512KiB", "body_deadline": "300ms"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(standing: Journey) -> Capturing:
    roomy = {"run_parts": 100_000, "run_bytes": "64MiB"}
    return await standing.runtime("fuzzed", limits=roomy, waiting={"run_parts": 4_000, "run_notes": 4_000})


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A head that is put together from pieces, and what follows it; the runtime's own headers are added to it."""
    method, target = draw(METHODS), draw(TARGETS | st.just(b"PART"))
    lines = draw(st.lists(LINES, max_size=4))
    return b"%s %s HTTP/1.1\r\n" % (method, target) + b"".join(line + b"\r\n" for line in lines), draw(BODIES)


@given(request=requests(), cut=st.booleans(), harm=st.none() | st.integers(0, 200))
@example(request=(b"PUT PART HTTP/1.1\r\nContent-Length: 5\r\n", b"he"), cut=True, harm=None)
@example(request=(b"PUT PART HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", b"5\r\nhell"), cut=False, harm=None)
@SMOKE
async def test_nothing_on_the_wire_makes_a_fault_or_keeps_a_place(
    standing: Journey, runtime: Capturing, request: tuple[bytes, bytes], cut: bool, harm: int | None
):
    await said(standing, runtime, request, cut=cut, harm=harm)


@pytest.mark.long
@pytest.mark.timeout(900)
@given(request=requests(), cut=st.booleans(), harm=st.none() | st.integers(0, 200))
@LONG
async def test_nothing_on_the_wire_makes_a_fault_or_keeps_a_place_at_length(
    standing: Journey, runtime: Capturing, request: tuple[bytes, bytes], cut: bool, harm: int | None
):
    await said(standing, runtime, request, cut=cut, harm=harm)


async def said(
    way: Journey, runtime: Capturing, request: tuple[bytes, bytes], *, cut: bool, harm: int | None
) -> None:
    """Say it, then go away or wait; afterwards a body of any size up to the limit still finds its place."""
    head, body = request
    usual = "".join(f"{name}: {value}\r\n" for name, value in runtime.headers().items())
    whole = (
        head.replace(b"PART", runtime.path().encode())
        + b"Host: custody\r\n"
        + usual.encode()
        + b"\r\n"
        + body
    )
    if harm is not None:
        at = harm % len(whole)
        whole = whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :]
    heard = await spoken(way.api.port, whole, leave=cut)
    for line in heard.split(b"\r\n"):
        if line.startswith(b"HTTP/1.1 "):
            assert line[9:10] in b"1234", line
    assert runtime.key["Authorization"].encode() not in heard

    await has_room(way, runtime)
    await way.write()


async def has_room(way: Journey, runtime: Capturing) -> None:
    """A body without a length reserves as much as a part may have; on a busy machine it may also come too late."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * 100_000
        yield b"y" * 100_000

    for _ in range(5):
        answer = await way.client.put(runtime.path("sane"), content=pieces(), headers=runtime.headers())
        if answer.is_success:
            return
        assert answer.json()["reason"] == "interrupted", answer.text
    raise AssertionError("no body arrives in time any more")


async def spoken(port: int, request: bytes, *, leave: bool) -> bytes:
    """Send bytes and listen until the server closes or has said what it had to; or go away at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    try:
        writer.write(request)
        with suppress(TimeoutError, ConnectionError):
            await writer.drain()
            while not leave and (
                chunk := await asyncio.wait_for(reader.read(65_536), 0.05 if heard else 0.5)
            ):
                heard += chunk
    finally:
        writer.close()
    return heard
