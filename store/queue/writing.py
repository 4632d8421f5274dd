"""What writers do with the stream: take, take over, settle."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from redis import exceptions

from store.logging import logger
from store.queue.connection import BLOCK_S, CALL_S, Links, translated
from store.queue.entries import Entry, read
from store.queue.frames import Settlement
from store.queue.keys import GROUP, RunKey, ShardKeys, identity_field
from store.queue.scripts import ALONE, LEAVE, RECLAIM, SETTLE, answer_to, packed

_START: Final = b"0-0"
_NO_GROUP: Final = "NOGROUP"
# A script keeps everybody else waiting, and can unpack so many arguments.
_SETTLED_AT_ONCE: Final = 512
# What became of an entry that was tried alone is known long before; this is for one that somebody took out.
_ALONE_MS: Final = 86_400_000


class Writing:
    """Delivers entries to writers and ends them."""

    def __init__(self, links: Links, keys: Mapping[int, ShardKeys]) -> None:
        self._links = links
        self._keys = keys
        self._reclaim_from = dict.fromkeys(keys, _START)

    async def take(self, shard: int, consumer: str, count: int, block_ms: int) -> list[Entry]:
        """Deliver entries that nobody has had."""
        block = min(block_ms, int(BLOCK_S * 1000))
        with translated():
            try:
                answer = await self._read_group(shard, consumer, count, block)
            except exceptions.ResponseError as fault:
                await self._make_group(shard, fault)
                answer = await self._read_group(shard, consumer, count, block)
        if not answer:
            return []
        return self._entries(answer[0][1], {})

    async def reclaim(self, shard: int, consumer: str, idle_ms: int, count: int) -> tuple[list[Entry], int]:
        """Take over what lies idle, going on where the last call stopped; also say how many had vanished."""
        arguments = [GROUP, consumer, idle_ms, self._reclaim_from[shard], count]
        with translated():
            try:
                answer = await self._script_reclaim(shard, arguments)
            except exceptions.ResponseError as fault:
                await self._make_group(shard, fault)
                return [], 0
        self._reclaim_from[shard], entries, deliveries, vanished = answer
        held = [entry for entry in entries if entry is not None and entry[1] is not None]
        times = {
            entry[0]: often for entry, often in zip(entries, deliveries, strict=True) if entry is not None
        }
        return self._entries(held, times), int(vanished) + len(entries) - len(held)

    async def settle(self, shard: int, settlements: Sequence[Settlement]) -> list[bool]:
        """End entries, so many in one call as may keep others waiting."""
        found: list[bool] = []
        for at in range(0, len(settlements), _SETTLED_AT_ONCE):
            found += await self._settle_some(shard, settlements[at : at + _SETTLED_AT_ONCE])
        return found

    async def excuse(self, shard: int, consumer: str, entry_ids: Sequence[str]) -> None:
        """Count deliveries from one again. What was settled meanwhile stays settled."""
        if not entry_ids:
            return
        with translated():
            async with asyncio.timeout(CALL_S):
                await self._links.calls.xclaim(
                    self._keys[shard].entries, GROUP, consumer, 0, list(entry_ids), retrycount=1, justid=True
                )

    async def begin_alone(self, shard: int, entry_id: str, grace_ms: int) -> int | None:
        """Remember durably that an entry is tried alone."""
        arguments = [entry_id, grace_ms, max(_ALONE_MS, 2 * grace_ms)]
        with translated():
            async with asyncio.timeout(CALL_S):
                deaths = int(await ALONE.run(self._links.calls, [self._keys[shard].alone], arguments))
        return None if deaths < 0 else deaths

    async def end_alone(self, shard: int, entry_id: str) -> None:
        """Forget it: the writer is still there."""
        with translated():
            async with asyncio.timeout(CALL_S):
                await self._links.calls.execute_command("HDEL", self._keys[shard].alone, entry_id)

    async def leave(self, shard: int, consumer: str) -> bool:
        """Take a consumer that holds nothing off the list."""
        with translated():
            try:
                return bool(
                    await LEAVE.run(self._links.calls, [self._keys[shard].entries], [GROUP, consumer])
                )
            except exceptions.ResponseError as fault:
                await self._make_group(shard, fault)
                return True

    async def _settle_some(self, shard: int, settlements: Sequence[Settlement]) -> list[bool]:
        keys, arguments, places = _settle_call(self._keys[shard], settlements)
        with translated():
            async with asyncio.timeout(CALL_S):
                answers = await SETTLE.run(self._links.calls, keys, arguments)
        found = dict(zip(places, answers, strict=True))
        return [found[place] == 1 for place in range(len(settlements))]

    def _entries(self, delivered: Iterable[Any], deliveries: Mapping[bytes, int]) -> list[Entry]:
        """Read what was delivered; what a newer version wrote stays pending, for a newer writer to take over."""
        entries, left = [], 0
        for entry_id, fields in delivered:
            pairs = dict(zip(fields[::2], fields[1::2], strict=True))
            entry = read(entry_id, pairs, deliveries.get(entry_id, 1))
            if entry is None:
                left += 1
            else:
                entries.append(entry)
        if left:
            # Without a newer writer they wait for ever: somebody must hear of it.
            logger().warning("entries_left_to_a_newer_writer", count=left)
        return entries

    async def _read_group(self, shard: int, consumer: str, count: int, block_ms: int) -> Any:
        stream = self._keys[shard].entries
        block = ("BLOCK", block_ms) if block_ms > 0 else ()
        command = ("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, *block, "STREAMS", stream, ">")
        # As it comes: making the answer over costs more than to read it.
        return await answer_to(self._links.readers, packed(command))

    async def _script_reclaim(self, shard: int, arguments: Sequence[Any]) -> Any:
        async with asyncio.timeout(CALL_S):
            return await RECLAIM.run(self._links.calls, [self._keys[shard].entries], arguments)

    async def _make_group(self, shard: int, fault: exceptions.ResponseError) -> None:
        """Make the group where there is none, from the first entry on: what is there, nobody has had."""
        if not str(fault).startswith(_NO_GROUP):
            raise fault
        try:
            await self._links.calls.xgroup_create(self._keys[shard].entries, GROUP, id="0", mkstream=True)
        except exceptions.ResponseError as exists:
            if not str(exists).startswith("BUSYGROUP"):
                raise


def _settle_call(
    shard: ShardKeys, settlements: Sequence[Settlement]
) -> tuple[list[str], list[Any], list[int]]:
    """Return keys and arguments of the script, and which settlement each of its answers is for."""
    runs: dict[RunKey, int] = {}
    keys = [shard.entries, shard.pending, shard.outcomes]
    alike: dict[tuple[int, bool, str, str], tuple[list[int], list[Any]]] = {}
    for place, settlement in enumerate(settlements):
        key = settlement.key
        run = runs.get(key)
        if run is None:
            run = runs[key] = len(runs) + 1
            keys += (shard.run(key), shard.scope(key.scope))
        what = (run, settlement.evidence is not None, settlement.outcome, settlement.reason or "")
        places, told = alike.get(what) or alike.setdefault(what, ([], []))
        places.append(place)
        told += _told(settlement)
    arguments: list[Any] = [GROUP, shard.settled, len(runs), *(key.run for key in runs)]
    for (run, part, outcome, reason), (places, told) in alike.items():
        arguments += (run, "part" if part else "note", outcome, reason, len(places), *told)
    return keys, arguments, [place for places, _ in alike.values() for place in places]


def _told(settlement: Settlement) -> tuple[Any, ...]:
    if settlement.evidence is None:
        return (settlement.entry_id,)
    field = identity_field(settlement.exchange, settlement.attempt, settlement.kind)
    return (settlement.entry_id, field, settlement.evidence.hex(), settlement.sealed_bytes)
