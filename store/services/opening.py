"""Letting the queue know a run as the database has it: when it is declared, and when the queue knows it no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from policies.kinds import Mode, RunState
from store.db import Connection
from store.keyring import Keyring
from store.queue import Belonging, Queue, RunKey
from store.services import sizes
from store.services.declaring import queue_state, refusal
from store.services.scopes import Scope
from store.tables import runs, sessions
from store.tables.runs import CapturedPart, RunRow


@dataclass(frozen=True, slots=True)
class Held:
    """What the database holds of a run: its parts, and the last numbers that its sessions announced at its end."""

    taken: Sequence[CapturedPart] = ()
    announced: Mapping[str, int] = field(default_factory=dict)


async def held_of(connection: Connection, scope: UUID, row: RunRow) -> Held:
    """Read it, with the row's own transaction."""
    taken = await runs.captured(connection, scope, row.run_uid)
    return Held(taken, await announced_of(connection, scope, row))


async def announced_of(connection: Connection, scope: UUID, row: RunRow) -> Mapping[str, int]:
    """Read the last numbers that a closing announced; none where the run is not closing."""
    if row.state is not RunState.CLOSING:
        return {}
    named = await sessions.of_run(connection, scope, row.run_uid)
    return {session: last for session, last in named.items() if last is not None}


def belonging_of(row: RunRow) -> Belonging:
    """Return whose a run is, and what all of it depends on."""
    return Belonging(row.owner_key, row.shared, row.sources)


@dataclass(frozen=True, slots=True)
class RunOpening:
    """Opens runs in the queue; one that is closing takes what was announced for `closing` from when that began."""

    queue: Queue
    keyring: Keyring
    closing: timedelta

    async def open(self, key: RunKey, scope: Scope, row: RunRow, held: Held) -> None:
        """Make the queue know it, unless it does."""
        until = None
        if row.state is RunState.CLOSING and row.closing_at is not None:
            until = row.closing_at + self.closing
        await self.queue.open_run(
            key,
            run_uid=row.run_uid,
            state=queue_state(row),
            policy_version=row.policy_version,
            retain_until=row.standing.retain_until,
            temporary=row.standing.mode is Mode.TEMPORARY,
            run_limits=scope.policy.run_limits,
            scope_limits=scope.policy.scope_limits,
            belonging=belonging_of(row),
            captured_parts=len(held.taken),
            # One that takes nothing more needs no sum, which would tell how long its content was.
            captured_bytes=self._bytes_of(held.taken) if refusal(row) is None else 0,
            stored=[(part.exchange, part.attempt, part.kind, part.evidence) for part in held.taken],
            refresh_limits=True,
            closing_until=until,
            announced=held.announced,
        )

    async def close(self, key: RunKey, row: RunRow, announced: Mapping[str, int]) -> None:
        """Tell the queue that a run is closing, if it is, and what may still come."""
        if row.state is RunState.CLOSING and row.closing_at is not None:
            await self.queue.close_run(key, announced, row.closing_at + self.closing)

    def _bytes_of(self, taken: Sequence[CapturedPart]) -> int:
        lookup = self.keyring.token_key("lookup")
        return sum(sizes.exact(lookup, part.evidence, part.exact_bytes) for part in taken)
