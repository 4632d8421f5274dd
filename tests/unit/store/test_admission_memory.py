"""What the guard remembers of its decisions: those in use, and no more than a bounded number."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from policies.decisions import ALLOW
from policies.limits import RunLimits, ScopeLimits
from store.ids import RunUid, ScopeId
from store.services import admission
from store.services.admission import Admission, Sending
from store.services.run_facts import RunFacts
from store.tickets import Ticket

WHO = Sending("a" * 16, ScopeId(uuid4()))
LATER = datetime.now(UTC) + timedelta(hours=1)


class Facts:
    """Tickets, runs, scopes and the disk in one; counts how often a run was looked at, and nothing ever changes."""

    version = 1

    def __init__(self) -> None:
        self.runs: dict[str, RunFacts] = {}
        self.asked: list[str] = []

    def genuine(self, text: str) -> Ticket:
        run = text.partition(" ")[2]
        return Ticket(
            WHO.scope_id, WHO.key_id, False, run, self._of(run).run_uid, frozenset(), RunLimits(), ScopeLimits(),
            1, LATER, LATER,
        )  # fmt: skip

    async def view(self, key: Any) -> RunFacts:
        self.asked.append(key.run)
        return self._of(key.run)

    async def get(self, _: UUID) -> "Facts":
        return self

    def settled(self, asked: Any) -> Any:
        return self if asked == WHO.scope_id else self._of(asked.run)

    async def decide(self) -> Any:
        return ALLOW

    def _of(self, run: str) -> RunFacts:
        facts = RunFacts(RunUid(uuid4()), "open", LATER, frozenset(), WHO.key_id, False)
        return self.runs.setdefault(run, facts)


@pytest.mark.asyncio
async def test_the_oldest_decisions_make_room_and_those_in_use_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_REMEMBERED", 3)
    facts: Any = Facts()
    guard = Admission(facts, facts, facts, facts, facts)

    async def ask(*runs: str) -> list[str]:
        facts.asked.clear()
        for run in runs:
            assert (await guard.sender(WHO, run, f"ticket {run}")).key.run == run
        return list(facts.asked)

    assert await ask("a", "b", "c", "a") == ["a", "b", "c"]
    assert await ask("d") == ["d"]
    assert await ask("b", "c", "d") == []
    assert await ask("a") == ["a"]
