"""The write queue as the rest of the service sees it. Nobody else speaks to its Redis."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self
from uuid import UUID

from policies.limits import RunLimits, ScopeLimits, ShardLimits
from store.queue.appends import Appends
from store.queue.connection import Links, faults_of
from store.queue.entries import Entry
from store.queue.frames import Answer, Belonging, Depth, Frame, RunView, SealedBy, Settled, Settlement
from store.queue.keys import RunKey, all_shards
from store.queue.runs import Opening, Runs
from store.queue.upkeep import Upkeep
from store.queue.views import Views
from store.queue.waiters import Waiters
from store.queue.writing import Writing

if TYPE_CHECKING:
    from store.config import Settings


class Queue:
    """Shards of streams, and the reservations for what lies in them.

    Every method raises `Unavailable(queue_unavailable)` where Redis does not do its part, and never waits for long.
    """

    def __init__(self, url: str, *, shards: int, shard_limits: ShardLimits, waiters: int = 256) -> None:
        """Prepare for the server at `url`; it is connected to when first used, so a start needs no server."""
        self._links = Links.to(url, shards)
        keys = all_shards(shards)
        self.shards: Sequence[int] = tuple(keys)
        self._runs = Runs(self._links.calls, keys)
        self._views = Views(self._links.calls, keys)
        self._appends = Appends(self._links.appends, keys, shard_limits)
        self._writing = Writing(self._links, keys)
        self._upkeep = Upkeep(self._links, keys)
        self._waiters = Waiters(self._links, waiters)

    @classmethod
    def open(cls, settings: "Settings") -> Self:
        """Prepare for the server that the settings name."""
        if settings.redis_url is None:
            raise ValueError("the queue needs an address: CUSTODY_REDIS_URL is not set")
        return cls(
            settings.redis_url.reveal(),
            shards=settings.queue_shards,
            shard_limits=settings.shard_limits(),
            waiters=settings.waiters,
        )

    async def close(self) -> None:
        """Let calls under way end, then close every connection."""
        await self._appends.close()
        await self._views.close()
        await self._waiters.close()
        await self._links.close()

    async def check(self) -> list[str]:
        """Say in words what of the server does not suit; an empty list means that all is well."""
        return await faults_of(self._links)

    # --- runs

    async def open_run(  # noqa: PLR0913 - the facts of a run, each by its name
        self,
        key: RunKey,
        *,
        run_uid: UUID,
        state: str,
        policy_version: int,
        retain_until: datetime,
        temporary: bool,
        run_limits: RunLimits,
        scope_limits: ScopeLimits,
        belonging: Belonging | None = None,
        captured_parts: int = 0,
        captured_bytes: int = 0,
        stored: Iterable[tuple[str, str, str, UUID]] = (),
        refresh_limits: bool = False,
        closing_until: datetime | None = None,
        announced: Mapping[str, int] | None = None,
    ) -> None:
        """Let the queue know a run, if it does not; what waits of it is counted from the stream.

        A run that it knows is only ever narrowed by this, and with `refresh_limits` takes over the limits of a newer
        policy version. `stored` are the identities (exchange, attempt, kind, evidence) that the database holds; until
        `closing_until` a run that is closing takes what its sessions have `announced`.
        """
        facts = Opening(
            run_uid=run_uid, state=state, policy_version=policy_version, retain_until=retain_until,
            temporary=temporary, run_limits=run_limits, scope_limits=scope_limits, belonging=belonging,
            captured_parts=captured_parts, captured_bytes=captured_bytes, stored=stored, refresh_limits=refresh_limits,
            closing_until=closing_until, announced=announced or {},
        )  # fmt: skip
        await self._runs.open(key, facts)

    async def narrow_run(
        self, key: RunKey, *, state: str | None = None, retain_until: datetime | None = None
    ) -> None:
        """Lower a run, at once and for every process; never raises it. `state` is a reason's word."""
        await self._runs.narrow(key, state, retain_until)

    async def close_run(self, key: RunKey, sessions: Mapping[str, int], until: datetime) -> bool:
        """From now on take only what the sessions announced, and that until `until`; False if the run is not known."""
        return await self._runs.close(key, sessions, until)

    async def forget_run(self, key: RunKey) -> bool:
        """Drop a run of which nothing waits; False if something does."""
        return await self._runs.forget(key)

    async def run_view(self, key: RunKey) -> RunView | None:
        """Return the run as the queue knows it."""
        return await self._views.view(key)

    async def identity(self, key: RunKey, exchange: str, attempt: str, kind: str) -> Answer | None:
        """Return `exists`, pending or stored, or None if the queue knows of no such part."""
        return await self._runs.identity(key, exchange, attempt, kind)

    async def pending_identities(self, key: RunKey) -> list[tuple[str, str, str, UUID]]:
        """List what waits of a run, as (exchange, attempt, kind, evidence), in no order."""
        return await self._runs.pending(key)

    # --- runtimes

    async def append(self, frames: Sequence[Frame]) -> list[Answer]:
        """Queue what fits, and say of each frame what became of it, in order.

        Raises Unavailable if none of them got an answer; of many frames, those without one are `refused` with the
        outage's reason. Sending any of them again is harmless.
        """
        return await self._appends.append(frames)

    async def wait_settled(self, evidence: UUID, timeout_s: float) -> Settled | None:
        """Wait until a part is settled; None if it was not in time, or too many wait already."""
        return await self._waiters.wait(evidence, timeout_s)

    def on_narrowed(self, heard: Callable[[RunKey], None]) -> None:
        """Call `heard` for each run that any process narrows or closes; a copy of it is then out of date."""
        self._waiters.on_narrowed(heard)

    # --- writers

    async def take(self, shard: int, consumer: str, count: int, block_ms: int) -> list[Entry]:
        """Take up to `count` entries that nobody has, waiting up to `block_ms` (at most 5,000) for the first."""
        return await self._writing.take(shard, consumer, count, block_ms)

    async def reclaim(self, shard: int, consumer: str, idle_ms: int, count: int) -> list[Entry]:
        """Take over entries whose writer has not settled them for `idle_ms`; they say how often they were delivered."""
        entries, vanished = await self._writing.reclaim(shard, consumer, idle_ms, count)
        if vanished:
            # Somebody took entries out behind our back: what was reserved for them would never be given back.
            await self._upkeep.recount(shard)
        return entries

    async def settle(self, shard: int, settlements: Sequence[Settlement]) -> list[bool]:
        """End entries and give back what was reserved; False where another writer had already done so."""
        return await self._writing.settle(shard, settlements)

    async def excuse(self, shard: int, consumer: str, entry_ids: Sequence[str]) -> None:
        """Leave entries pending through no fault of theirs: their deliveries count from one again, their idle time too.

        Otherwise an outage, or a bucket that comes late, would look like entries that writers die of.
        """
        await self._writing.excuse(shard, consumer, entry_ids)

    async def begin_alone(self, shard: int, entry_id: str, grace: timedelta) -> int | None:
        """Remember that a writer tries an entry alone; None, and nothing is remembered, while another one does.

        Returns how many tries before never ended: begun longer than `grace` ago, which no writer takes that lives.
        """
        return await self._writing.begin_alone(shard, entry_id, int(grace.total_seconds() * 1000))

    async def end_alone(self, shard: int, entry_id: str) -> None:
        """Say that the writer outlived it, whatever became of the entry."""
        await self._writing.end_alone(shard, entry_id)

    async def leave(self, shard: int, consumer: str) -> bool:
        """Take a consumer's name off the list; False (and nothing done) while it still holds entries."""
        return await self._writing.leave(shard, consumer)

    # --- upkeep

    async def depth(self) -> list[Depth]:
        """Say how much waits in each shard."""
        return await self._upkeep.depth()

    async def runs_wait_s(self, keys: Sequence[RunKey]) -> Mapping[RunKey, float]:
        """Say for how long the oldest entry of each run has waited, or a little longer; 0 where nothing of it waits."""
        return await self._upkeep.runs_wait_s(keys)

    async def scopes_wait_s(self, scopes: Sequence[UUID]) -> Mapping[UUID, float]:
        """Say the same of all runs of a scope together."""
        return await self._upkeep.scopes_wait_s(scopes)

    async def sealed_by(self, waited: timedelta) -> SealedBy:
        """Say which intake keys sealed what has waited for so long or longer."""
        return await self._upkeep.sealed_by(waited)

    async def outcomes(self) -> Mapping[str, int]:
        """Count `stored` and each reason, over all shards, since the queue began."""
        return await self._upkeep.outcomes()

    async def recount(self, shard: int) -> int:
        """Make all reservations say what the stream holds; return how many were wrong."""
        return await self._upkeep.recount(shard)

    async def epochs(self) -> Mapping[int, str | None]:
        """Return the epoch of each shard; None, or another than before, means that the shard was lost."""
        return await self._upkeep.epochs()

    async def ensure_epoch(self, shard: int) -> str:
        """Return a shard's epoch, beginning one where there is none."""
        return await self._upkeep.ensure_epoch(shard)

    async def begin_anew(self, shard: int) -> str:
        """Begin another epoch of a shard and forget what it knows of runs, but for how narrow they are; return it."""
        return await self._upkeep.begin_anew(shard)

    async def forget_idle(self, idle: timedelta, crowded: timedelta) -> int:
        """Forget runs that nobody asked about for so long and of which nothing waits; return how many.

        With very many keys `crowded` is long enough. However many there are, only some are looked at, and the next
        call goes on. They are opened when asked for again.
        """
        return await self._upkeep.forget_idle(idle, crowded)

    async def rewrite_file(self) -> None:
        """Have the append-only file written anew and wait for it: it then holds nothing that was settled before."""
        await self._upkeep.rewrite_file()
