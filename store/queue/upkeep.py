"""What duties and health ask of the queue: how much waits, whether it was lost, and its repair."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from redis import exceptions

from store.ids import secret
from store.queue.connection import CALL_S, Links, translated
from store.queue.frames import Depth, SealedBy
from store.queue.keys import RunKey, ShardKeys, shard_of
from store.queue.scripts import ANEW, DEPTH, IDLE, RECOUNT, SEALED, WAITS

_EPOCH_BYTES: Final = 16
_SCAN: Final = 1000
# From so many keys on their memory counts: a run's is some kilobytes.
_MANY: Final = 20_000
# So many pages of keys are gone through at a time: fifty thousand.
_PAGES: Final = 50
# So many of a shard's oldest entries are looked at, with their bodies: the server serves nobody else meanwhile.
_OLDEST: Final = 256
_QUESTIONS: Final = 512
# A file of the queue's largest size takes seconds; a disk that takes longer is out of order.
_REWRITE_S: Final = 120.0
_LOOK_S: Final = 0.02
# What tells that the file is being written, and how the last time ended.
_AOF: Final = (("aof_rewrite_in_progress", "aof_rewrite_scheduled"), "aof_last_bgrewrite_status")
_RDB: Final = (("rdb_bgsave_in_progress",), "rdb_last_bgsave_status")


class Upkeep:
    """Asks every shard."""

    def __init__(self, links: Links, keys: Mapping[int, ShardKeys]) -> None:
        self._client = links.calls
        # Reading a whole stream can take longer than other calls may.
        self._patient = links.readers
        self._keys = keys
        # Where going through the keys goes on; a process that begins anew begins with the first.
        self._scanned = dict.fromkeys(keys, 0)

    async def depth(self) -> list[Depth]:
        """Say how much waits."""
        return [await self._depth(shard) for shard in self._keys]

    async def runs_wait_s(self, keys: Sequence[RunKey]) -> Mapping[RunKey, float]:
        """Say for how long each run's oldest entry has waited."""
        of_shard: dict[int, list[RunKey]] = {}
        for key in dict.fromkeys(keys):
            of_shard.setdefault(shard_of(key, len(self._keys)), []).append(key)
        found: dict[RunKey, float] = {}
        for shard, some in of_shard.items():
            found.update(zip(some, await self._waits_s(shard, some), strict=True))
        return found

    async def scopes_wait_s(self, scopes: Sequence[UUID]) -> Mapping[UUID, float]:
        """Say for how long each scope's oldest entry in any shard has waited."""
        asked = [RunKey(scope, "") for scope in dict.fromkeys(scopes)]
        shards = [await self._waits_s(shard, asked) for shard in self._keys]
        return {key.scope: max(waits) for key, *waits in zip(asked, *shards, strict=True)}

    async def _waits_s(self, shard: int, keys: Sequence[RunKey]) -> list[float]:
        """Ask one shard; a run without a name is the whole scope."""
        names, found = self._keys[shard], list[float]()
        with translated():
            for some in (keys[at : at + _QUESTIONS] for at in range(0, len(keys), _QUESTIONS)):
                scopes = [names.scope(key.scope) for key in some]
                async with asyncio.timeout(CALL_S):
                    waits = await WAITS.run(
                        self._client, [names.entries, *scopes], [_OLDEST, *(key.run for key in some)]
                    )
                found += [wait / 1000 for wait in waits]
        return found

    async def sealed_by(self, waited: timedelta) -> SealedBy:
        """Say which intake keys sealed what has waited for so long, over all shards."""
        ages_s, unseen_s, least_ms = dict[bytes, float](), 0.0, waited // timedelta(milliseconds=1)
        with translated():
            for names in self._keys.values():
                async with asyncio.timeout(CALL_S):
                    keys, ages, last = await SEALED.run(self._client, [names.entries], [least_ms, _OLDEST])
                for key, age in zip(keys, ages, strict=True):
                    ages_s[key] = max(ages_s.get(key, 0.0), age / 1000)
                unseen_s = max(unseen_s, last / 1000)
        return SealedBy(ages_s, unseen_s or None)

    async def outcomes(self) -> Mapping[str, int]:
        """Count outcomes over all shards."""
        total: Counter[str] = Counter()
        with translated():
            async with asyncio.timeout(CALL_S):
                for keys in self._keys.values():
                    counts = await self._client.execute_command("HGETALL", keys.outcomes)
                    total.update({word.decode(): int(times) for word, times in counts.items()})
        return total

    async def epochs(self) -> Mapping[int, str | None]:
        """Read the epoch of every shard."""
        with translated():
            async with asyncio.timeout(CALL_S):
                found = {shard: await self._client.get(keys.epoch) for shard, keys in self._keys.items()}
        return {shard: None if epoch is None else epoch.decode() for shard, epoch in found.items()}

    async def ensure_epoch(self, shard: int) -> str:
        """Begin an epoch unless there is one; of two that begin at once, one wins for both."""
        key = self._keys[shard].epoch
        with translated():
            async with asyncio.timeout(CALL_S):
                await self._client.set(key, secret(_EPOCH_BYTES).hex(), nx=True)
                epoch = await self._client.get(key)
        return str(epoch.decode())

    async def begin_anew(self, shard: int) -> str:
        """Begin another epoch, then forget what is known of runs, but for how narrow they are."""
        keys, epoch = self._keys[shard], secret(_EPOCH_BYTES).hex()
        with translated():
            async with asyncio.timeout(CALL_S):
                await self._client.set(keys.epoch, epoch)
            runs = await self._matching(f"{keys.prefix}run:*")
            for some in (runs[at : at + _SCAN] for at in range(0, len(runs), _SCAN)):
                await ANEW.run(self._patient, some, [])
        await self.recount(shard)
        return epoch

    async def recount(self, shard: int) -> int:
        """Repair a shard. What comes up while its keys are listed is right by itself: scripts made it."""
        keys = self._keys[shard]
        with translated():
            scopes = await self._matching(f"{keys.prefix}scope:*")
            runs = await self._matching(f"{keys.prefix}run:*")
            named = [keys.entries, keys.pending, *scopes, *runs]
            return int(await RECOUNT.run(self._patient, named, [keys.prefix, len(scopes)]))

    async def forget_idle(self, idle: timedelta, crowded: timedelta) -> int:
        """Forget runs that nobody asked about for so long and of which nothing waits, among some of all there are."""
        with translated():
            async with asyncio.timeout(CALL_S):
                many = await self._client.dbsize() > _MANY
        return sum([await self._forget_idle(shard, crowded if many else idle) for shard in self._keys])

    async def _forget_idle(self, shard: int, idle: timedelta) -> int:
        names, gone = self._keys[shard], 0
        with translated():
            for _ in range(_PAGES):
                async with asyncio.timeout(CALL_S):
                    at, found = await self._client.scan(
                        self._scanned[shard], match=f"{names.prefix}run:*", count=_SCAN
                    )
                    keys = [key for run in found for key in (run.decode(), names.scope_of(run.decode()))]
                    gone += await IDLE.run(self._client, keys, [int(idle.total_seconds())]) if keys else 0
                self._scanned[shard] = int(at)
                if not self._scanned[shard]:
                    break
        return gone

    async def rewrite_file(self) -> None:
        """Have the file that the server keeps written anew and wait for it: it then holds nothing settled before.

        A rewriting under way began earlier, so that it is waited for and another one begun. Where the server keeps
        snapshots and no append-only file, that is a snapshot.
        """
        with translated():
            async with asyncio.timeout(_REWRITE_S):
                begun = False
                while True:
                    facts = await self._client.info("persistence")
                    aof = bool(facts.get("aof_enabled"))
                    busy, status = _AOF if aof else _RDB
                    if any(facts.get(name) for name in busy):
                        await asyncio.sleep(_LOOK_S)
                    elif not begun:
                        begun = await self._begin_rewriting(aof=aof)
                    elif facts.get(status) == "ok":
                        return
                    else:
                        raise exceptions.ResponseError("the file could not be written")

    async def _begin_rewriting(self, *, aof: bool) -> bool:
        try:
            await self._client.execute_command("BGREWRITEAOF" if aof else "BGSAVE")
        except exceptions.ResponseError as fault:
            if "in progress" not in str(fault):
                raise
            return False
        return True

    async def _depth(self, shard: int) -> Depth:
        keys = self._keys[shard]
        with translated():
            async with asyncio.timeout(CALL_S):
                parts, size, notes, length, age_ms = await DEPTH.run(
                    self._client, [keys.entries, keys.pending], []
                )
        return Depth(shard, parts, size, notes, age_ms / 1000, length)

    async def _matching(self, pattern: str) -> list[str]:
        found = self._client.scan_iter(match=pattern, count=_SCAN)
        return sorted({key.decode() async for key in found})
