"""What comes back to one try, as somebody reads it: fed as it passes, ended once, never in the reader's way."""

from collections.abc import Callable
from typing import Any, Final

from custody_client.adapters.calls import Call, Try, remember, settlement_of
from custody_client.adapters.faults import harmless, noted
from custody_client.adapters.routes import Route
from custody_client.content import NotObserved
from custody_client.streams import Assembler
from custody_client.streams.output import Vantage
from custody_client.words import OBSERVABLE_OUTPUT

_SETTLED: Final = {
    "completed": "completed",
    "finished-no-terminal": "completed",
    "interrupted": "failed",
    "error": "failed",
    "cancelled": "cancelled",
}
_FAILED_FROM: Final = 400
# Of a body that does not stream, or that is compressed, so much is held until its end.
_HELD_BYTES: Final = 16 * 1024 * 1024


class Answer:
    """The output of one try. None of its methods raises; `feed` costs what its assembler costs.

    Where the run admits no output nothing is looked at: only whether it was read to its end.
    """

    __slots__ = (
        "_assembler", "_call", "_decode", "_ending", "_held", "_held_bytes", "_over", "_status", "_streamed", "_try",
        "_vantage",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        tried: Try,
        route: Route,
        *,
        vantage: Vantage,
        status: int = 200,
        streamed: bool = True,
        decode: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._call, self._try, self._vantage = call, tried, vantage
        self._status, self._streamed, self._decode = status, streamed, decode
        self._over = False
        self._ending = [True]
        self._held: list[bytes] | None = None if streamed and decode is None else []
        self._held_bytes = 0
        self._assembler: Assembler | None = None
        if call.run.admits(OBSERVABLE_OUTPUT):
            self._assembler = Assembler(
                route.api, provider=route.provider, host=route.host, vantage=vantage, streamed=streamed
            )

    def feed(self, chunk: bytes) -> None:
        """Take bytes of the body as they pass."""
        if self._assembler is None or self._over:
            return
        if self._held is None:
            try:
                self._assembler.feed(chunk)
            except Exception as error:  # noqa: BLE001 -- it promises not to; a stream that breaks would be worse
                noted("stream", type(error).__name__, self._call.run)
        elif self._held_bytes <= _HELD_BYTES:
            self._held.append(chunk)
            self._held_bytes += len(chunk)

    def event(self, event: object) -> None:
        """Take what an SDK has decoded of a stream."""
        if self._assembler is not None and not self._over:
            with harmless("stream", self._call.run):
                self._assembler.event(event)

    def whole(self, body: object) -> None:
        """Take an answer that is there as a whole, and end."""
        if self._assembler is not None and not self._over:
            with harmless("answer", self._call.run):
                self._assembler.answer(body)
        self.ended()

    def ended(self) -> None:
        """Say that it was read to its end."""
        with harmless("answer", self._call.run):
            self._end("completed")

    def closed(self) -> None:
        """Say that its reader stopped. Whether that was before its end is told by what came, not by the connection."""
        with harmless("answer", self._call.run):
            self._end(None)

    def broke(self, error: BaseException) -> None:
        """Say that reading failed, or was cancelled."""
        with harmless("answer", self._call.run):
            self._end(settlement_of(error), type(error).__name__)

    def _end(self, settlement: str | None, error: str = "") -> None:
        # One of them is first, also where one thread reads and another closes: a list gives its only element once,
        # with and without a global lock.
        self._over = True
        try:
            self._ending.pop()
        except IndexError:
            return
        if self._assembler is None:
            self._try.attempt.capture_output(_not_looked_at, vantage=self._vantage)
            self._try.end("failed" if self._status >= _FAILED_FROM else settlement)
            return
        readable = self._release(self._assembler, whole=settlement == "completed")
        if self._status >= _FAILED_FROM:
            self._assembler.failed(f"HTTP{self._status}")
        elif error and settlement == "failed":
            self._assembler.failed(error)
        elif settlement != "completed":
            self._assembler.cancelled()
        self._tell(self._assembler, None if readable else "unknown")

    def _release(self, assembler: Assembler, *, whole: bool) -> bool:
        """Give the assembler what was held for it; False where that was too much, or cannot be read."""
        if not self._held:
            return True
        held, self._held = b"".join(self._held), None
        try:
            body = self._decode(held) if self._decode else held
        except Exception:  # noqa: BLE001 -- whatever the library's decoder raises; its reader met the same
            return False
        if whole and not self._streamed:
            assembler.answer(body)
        else:
            assembler.feed(body)
        return self._held_bytes <= _HELD_BYTES

    def _tell(self, assembler: Assembler, completeness: str | None) -> None:
        attempt = self._try.attempt
        attempt.capture_output(assembler, vantage=self._vantage, completeness=completeness)
        if response_id := assembler.response_id:
            attempt.refer(response=response_id)
            remember(self._call.run, response_id)
        self._try.end("failed" if self._status >= _FAILED_FROM else _SETTLED[assembler.state])


def _not_looked_at() -> Any:
    """Stand for an output that was not admitted when it came: should it be now, there is nothing of it."""
    raise NotObserved
