"""Changing the keys of buckets: ciphertexts and leaves stay, 60 bytes of each body change.

    begin     the new key in every copy, then its id in the bucket's row; writers that hold the bucket are waited for,
              and those that sealed for the old key find it out under their lock, and seal again
    wrap      in batches of a transaction; each body's row says which of the two keys wraps it
    destroy   a little after nothing is left in the old one, which then opens no backup of before either

A crash anywhere is continued: what was begun is found by its row. A bucket without a span is changed by `hold_buckets`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from store import ids
from store.db import Database
from store.errors import Corrupt
from store.ids import ScopeId
from store.keyring import Keyring
from store.logging import logger
from store.services import wrapping
from store.services.hold_buckets import change_keys
from store.tables import bucket_keys, buckets, held_bodies, operator_actions
from store.tables.bucket_keys import Changing
from store.tables.buckets import BucketKey

CHANGED: Final = "bucket_key_changed"
BATCH: Final = 500
# Who has read a row and not yet its key still finds it; whoever comes later than that reads the row again.
GRACE_S: Final = 5.0
_FIRST: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Selection:
    """Of which buckets the keys are changed; `unfinished`: only of those where that was begun."""

    scope: UUID | None = None
    bucket: UUID | None = None
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """What was done: secrets that were wrapped anew, buckets whose old key is gone, and those where it still is."""

    secrets: int
    changed: int
    left: Sequence[Changing]


@dataclass(frozen=True, slots=True)
class Rewrapping:
    """`database` acts as the duties."""

    database: Database
    keyring: Keyring
    grace_s: float = GRACE_S

    async def run(self, who: str, selection: Selection) -> Rewrapped:
        """Change the keys of buckets, those first where that was begun. May be done again at any time."""
        place = (selection.scope, selection.bucket)
        async with self.database.connection() as connection:
            begun = await bucket_keys.changing(connection, *place)
            others = [] if selection.unfinished else await bucket_keys.changeable(connection, *place)
            holding = [] if selection.unfinished else await bucket_keys.holding(connection, *place)
        secrets = sum([await self._wrap(bucket) for bucket in begun])
        for bucket in others:
            changing = await self._begin(bucket, who)
            if changing is not None:
                begun.append(changing)
                secrets += await self._wrap(changing)
        held = await self._change_holding(holding, who)
        changed, left = await self._destroy(begun)
        return Rewrapped(secrets, changed + held, left)

    async def _begin(self, bucket: BucketKey, who: str) -> Changing | None:
        scope, new = bucket.scope_id, ids.new_bucket_id()
        await asyncio.to_thread(self.keyring.create_bucket_key, scope, new)
        async with self.database.transaction() as connection:
            await buckets.lock_alone(connection, scope, bucket.bucket_id)
            changing = await bucket_keys.begin(connection, scope, bucket.bucket_id, new)
            if changing is not None:
                await operator_actions.insert(connection, ScopeId(scope), who, CHANGED, bucket.bucket_id.hex)
        if changing is None:
            # It expired meanwhile, or somebody else changes it: ours was never used and opens nothing.
            await asyncio.to_thread(self.keyring.destroy_bucket_key, scope, new)
        return changing

    async def _wrap(self, bucket: Changing) -> int:
        """Wrap everything anew; what others had locked is looked for again, until a round finds nothing to do."""
        wrapped = 0
        while done := await self._round(bucket):
            wrapped += done
        return wrapped

    async def _round(self, bucket: Changing) -> int:
        after, done = _FIRST, 0
        while True:
            async with self.database.transaction() as connection:
                found = await bucket_keys.take_wrapped(connection, bucket, after, BATCH)
                secrets = [each for secret in found if (each := self._anew(bucket, secret))]
                await bucket_keys.put_wrapped(connection, bucket, secrets)
            done += len(secrets)
            if len(found) < BATCH:
                return done
            after = found[-1].evidence

    def _anew(self, bucket: Changing, secret: held_bodies.Wrapped) -> held_bodies.Wrapped | None:
        try:
            return wrapping.anew(self.keyring, bucket.scope_id, bucket.key_id, secret)
        except Corrupt as fault:
            logger().error(
                "secret_unreadable", reason=fault.reason.value, scope_id=bucket.scope_id, bucket=bucket.bucket_id,
                evidence=secret.evidence,
            )  # fmt: skip
            return None

    async def _change_holding(self, holding: Sequence[BucketKey], who: str) -> int:
        for scope, bucket in holding:
            async with self.database.transaction() as connection:
                await held_bodies.set_stale(connection, scope, [bucket])
                await operator_actions.insert(connection, ScopeId(scope), who, CHANGED, bucket.hex)
        return await change_keys(self.database, self.keyring) if holding else 0

    async def _destroy(self, begun: Sequence[Changing]) -> tuple[int, list[Changing]]:
        """Destroy old keys that wrap nothing any more; one that is gone anyway opens nothing, whatever it wraps."""
        if not begun:
            return 0, []
        await asyncio.sleep(self.grace_s)
        async with self.database.connection() as connection:
            left = [
                each
                for each in begun
                if await bucket_keys.left_in(connection, each)
                and self.keyring.has_bucket_key(each.scope_id, each.old_key_id)
            ]
        done = [each for each in begun if each not in left]
        doomed = [(each.scope_id, each.old_key_id) for each in done]
        await asyncio.to_thread(self.keyring.destroy_bucket_keys, doomed)
        async with self.database.transaction() as connection:
            for each in done:
                await bucket_keys.changed(connection, each)
        return len(done), left
