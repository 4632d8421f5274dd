"""The sender: a process of its own that writes prepared requests to raw sockets and reads just enough of the answers.

It must not be what is measured: no HTTP library, no parsing beyond status and length, one request at a time and line.
"""

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import uvloop

from bench.wire import read_requests
from store.clock import monotonic

# Whoever does not answer for so long is not slow but stuck.
SILENCE_S = 60.0
_LAUNCH_CONNECTIONS = 100
_SAMPLE = 300


class Job(msgspec.Struct):
    """What to send, where to, and how fast: as fast as the answers come, or `rate` a second whatever they do."""

    port: int
    requests: str
    connections: int
    rate: float | None = None
    # Stop after so many seconds, beginning again with the first request where there are too few.
    seconds: float | None = None
    # Bytes to add behind each request, new ones each time, out of the text in `filling`.
    fill: int = 0
    filling: str | None = None
    # Whether every request's times are told, and not only their sum.
    marks: bool = False
    # Whether these end with the first byte of an answer, and not with its last.
    first_byte: bool = False


class Sent(msgspec.Struct):
    """What came of it; times are of the machine's monotonic clock, which all processes share."""

    first_at: float
    last_at: float
    statuses: dict[int, int]
    broken: int
    # One answer of each status, to tell what went wrong.
    samples: dict[int, str] = {}
    # For each request in the order of its file: when it was sent, and when its answer was there (0: never).
    marks: list[tuple[float, float]] = []

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first request to the last answer."""
        return self.last_at - self.first_at

    def rate(self, *expected: int) -> float:
        """Return answers a second; any other status than expected means that something else was measured."""
        if set(self.statuses) - set(expected) or self.broken:
            raise Unexpected(self)
        return sum(self.statuses.values()) / self.elapsed_s


class Unexpected(Exception):
    """The service answered something that the benchmark does not measure."""

    def __init__(self, sent: Sent) -> None:
        super().__init__(
            f"answers: {sent.statuses}; cut off: {sent.broken}; of each status one: {sent.samples}"
        )


async def drive(job: Job) -> Sent:
    """Run a job in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.load", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        said, _ = await process.communicate(msgspec.msgpack.encode(job))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RuntimeError("the sender failed; what it said is above")
    return msgspec.msgpack.decode(said, type=Sent)


class _Sender:
    """All connections of one job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.requests = list(read_requests(Path(job.requests)))
        self.filling = memoryview(Path(job.filling).read_bytes()) if job.filling else memoryview(b"")
        self.marks = [(0.0, 0.0)] * (len(self.requests) if job.marks else 0)
        self.statuses: Counter[int] = Counter()
        self.samples: dict[int, str] = {}
        self.broken = 0
        self.first_at = self.last_at = 0.0
        self.until = float("inf")
        self.idle: deque[_Line] = deque()
        self.due: deque[int] = deque()
        self.busy = 0
        self.done = asyncio.Event()
        self._next = self._places()
        self._filled = 0

    async def run(self) -> Sent:
        """Connect, send, and wait for the last answer."""
        for launched in range(0, self.job.connections, _LAUNCH_CONNECTIONS):
            many = min(_LAUNCH_CONNECTIONS, self.job.connections - launched)
            await asyncio.gather(*(self.connect() for _ in range(many)))
        self.first_at = self.last_at = monotonic()
        if self.job.seconds is not None:
            self.until = self.first_at + self.job.seconds
        lines, self.idle = list(self.idle), deque()
        if self.job.rate is None:
            for line in lines:
                self.proceed(line)
        else:
            self.idle.extend(lines)
            await self._pace(self.job.rate)
        async with asyncio.timeout(SILENCE_S + (self.job.seconds or 0)):
            while self.busy:
                self.done.clear()
                await self.done.wait()
        return Sent(self.first_at, self.last_at, dict(self.statuses), self.broken, self.samples, self.marks)

    async def connect(self) -> None:
        """Open one connection, which is idle then."""
        await asyncio.get_running_loop().create_connection(lambda: _Line(self), "127.0.0.1", self.job.port)

    def proceed(self, line: "_Line") -> None:
        """Let a connection that is free send what comes next."""
        if self.job.rate is not None:
            place = self.due.popleft() if self.due else None
        else:
            place = next(self._next, None) if monotonic() < self.until else None
        if place is None:
            self.idle.append(line)
        else:
            self.busy += 1
            line.send(place)

    def filling_of(self, place: int) -> bytes | memoryview:
        """Return the bytes behind a request: a number that none had before, and text from another place each time."""
        if not self.job.fill:
            return b""
        self._filled += 1
        mark = b"%08x%08x" % (place, self._filled)
        size = self.job.fill - len(mark)
        at = self._filled * 7919 % (len(self.filling) - size)
        return mark + self.filling[at : at + size]

    def answered(self, line: "_Line", status: int, answer: bytes, *, close: bool) -> None:
        """Take one answer, and go on."""
        self.last_at = monotonic()
        self.statuses[status] += 1
        if status not in self.samples:
            self.samples[status] = answer.rpartition(b"\r\n\r\n")[2][:_SAMPLE].decode("latin-1")
        if self.marks:
            self.marks[line.place] = (line.sent_at, line.began_at if self.job.first_byte else self.last_at)
        self._ended(line, close=close)

    def cut_off(self, line: "_Line") -> None:
        """Take note of a connection that ended without an answer."""
        self.broken += 1
        self._ended(line, close=True)

    def _ended(self, line: "_Line", *, close: bool) -> None:
        self.busy -= 1
        if close:
            line.retire()
            if monotonic() < self.until:
                self.busy += 1
                task = asyncio.get_running_loop().create_task(self._replace())
                task.add_done_callback(self._replaced)
        else:
            self.proceed(line)
        self.done.set()

    async def _replace(self) -> None:
        await self.connect()
        self.proceed(self.idle.pop())

    def _replaced(self, task: "asyncio.Task[None]") -> None:
        self.busy -= 1
        self.broken += task.exception() is not None
        self.done.set()

    async def _pace(self, rate: float) -> None:
        """Send at instants that were fixed beforehand: a slow answer delays nobody else."""
        for at in range(len(self.requests)):
            await asyncio.sleep(max(0.0, self.first_at + at / rate - monotonic()))
            self.due.append(at)
            if self.idle:
                self.proceed(self.idle.popleft())

    def _places(self) -> Iterator[int]:
        while True:
            yield from range(len(self.requests))
            if self.job.seconds is None:
                return


class _Line(asyncio.Protocol):
    """One connection with at most one request under way."""

    def __init__(self, sender: _Sender) -> None:
        self._sender = sender
        self._transport: asyncio.Transport | None = None
        self._answer = b""
        self._retired = False
        self._waiting = False
        self.place = 0
        self.sent_at = 0.0
        self.began_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._sender.idle.append(self)

    def send(self, place: int) -> None:
        """Write one request."""
        assert self._transport is not None
        self.place, self.sent_at, self._answer, self._waiting = place, monotonic(), b"", True
        self._transport.write(self._sender.requests[place])
        if filling := self._sender.filling_of(place):
            self._transport.write(filling)

    def data_received(self, data: bytes) -> None:
        if not self._answer:
            self.began_at = monotonic()
        answer = self._answer + data if self._answer else data
        end = answer.find(b"\r\n\r\n")
        if end < 0 or len(answer) < end + 4 + _length(answer[:end]):
            self._answer = answer
            return
        self._waiting = False
        head = answer[:end].lower()
        self._sender.answered(self, int(answer[9:12]), answer, close=b"\nconnection: close" in head)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        if self._waiting and not self._retired:
            self._waiting = False
            self._sender.cut_off(self)
        elif self in self._sender.idle:
            self._sender.idle.remove(self)

    def retire(self) -> None:
        """Be used no more."""
        self._retired = True
        if self._transport is not None:
            self._transport.abort()


def _length(head: bytes) -> int:
    at = head.find(b"content-length:")
    if at < 0:
        at = head.lower().find(b"content-length:")
    if at < 0:
        return 0
    return int(head[at + 15 : head.find(b"\r", at) if head.find(b"\r", at) > 0 else None])


def main() -> None:
    """Read a job from standard input, run it, and write what came of it."""
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)

    async def run() -> Sent:
        return await _Sender(job).run()

    sys.stdout.buffer.write(msgspec.msgpack.encode(uvloop.run(run())))


if __name__ == "__main__":
    main()
