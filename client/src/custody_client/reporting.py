"""What a run tells of itself: its losses, as ranges by reason, and at its end how much each session numbered."""

from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from custody_client import answers
from custody_client.accounts import ASKING, OPEN, REFUSED
from custody_client.answers import Outcome, Problem
from custody_client.ranges import Ranges
from custody_client.words import NOT_NOW, RUN_CLOSED, RUN_NOT_ADMITTED

if TYPE_CHECKING:
    from custody_client.deliveries import Delivery

_EVERY_S: Final = 2.0
_AGAIN_S: Final = 0.5
_NEVER: Final = float("inf")
_JSON: Final = {"Content-Type": "application/json"}


class Reporting:
    """When losses are told, whether there is anybody to tell them to, and the end of the run."""

    def __init__(self, delivery: "Delivery") -> None:
        self._delivery = delivery
        self._account = delivery.account
        self._sender = delivery.sender
        self.tellable = delivery.account.ticket is not None
        """Whether there is a run over there in which losses can be recorded."""
        self._report_at = 0.0
        self._not_before = 0.0

    @property
    def due(self) -> float:
        """When to look again whether a standing refusal has more to tell of."""
        return self._report_at or _NEVER

    def step(self, now: float) -> bool:
        """Tell losses, or close; False if neither is due."""
        return self._reported(now) or self._closed(now)

    def _reported(self, now: float) -> bool:
        account, sender = self._account, self._sender
        if account.phase is ASKING:
            return False
        if now < self._not_before or not (now >= self._report_at or sender.office.urgent or account.closing):
            return False
        if account.phase is REFUSED:
            self._delivery.settle(account.reason or RUN_NOT_ADMITTED)
        report = account.ledger.report() if self.tellable else []
        self._report_at = now + _EVERY_S if account.phase is REFUSED or report else 0.0
        if not report:
            return False
        gaps = [
            {"session": account.session, "sequences": ranges.to_text(), "reason": reason}
            for reason, ranges in report
        ]
        body = msgspec.json.encode({"gaps": gaps})
        ticket = {} if account.ticket is None else {"Custody-Ticket": account.ticket.text}
        path = f"/v1/runs/{account.run_id}/gaps"
        told = sender.ask(
            "POST", path, {**ticket, **_JSON}, body, lambda answer: answers.notes(answer, len(gaps))
        )
        if isinstance(told, Problem):
            self._not_told(told.reason, outage=told.outage)
        elif told is not None:
            self._told(report, told)
        return True

    def _told(self, report: list[tuple[str, Ranges]], told: list[Outcome]) -> None:
        for (reason, ranges), outcome in zip(report, told, strict=True):
            if outcome.recorded:
                self._account.ledger.told(reason, ranges)
            else:
                self._not_told(outcome.reason or RUN_NOT_ADMITTED, outage=outcome.reason in NOT_NOW)

    def _not_told(self, reason: str, *, outage: bool) -> None:
        if outage:
            self._not_before = monotonic() + _AGAIN_S
            return
        self._sender.office.trouble.note("gaps", f"losses could not be told: {reason}")
        self.tellable = False

    # --- closing

    def _closed(self, now: float) -> bool:
        account = self._account
        if not account.closing or self._delivery.waits():
            return False
        if account.phase is ASKING:
            return False
        if account.phase is OPEN:
            self._delivery.stretch = max(self._delivery.stretch, account.turned_from or 0)
            if account.last >= self._delivery.stretch:
                self._delivery.settle(RUN_CLOSED)
                return self._reported(now)
        if not self.tellable or account.reason == RUN_CLOSED or account.another_closes:
            self._delivery.over = True
            return False
        body = msgspec.json.encode({"sessions": self._sessions()})
        taken = self._sender.ask("POST", f"/v1/runs/{account.run_id}/close", _JSON, body, answers.closed)
        if isinstance(taken, Problem) and not taken.outage:
            self._sender.office.trouble.note("closing", f"a run was not closed: {taken.reason}")
            self._delivery.over = True
        self._delivery.over = self._delivery.over or taken is True
        return True

    def _sessions(self) -> dict[str, int]:
        account = self._account
        sessions = {account.session: account.last}
        for session, page in account.children:
            if last := int.from_bytes(page[:8]):
                sessions[session] = last
        return sessions
