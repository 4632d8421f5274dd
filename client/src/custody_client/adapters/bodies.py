"""Bodies of responses of httpx and httpx2, looked at while they pass: unchanged, unbuffered, closed as before.

Neither library is imported here: the one that made the response is there already.
"""

import sys
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from functools import cache
from typing import Any, Final, cast

from custody_client.adapters.answers import Answer
from custody_client.adapters.faults import harmless

LIBRARIES: Final = ("httpx2", "httpx")
_STREAMED: Final = ("text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream")


def streams(response: Any) -> bool:
    """Whether the answer comes piece by piece, as its content type says."""
    return str(response.headers.get("content-type", "")).lower().startswith(_STREAMED)


def decoder(response: Any) -> Callable[[bytes], bytes] | None:
    """How to read a compressed body: by the library's own decoders, once all of it is there. None if it is plain."""
    encoding = response.headers.get("content-encoding", "")
    if encoding.strip().lower() in {"", "identity"}:
        return None
    make = sys.modules[_library(type(response))].Response
    return lambda body: bytes(make(200, headers={"content-encoding": encoding}, content=body).content)


def watch(response: Any, answer: Answer) -> None:
    """Let `answer` see what is read of this response; one that was read already is seen at once."""
    if response.is_closed or response.is_stream_consumed:
        answer.whole(response.content)
        return
    stream = response.stream
    response.stream = _class_for(_library(type(response)), cast("Hashable", type(stream)))(stream, answer)


class _Watched:
    """Stands before a body. What is asked of it beside reading and closing is the body's."""

    def __init__(self, body: Any, answer: Answer) -> None:
        self._body, self._answer = body, answer

    def __getattr__(self, name: str) -> Any:
        if name in {"_answer", "_body"}:  # not made yet
            raise AttributeError(name)
        return getattr(self._body, name)

    def __del__(self) -> None:
        # Dropped without being read to its end or closed. Being made may have failed.
        with harmless("body"):
            self._answer.closed()


class _Sync(_Watched):
    def __iter__(self) -> Iterator[bytes]:
        return _Reading(iter(self._body), self._answer)

    def close(self) -> None:
        self._answer.closed()
        self._body.close()


class _Async(_Watched):
    def __aiter__(self) -> AsyncIterator[bytes]:
        return _AsyncReading(self._body.__aiter__(), self._answer)

    async def aclose(self) -> None:
        self._answer.closed()
        await self._body.aclose()


class _Reading:
    """One pass through a body; its end is the body's end."""

    __slots__ = ("_answer", "_chunks")

    def __init__(self, chunks: Iterator[bytes], answer: Answer) -> None:
        self._chunks, self._answer = chunks, answer

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self._answer.ended()
            raise
        except BaseException as error:
            self._answer.broke(error)
            raise
        self._answer.feed(chunk)
        return chunk


class _AsyncReading:
    """The same, awaited. Whoever closes it closes the body's own iterator."""

    __slots__ = ("_answer", "_chunks")

    def __init__(self, chunks: AsyncIterator[bytes], answer: Answer) -> None:
        self._chunks, self._answer = chunks, answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._answer.ended()
            raise
        except BaseException as error:
            self._answer.broke(error)
            raise
        self._answer.feed(chunk)
        return chunk

    async def aclose(self) -> None:
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


def _library(response: type) -> str:
    """Name the library that a class of responses is of, also by descent."""
    roots = [parent.__module__.partition(".")[0] for parent in response.__mro__]
    return next(name for name in LIBRARIES if name in roots)


@cache
def _class_for(library: str, body: Hashable) -> Any:
    """Make the class that may stand where such a body stood: libraries ask what a body is before they read it."""
    ours: list[type] = []
    theirs: list[type] = []
    for mine, name in ((_Sync, "SyncByteStream"), (_Async, "AsyncByteStream")):
        its = getattr(sys.modules[library], name)
        if issubclass(cast("type", body), its):
            ours.append(mine)
            theirs.append(its)
    return type("WatchedBody", (*ours, *theirs), {})
