"""What goes to a Custody store, if there is one: what each call was given and answered, and how it was settled."""

from typing import TYPE_CHECKING, Any

from .model import API, MODEL, Answer

if TYPE_CHECKING:
    from custody_client import Attempt, Run


class Captures:
    """Captures of one run through custody-client; without a run of it, nothing at all."""

    def __init__(self, run: "Run | None" = None) -> None:
        self._run = run

    def attempt(self, exchange: str, attempt: str) -> "Capture":
        """Begin one try of one model call."""
        return Capture(None if self._run is None else self._run.exchange(exchange).attempt(attempt))


class Capture:
    """One try of one model call."""

    def __init__(self, attempt: "Attempt | None") -> None:
        self._attempt = attempt

    def sent(self, request: dict[str, Any]) -> None:
        """Say that the request is on its way, and what is in it."""
        if self._attempt is not None:
            self._attempt.capture_request(request)
            self._attempt.dispatched()

    def refused(self) -> None:
        """Say that the request was never sent. What it held is nobody's input, and is not captured."""
        if self._attempt is not None:
            self._attempt.not_dispatched()
            self._attempt.settled("failed")

    def answered(self, answer: Answer) -> None:
        """Say what came back, as far as it came."""
        if self._attempt is None:
            return
        from custody_client.streams import Assembler  # noqa: PLC0415 - only where there is a store

        seen = Assembler(API, provider=MODEL, streamed=answer.chunks is not None)
        for chunk in answer.chunks or ():
            # Its last word is no event that an SDK decodes; on the wire it looks like this.
            seen.feed(b"data: [DONE]\n\n") if chunk == "[DONE]" else seen.event(chunk)
        if answer.body is not None:
            seen.answer(answer.body)
        self._attempt.capture_output(seen)
        self._attempt.refer(response=answer.understood().native.response_id)
        self._attempt.settled("completed")
