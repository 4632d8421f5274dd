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
from store.queue.scripts import DEPTH, RECOUNT

_EPOCH_BYTES: Final = 16
_SCAN: Final = 1000


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

    async def recount(self, shard: int) -> int:
        """Repair a shard. What comes up while its keys are listed is right by itself: scripts made it."""
        keys = self._keys[shard]
        with translated():
            scopes = await self._matching(f"{keys.prefix}scope:*")
            runs = await self._matching(f"{keys.prefix}run:*")
            named = [keys.entries, keys.pending, *scopes, *runs]
            return int(await RECOUNT.run(self._patient, named, [keys.prefix, len(scopes)]))

    async def rewrite_file(self) -> None:
        """Have the append-only file rewritten; one that is being rewritten already is begun again after it."""
        with translated():
            async with asyncio.timeout(CALL_S):
                try:
                    await self._client.bgrewriteaof()
                except exceptions.ResponseError as fault:
                    if "already in progress" not in str(fault):
                        raise

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
