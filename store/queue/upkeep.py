"""What duties and health ask of the queue: how much waits, whether it was lost, and its repair."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from redis import exceptions

from store.ids import secret
from store.queue.connection import CALL_S, Links, translated
from store.queue.frames import Depth
from store.queue.keys import ShardKeys
from store.queue.scripts import ANEW, DEPTH, RECOUNT

_EPOCH_BYTES: Final = 16
_SCAN: Final = 1000
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

    async def depth(self) -> list[Depth]:
        """Say how much waits."""
        return [await self._depth(shard) for shard in self._keys]

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
            await (self._client.bgrewriteaof() if aof else self._client.bgsave())
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
