"""Flushes of one run: which parts go together, when, and what becomes of them by the answer, or without one."""

from time import monotonic
from typing import TYPE_CHECKING, Final

from custody_client import answers
from custody_client.accounts import OPEN
from custody_client.answers import Outcome, Problem
from custody_client.frames import Batch, Part, State, batch_of
from custody_client.words import (
    CLIENT_MASK_FAILED,
    CLIENT_TRANSPORT,
    ENCODING_FAILED,
    NOT_NOW,
    PART_TOO_LARGE,
    RUN_NOT_ADMITTED,
    TICKET_EXPIRED,
    TICKET_INVALID,
    sayable,
)

if TYPE_CHECKING:
    from custody_client.deliveries import Delivery

_LINGER_S: Final = 0.1
_MOST_PARTS: Final = 32
_MOST_STATES: Final = 64
_MOST_BYTES: Final = 1024 * 1024
_MOST_TRIES: Final = 2
# In this time a healthy store has written what it took, so that a run may send what may wait of it once again.
_WRITTEN_S: Final = 0.25
ASK_AGAIN_S: Final = 5.0
"""When to ask again whether a run is admitted that was refused."""
_FLUSH: Final = {"Content-Type": "application/msgpack"}

# Refusals of the run as a whole, for whatever is captured next as well.
_OF_THE_RUN: Final = frozenset(
    {
        "temporary_mode",
        "content_opt_out",
        "not_sampled",
        "run_not_admitted",
        "run_closed",
        "retention_expired",
        "erased",
    }
)
# Refusals of who asks: the run is not admitted for us, whatever else it is.
_OF_THE_KEY: Final = frozenset({"unauthenticated", "permission_denied"})


class Flushing:
    """The flush that is on its way, and when the next may go."""

    def __init__(self, delivery: "Delivery") -> None:
        self._delivery = delivery
        self._account = delivery.account
        self._sender = delivery.sender
        self.batch: Batch | None = None
        self.since: float | None = None
        """When what waits began to wait."""
        self._not_before = 0.0

    def step(self, now: float) -> bool:
        """Send what is due; False if nothing is."""
        if self._account.phase is not OPEN:
            return False
        if self.batch is None:
            if not self._due(now):
                return False
            self.batch = self._next()
        batch = self.batch
        # While it was masked, the ticket may have come to its end.
        if batch is not None and self._account.ticket is not None:
            self._send(batch, self._account.ticket.text)
        return True

    def impatient(self, before: float) -> None:
        """Let go of a flush that could not be sent, if it holds what was captured before that."""
        batch = self.batch
        if batch is not None and not self._sender.asking and any(part.at < before for part in batch.parts):
            self.abandon(CLIENT_TRANSPORT)

    def abandon(self, reason: str) -> None:
        """Let go of what is on its way."""
        batch, self.batch = self.batch, None
        if batch is not None:
            for part in batch.parts:
                self._delivery.lose(part, reason)
            if batch.states:
                self._sender.office.trouble.note("states", f"what was said of attempts got lost: {reason}")

    # --- what goes

    def _due(self, now: float) -> bool:
        queue, states = self._delivery.queue, self._delivery.states
        if now < self._not_before or not (queue or states):
            return False
        if self._sender.office.urgent or self._account.closing or len(queue) >= _MOST_PARTS:
            return True
        if self.since is None:
            self.since = now
        return now - self.since >= _LINGER_S

    def _next(self) -> Batch | None:
        """Take what fits into one flush, masked; None where nothing is left of it."""
        delivery, ticket = self._delivery, self._account.ticket
        most_parts = min(_MOST_PARTS, ticket.waiting_parts if ticket else 1)
        most_bytes = min(_MOST_BYTES, ticket.waiting_bytes if ticket else 1)
        parts: list[Part] = []
        size = 0
        while delivery.queue and len(parts) < most_parts:
            if parts and size + len(delivery.queue[0].content) > most_bytes:
                break
            part = self._masked(delivery.queue.popleft())
            if part is not None:
                parts.append(part)
                size += len(part.content)
        states = [delivery.states.pop(key) for key in list(delivery.states)[:_MOST_STATES]]
        self.since = monotonic() if delivery.queue or delivery.states else None
        if not parts and not states:
            return None
        if ticket is not None:
            share = max(len(parts) / ticket.waiting_parts, size / ticket.waiting_bytes)
            self._not_before = monotonic() + _WRITTEN_S * min(share, 1.0)
        return batch_of(parts, states)

    def _masked(self, part: Part) -> Part | None:
        masker, ticket = self._sender.masker, self._account.ticket
        if masker is None:
            return part
        masked = masker.masked(part.content)
        if masked is None:
            self._sender.office.trouble.note(
                CLIENT_MASK_FAILED, "the mask raised, was slow, or gave no bytes"
            )
            self._delivery.lose(part, CLIENT_MASK_FAILED)
            return None
        if ticket is not None and len(masked) > ticket.part_bytes:
            self._delivery.lose(part, PART_TOO_LARGE)
            return None
        part.content = masked
        return part

    # --- what becomes of it

    def _send(self, batch: Batch, ticket: str) -> None:
        account, sender = self._account, self._sender
        headers = {**_FLUSH, "Custody-Ticket": ticket, "Custody-Session": account.session}
        if batch.parts:
            headers["Custody-Sequences"] = batch.sequences
        frames = len(batch.parts) + len(batch.states)
        path = f"/v1/runs/{account.run_id}/frames"
        found = sender.ask("POST", path, headers, batch.body, lambda answer: answers.receipts(answer, frames))
        if self.batch is not batch:
            return  # let go of meanwhile
        if found is None:
            self._unanswered(batch, sent=sender.was_sent)
        elif isinstance(found, Problem):
            self._refused(batch, found)
        else:
            self._received(batch, found)

    def _unanswered(self, batch: Batch, *, sent: bool) -> None:
        """Send the same bytes once more; a request that never left was none."""
        batch.tries += sent
        if batch.tries >= _MOST_TRIES:
            self.abandon(CLIENT_TRANSPORT)

    def _received(self, batch: Batch, outcomes: list[Outcome]) -> None:
        self.batch = None
        for part, outcome in zip(batch.parts, outcomes, strict=False):
            self._settle(part, outcome)
        for state, outcome in zip(batch.states, outcomes[len(batch.parts) :], strict=True):
            if not outcome.recorded:
                self._again(state, outcome.reason)

    def _settle(self, part: Part, outcome: Outcome) -> None:
        delivery = self._delivery
        if outcome.delivered:
            delivery.release(part)
            self._sender.office.delivered += 1
            return
        reason = sayable(outcome.reason)
        self._sender.office.trouble.note("refused", f"the service refused parts: {reason}")
        if outcome.recorded:
            delivery.refused(part, reason)
        else:
            delivery.lose(part, reason)

    def _again(self, state: State, reason: str | None) -> None:
        """Say it once more where the service could not remember it just now."""
        state.tries += 1
        if reason in NOT_NOW and state.tries <= _MOST_TRIES:
            self._delivery.say(state)
            self._not_before = monotonic() + 1.0

    def _refused(self, batch: Batch, problem: Problem) -> None:
        """The flush as a whole was refused, before it was read."""
        reason, delivery = problem.reason, self._delivery
        if reason in (TICKET_EXPIRED, TICKET_INVALID) and not batch.renewed:
            batch.renewed = True
            delivery.renew()
            return
        self._sender.office.trouble.note("refused", f"the service refused a flush: {reason}")
        self.batch = None
        outcome = outcome_of(reason)
        for part in batch.parts:
            if problem.recorded:
                delivery.refused(part, outcome)
            else:
                delivery.lose(part, outcome)
        if stands(reason):
            delivery.refuse(outcome)
            delivery.renew(after_s=ASK_AGAIN_S)


def stands(reason: str) -> bool:
    """Say whether a refused request means that nothing of the run is taken from us."""
    return reason in _OF_THE_RUN or reason in _OF_THE_KEY


def outcome_of(reason: str) -> str:
    """Return what a refused request means for what was in it."""
    if reason in _OF_THE_KEY:
        return RUN_NOT_ADMITTED
    if reason in ("malformed_request", "unsupported_media", "length_required"):
        return ENCODING_FAILED
    return sayable(reason)
