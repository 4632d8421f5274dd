"""A store with a log, and its console: what tests of proofs, accesses and exports walk through.

async with hall(url, redis_url, place) as opened:
    run, evidence = await opened.part(b"content")
    await opened.desk.publish()
    browser = await opened.enter(Role.REVIEWER)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from policies.kinds import Role
from store.ids import ScopeId
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console
from tests.support.exporting import ORIGIN, Desk, office
from tests.support.factories import Run

SIGNED_IN = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class Hall:
    """Both over the same database."""

    desk: Desk
    running: Running

    async def enter(self, role: Role, scope: UUID | None = None) -> Browser:
        """Sign in with a new key, of the house's scope unless another is named; an operator says a purpose."""
        browser = await self.running.signed_in(role, ScopeId(scope or self.desk.shelf.house.scope))
        if role is Role.OPERATOR:
            await browser.post("/session/purpose", "/session", purpose="a look")
        return browser

    async def part(self, content: bytes = b"what was given", **facts: Any) -> tuple[str, UUID]:
        """Store one part in a run of its own."""
        run = await self.desk.shelf.house.declare()
        return run.run, await self.desk.shelf.store(run, content, **facts)

    async def tell(self, run: str, *told: dict[str, Any]) -> None:
        """Tell facts of a run's tools."""
        shelf = self.desk.shelf
        (row,) = await shelf.house.rows(
            "SELECT scope_id, run_uid, retain_until FROM runs WHERE run = $1", run
        )
        of = Run(row["scope_id"], run, row["run_uid"], row["retain_until"])
        await shelf.persist([shelf.house.fact(of, each) for each in told])

    async def read(self, evidence: UUID, purpose: str, role: Role = Role.REVIEWER) -> None:
        """Read a part over the api, or be refused; either is recorded."""
        key = await self.desk.shelf.key(role)
        await self.desk.shelf.get(f"/v1/parts/{evidence}/content", {**key, "Custody-Purpose": purpose})


@asynccontextmanager
async def hall(url: str, redis_url: str, place: Path) -> AsyncIterator[Hall]:
    """Open one."""
    (place / "keys").mkdir(mode=0o700)
    async with (
        office(url, redis_url, place / "keys", place) as desk,
        console(settings_for(url, redis_url, place / "keys", log_origin=ORIGIN)) as running,
    ):
        yield Hall(desk, running)
