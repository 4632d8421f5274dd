"""Bringing back the log beyond a backup: entries and tiles from the mirror, whose checkpoint vouches for them.

The mirror has leaves, and not whose they are: that follows from the buckets, runs, holds and sources that the database
knows, and from the names of bucket keys. What nobody knows gets the scope of nulls.
"""

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final
from uuid import UUID

import msgspec

from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import Corrupt
from store.keyring import Keyring
from store.log_tree import tiles
from store.log_tree.facts import facts
from store.log_tree.hashes import leaf_hash
from store.log_tree.tiles import OpenTiles, Tile
from store.mirror import Mirror
from store.services import sequencing
from store.services.mirrored import Held
from store.tables import log, publishing, restores
from store.tables.log import NewEntry, State
from store.tables.operator_actions import STORE_WIDE
from store.tables.restores import RestoreRow

# Sixteen bundles: as many leaves as the sequencer takes at once.
_BUNDLES: Final = 16

_OF: Final = re.compile(rb'"of":[0-9]+')


class Said(msgspec.Struct, frozen=True, gc=False):
    """What a replay needs of a leaf, under the leaf's own names; None where its kind has no such field."""

    k: str
    t: int = 0
    b: UUID | None = None
    c: bytes = b""
    h: UUID | None = None
    op: str | None = None
    p: UUID | None = None
    r: UUID | None = None
    si: UUID | None = None
    sk: str | None = None
    sv: int | None = None
    w: str | None = None


said: Final = msgspec.json.Decoder(Said).decode


def leaves_beyond(mirror: Mirror, first: int, end: int) -> Iterator[list[bytes]]:
    """Yield the mirror's leaves from one index to before another, a bundle at a time; Corrupt where one is missing."""
    for number in range(first // tiles.WIDTH, -(-end // tiles.WIDTH)):
        width = min(tiles.WIDTH, end - number * tiles.WIDTH)
        found = mirror.read(Tile(None, number, width))
        try:
            entries = tiles.parse_bundle(b"" if found is None else found)
        except ValueError:
            entries = []
        if len(entries) != width:
            raise Corrupt(
                Reason.INTEGRITY_MISMATCH, f"the mirror is damaged: {Tile(None, number, width).path}"
            )
        yield entries[max(0, first - number * tiles.WIDTH) :]


def unplaced(leaf: bytes) -> bytes:
    """Return a leaf as it waits for its place: a purge leaf knows then which part's leaf it is about by its index."""
    return _OF.sub(b'"of":null', leaf)


def grows_into(mirror: Mirror, state: State, held: Held) -> bool:
    """Say whether the database's tree, grown by the mirror's leaves beyond it, is the mirror's tree."""
    tree = OpenTiles(state.size, state.open_tiles)
    for entries in leaves_beyond(mirror, state.size, held.size):
        tree.append([leaf_hash(each) for each in entries])
    return tree.edge().root() == held.root


async def copy_log(
    database: Database, keyring: Keyring, mirror: Mirror, held: Held, restore: RestoreRow
) -> tuple[int, int]:
    """Append what is missing, in batches; return how many leaves came back, and how many waited in the queue."""
    buckets = {bucket: scope for scope, bucket in await asyncio.to_thread(keyring.bucket_keys)}
    async with database.connection() as connection:
        buckets |= await restores.bucket_scopes(connection)
        start = (await log.state(connection)).size
    copied, placed = 0, 0
    bundles = leaves_beyond(mirror, start, held.size)
    while leaves := list(chain.from_iterable(islice(bundles, _BUNDLES))):
        async with database.transaction() as connection:
            state = await log.lock_state(connection)
            if state.size != start + copied:
                raise Corrupt(Reason.INTEGRITY_MISMATCH, "the log grew while it was restored")
            entries = await _entries(connection, leaves, state.size, buckets)
            await sequencing.append(connection, sequencing.tree_of(state), entries)
            queued = [unplaced(leaf) for leaf in leaves]
            placed += await restores.placed_already(connection, restore.queued_until, queued)
        copied += len(leaves)
    await _vouched_for(database, held)
    return copied, placed


async def _vouched_for(database: Database, held: Held) -> None:
    async with database.transaction() as connection:
        state = await log.lock_state(connection)
        if (state.size, state.root) != (held.size, held.root) or held.note is None:
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "what came back is not what the checkpoint vouches for")
        if await publishing.keep_checkpoint(connection, held.size, held.note) != held.note:
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "another checkpoint of this size was signed")
        await restores.published(connection, held.size)


async def _entries(
    connection: Connection, leaves: Sequence[bytes], first: int, buckets: Mapping[UUID, UUID]
) -> list[NewEntry]:
    told = [said(leaf) for leaf in leaves]
    whose = await _Owners.of(connection, told, buckets)
    return [
        (index, whose.scope(each), each.k, facts(leaf).subject, leaf)
        for index, (leaf, each) in enumerate(zip(leaves, told, strict=True), first)
    ]


class _Owners:
    """Whose some leaves are."""

    def __init__(self, known: Mapping[str, Mapping[UUID, UUID]]) -> None:
        self._known = known

    @classmethod
    async def of(
        cls, connection: Connection, told: Collection[Said], buckets: Mapping[UUID, UUID]
    ) -> "_Owners":
        """Look up what is not said by the leaves themselves."""
        wanted: dict[str, set[UUID]] = {}
        for each in told:
            what, subject = _about(each)
            if subject is not None:
                wanted.setdefault(what, set()).add(subject)
        # A part whose leaf comes with these is not in the log yet.
        stored = {
            each.p: buckets[each.b]
            for each in told
            if each.k == "part" and each.p is not None and each.b is not None and each.b in buckets
        }
        known: dict[str, Mapping[UUID, UUID]] = {"bucket": buckets}
        for what in ("part", "run", "source"):
            known[what] = await restores.scopes_of(connection, what, wanted.get(what, set()))
        scopes = await restores.scopes_known(connection, wanted.get("scope", set()))
        return cls({**known, "part": {**known["part"], **stored}, "scope": {each: each for each in scopes}})

    def scope(self, told: Said) -> UUID:
        """Return the scope of one."""
        what, subject = _about(told)
        return STORE_WIDE if subject is None else self._known[what].get(subject, STORE_WIDE)


def _about(told: Said) -> tuple[str, UUID | None]:
    """Say by what the scope of a leaf is found."""
    if told.k in ("part", "expire"):
        return "bucket", told.b
    if told.k == "purge":
        return "part", told.p
    if told.k == "close":
        return "run", told.r
    if told.k == "revoke":
        return "source", told.si
    if told.k == "hold":
        return told.sk or "scope", told.si
    return "scope", None
