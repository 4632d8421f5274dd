"""One model call: its tools are checked twice, what it carries is noted, and its answer is kept before it is used."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from custody_toolchain.lineage import Lineage
from custody_toolchain.observing import Report
from custody_toolchain.surface import Guard, Rejection, Surface

from .captures import Captures
from .journal import Journal
from .model import MODEL, Answer
from .tools import descriptors

Change = Callable[[dict[str, Any]], None]
TOOL_ROOM: Final = 8192  # bytes of tools in one request


class Requests:
    """Makes the requests of one run. `extensions` and `late` may change a request, but not its tools."""

    def __init__(
        self,
        journal: Journal,
        lineage: Lineage,
        captures: Captures,
        report: Report,
        extensions: Sequence[Change],
        late: Sequence[Change],
    ) -> None:
        self._journal = journal
        self._lineage = lineage
        self._captures = captures
        self._extensions = extensions
        self._late = late
        self.surface = Surface.admit(descriptors(), report)
        self.made = 0

    def ask(self, exchange: str, messages: list[dict[str, Any]], model: Callable[[], Answer]) -> Answer:
        """Return the model's answer; PreDispatchRejected if the tools are not those that were admitted."""
        self.made += 1
        reservation = f"model.{exchange}"
        sent = sum(each["exchange"] == exchange for each in self._journal.all("sent"))
        kept = [each["answer"] for each in self._journal.all("answer") if each["exchange"] == exchange]
        if kept:
            self._said_again(exchange, messages, sent)
            answer = msgspec.convert(kept[0], Answer)
        else:
            if not self._journal.is_open(reservation):
                self._journal.note("reserved", {"id": reservation, "tool": "model"})
            answer = self._sent(exchange, str(sent + 1), messages, model)
        if self._journal.is_open(reservation):
            self._settle(exchange, "completed", "dispatched")
        return answer

    def _said_again(self, exchange: str, messages: list[dict[str, Any]], sent: int) -> None:
        """Say of a request that an earlier process sent what it carried: the same facts, which count once."""
        prepared = self._lineage.prepare(exchange, messages, request=self.made)
        for attempt in range(1, sent + 1):
            prepared.submitted(str(attempt))

    def _sent(
        self, exchange: str, attempt: str, messages: list[dict[str, Any]], model: Callable[[], Answer]
    ) -> Answer:
        capture = self._captures.attempt(exchange, attempt)

        def settle(rejection: Rejection) -> None:
            self._journal.note("rejected", rejection)
            self._settle(exchange, rejection.settlement, rejection.dispatch)
            capture.refused()

        guard = Guard(self.surface, exchange, settle, attempt)
        guard.fit(TOOL_ROOM)
        request = {"model": MODEL, "messages": messages, "tools": self.surface.tools()}
        for extend in self._extensions:
            extend(request)
        guard.check_early(request)
        for change in self._late:
            change(request)
        guard.check_final(request)
        prepared = self._lineage.prepare(exchange, request["messages"], request=self.made)
        self._journal.note("sent", {"exchange": exchange, "attempt": attempt, "request": request})
        capture.sent(request)
        prepared.submitted(attempt)
        answer = model()
        self._journal.note("answer", {"exchange": exchange, "answer": answer})
        capture.answered(answer)
        return answer

    def _settle(self, exchange: str, settlement: str, dispatch: str) -> None:
        self._journal.note("settled", {"exchange": exchange, "settlement": settlement, "dispatch": dispatch})
        self._journal.note("closed", f"model.{exchange}")
