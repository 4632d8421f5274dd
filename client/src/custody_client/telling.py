"""Facts of a toolchain on their way to the service: small, without content, bounded, and in nobody's way.

They leave once their run is admitted, some at a time. The service takes each once, so that an unanswered request is
sent once more; what it will not remember is counted, and nothing is asked again.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from custody_client import answers
from custody_client.accounts import OPEN
from custody_client.answers import Outcome, Problem
from custody_client.flushing import ASK_AGAIN_S, outcome_of, stands
from custody_client.words import (
    CLIENT_TRANSPORT,
    CLIENT_UNSERIALISABLE,
    TICKET_EXPIRED,
    TICKET_INVALID,
    sayable,
)

if TYPE_CHECKING:
    from custody_client.deliveries import Delivery

_LINGER_S: Final = 0.1
# Half of the room that a store has for facts of a run that wait: states and gaps need some of it too.
_MOST_FACTS: Final = 32
_MOST_TRIES: Final = 2
# In this time a healthy store has written so many.
_WRITTEN_S: Final = 0.075
_JSON: Final = {"Content-Type": "application/json"}

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Facts(msgspec.Struct):
    """One request: its bytes, which stay the same however often they are sent, and how many facts are in it."""

    body: bytes
    many: int
    since: float
    tries: int = 0
    renewed: bool = False


class Telling:
    """The facts that are on their way, and when the next may go."""

    def __init__(self, delivery: "Delivery") -> None:
        self._delivery = delivery
        self._account = delivery.account
        self._sender = delivery.sender
        self.batch: Facts | None = None
        self._not_before = 0.0

    @property
    def waits(self) -> bool:
        """Say whether anything is still to be told."""
        return self.batch is not None or bool(self._account.facts)

    def step(self, now: float) -> bool:
        """Tell what is due; False if nothing is."""
        account = self._account
        if account.phase is not OPEN or account.ticket is None:
            return False
        if self.batch is None:
            if not self._due(now):
                return False
            self.batch = self._next(now)
        if self.batch is not None:
            self._send(self.batch, account.ticket.text)
        return True

    def impatient(self, before: float) -> None:
        """Let go of what was reported before that, and could not be told."""
        facts, batch = self._account.facts, self.batch
        while facts and facts[0][0] < before:
            facts.popleft()
            self._lose(CLIENT_TRANSPORT)
        if batch is not None and batch.since < before and not self._sender.asking:
            self._abandon(CLIENT_TRANSPORT)

    def drop(self, reason: str) -> None:
        """Let go of everything."""
        self._abandon(reason)
        while self._account.facts:
            self._account.facts.popleft()
            self._lose(reason)

    # --- what goes

    def _due(self, now: float) -> bool:
        facts = self._account.facts
        if not facts or now < self._not_before:
            return False
        hurry = self._sender.office.urgent or self._account.closing or len(facts) >= _MOST_FACTS
        return hurry or now - facts[0][0] >= _LINGER_S

    def _next(self, now: float) -> Facts | None:
        """Take as many as one request holds; None where none of them is a fact."""
        facts, since = self._account.facts, now
        taken: list[bytes] = []
        while facts and len(taken) < _MOST_FACTS:
            at, fact = facts.popleft()
            since = min(since, at)
            # What is no object would make the whole request none.
            if _is_object(fact):
                taken.append(fact)
            else:
                self._lose(CLIENT_UNSERIALISABLE)
        if not taken:
            return None
        self._not_before = now + _WRITTEN_S * len(taken) / _MOST_FACTS
        return Facts(b'{"facts":[' + b",".join(taken) + b"]}", len(taken), since)

    # --- what becomes of it

    def _send(self, batch: Facts, ticket: str) -> None:
        path = f"/v1/runs/{self._account.run_id}/facts"
        headers = {**_JSON, "Custody-Ticket": ticket}
        found = self._sender.ask(
            "POST", path, headers, batch.body, lambda answer: answers.fact_notes(answer, batch.many)
        )
        if self.batch is not batch:
            return  # let go of meanwhile
        if found is None:
            batch.tries += self._sender.was_sent
            if batch.tries >= _MOST_TRIES:
                self._abandon(CLIENT_TRANSPORT)
        elif isinstance(found, Problem):
            self._refused(batch, found.reason)
        else:
            self._received(found)

    def _received(self, outcomes: list[Outcome]) -> None:
        self.batch = None
        for outcome in outcomes:
            if outcome.recorded:
                self._sender.office.tally.told += 1
            else:
                self._lose(sayable(outcome.reason))

    def _refused(self, batch: Facts, reason: str) -> None:
        """The request as a whole was refused, before it was read."""
        if reason in (TICKET_EXPIRED, TICKET_INVALID) and not batch.renewed:
            batch.renewed = True
            self._delivery.renew()
            return
        self._abandon(outcome_of(reason))
        if stands(reason):
            self._delivery.refuse(outcome_of(reason))
            self._delivery.renew(after_s=ASK_AGAIN_S)

    def _abandon(self, reason: str) -> None:
        batch, self.batch = self.batch, None
        if batch is not None:
            self._lose(reason, batch.many)

    def _lose(self, reason: str, many: int = 1) -> None:
        office = self._sender.office
        office.tally.lose(reason, many)
        office.trouble.note("facts", f"facts got lost: {reason}")


def _is_object(fact: bytes) -> bool:
    try:
        # What is inside is left as it is by the decoder, and so is not even known to be text.
        fact.decode("utf-8")
        _object.decode(fact)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False
    return True
