"""API keys: a bearer text becomes a caller. Only digests are kept; a text is shown once, when it is made.

Fails closed: what is unknown, unconfirmed, revoked or expired is the same `unauthenticated`. Only a runtime's key goes
on for a while when Postgres is away, since captures must not stop with it.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from policies.kinds import Role
from policies.reasons import Reason
from store import clock
from store.db import Connection, Database
from store.errors import (
    Conflict,
    CustodyError,
    Malformed,
    NotFound,
    RowRefused,
    Unauthenticated,
    Unavailable,
)
from store.ids import ScopeId, secret
from store.logging import logger
from store.services.last_known import LastKnown
from store.tables import api_keys, operator_actions
from store.tables.api_keys import KeyRow

# Who made a key on the host itself; no key can have this id.
COMMAND_LINE: Final = "command-line"
KEY_ID: Final = re.compile(r"[0-9a-f]{16}")
KEY_TEXT: Final = re.compile(
    r"ck_(?P<role>runtime|reviewer|custodian|auditor|operator)_(?P<id>[0-9a-f]{16})_(?P<secret>[A-Za-z0-9-]{43})"
)

# Made over HTTP these wait for a second operator: two of them read content, and an operator who could make another
# operator alone could also confirm for them.
NEED_CONFIRMATION: Final = frozenset({Role.REVIEWER, Role.CUSTODIAN, Role.OPERATOR})
READ_CONTENT: Final = frozenset({Role.REVIEWER, Role.CUSTODIAN})

MAX_LIFETIME: Final = timedelta(days=730)
_REMEMBERED: Final = 10_000
_LISTED: Final = 1_000
_MOST_CLEARANCES: Final = 64
_NOTE_CHARACTERS: Final = 200
_ID_BYTES: Final = 8
_SAME_ID: Final = "api_keys_pkey"
_SECRET_BYTES: Final = 32


class Caller(msgspec.Struct, frozen=True):
    """Who calls: a key, what it may do, and within which scope (None: a store-wide operator)."""

    key_id: str
    role: Role
    scope_id: ScopeId | None
    clearances: frozenset[str]


class _Known(msgspec.Struct, frozen=True):
    """Who holds a text, by the row that said so: as long as that row stands, nothing of it is looked at again."""

    row: KeyRow
    caller: Caller


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key that is to be made; `key_id`, where it is said, is used once: asked for again, it makes no second key."""

    role: Role
    scope_id: ScopeId | None
    lifetime: timedelta
    clearances: frozenset[str] = frozenset()
    note: str = ""
    key_id: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A key with the text that is shown only now."""

    row: KeyRow
    text: str = field(repr=False)


class KeyBook:
    """Knows keys for `refresh` (that is how long a revocation takes), and a runtime's for `grace` in an outage."""

    def __init__(self, database: Database, *, refresh: timedelta, grace: timedelta) -> None:
        self._database = database
        self._grace_s = grace.total_seconds()
        self._rows: LastKnown[str, KeyRow] = LastKnown(
            self._read, age_s=refresh.total_seconds(), grace_s=self._grace_of, size=_REMEMBERED
        )
        # By a digest, so that no key's text stays in memory.
        self._callers: dict[bytes, _Known] = {}
        self._used: dict[str, datetime] = {}

    async def authenticate(self, text: str) -> Caller:
        """Return who holds this text; Unauthenticated, or Unavailable where that cannot be told."""
        digest = hashlib.sha256(text.encode()).digest()
        known = self._callers.get(digest)
        now = clock.utc_now()
        if (
            known is None
            or self._rows.settled(known.row.key_id) is not known.row
            or now >= known.row.expires_at
        ):
            known = await self._look_up(text)
            if len(self._callers) >= _REMEMBERED:
                self._callers.clear()
            self._callers[digest] = known
        self._used[known.row.key_id] = now
        return known.caller

    async def standing(self, key_id: str, proven: bytes | None) -> Caller:
        """Return whose key this is now, without its text; Unauthenticated once it, or the secret `proven`, is no good.

        `proven` is a `secret_digest` of before; None where somebody else vouched for the key.
        """
        row = await self._rows.get(key_id) if KEY_ID.fullmatch(key_id) else None
        now = clock.utc_now()
        if row is None or not _live(row, now) or (proven is not None and proven not in row.digests):
            raise Unauthenticated
        self._used[key_id] = now
        return Caller(row.key_id, row.role, row.scope_id, row.clearances)

    async def write_uses(self) -> None:
        """Write when keys were used last; asked about once a minute, never by a request."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            async with self._database.transaction() as connection:
                await api_keys.note_uses(connection, used)
        except Unavailable as outage:
            self._used = used | self._used
            logger().info("key_uses_not_written", reason=outage.reason.value, cause=outage.cause)

    async def create(self, wanted: Wanted, said_by: str) -> Made:
        """Make a key; on the command line it is good at once, over HTTP some wait for a second operator.

        Conflict where there is one of the id that was asked for.
        """
        _check(wanted)
        text = _new_secret()
        confirmed = said_by == COMMAND_LINE or wanted.role not in NEED_CONFIRMATION
        new = api_keys.NewKey(
            key_id=wanted.key_id or secret(_ID_BYTES).hex(),
            scope_id=wanted.scope_id,
            role=wanted.role,
            digest=_digest(text),
            clearances=sorted(wanted.clearances),
            note=wanted.note,
            created_by=said_by,
            confirmed=confirmed,
            lifetime_s=wanted.lifetime.total_seconds(),
        )
        try:
            async with self._database.transaction() as connection:
                row = await api_keys.insert(connection, new)
                await operator_actions.insert(connection, wanted.scope_id, said_by, "key_created", row.key_id)
        except RowRefused as refused:
            if refused.cause != _SAME_ID:
                raise
            raise Conflict(Reason.IDENTITY_CONFLICT, "this key has been made already") from None
        _alarm("key_created", row)
        return Made(row, _text(row, text))

    async def listed(self, scope_id: ScopeId | None) -> list[KeyRow]:
        """Return the newest keys of a scope, or of the whole store."""
        async with self._database.connection() as connection:
            if scope_id is None:
                return await api_keys.all_keys(connection, _LISTED)
            return await api_keys.of_scope(connection, scope_id, _LISTED)

    async def page(
        self, scope_id: ScopeId | None, before: str | None, limit: int
    ) -> tuple[list[KeyRow], str | None]:
        """Return keys that do not wait for a second operator, newest first, and where the next page begins."""
        async with self._database.connection() as connection:
            rows = await api_keys.page(connection, scope_id, before, limit + 1)
        return rows[:limit], rows[limit - 1].key_id if len(rows) > limit else None

    async def waiting(self, scope_id: ScopeId | None, limit: int) -> list[KeyRow]:
        """Return keys that wait for a second operator, those that wait longest first."""
        async with self._database.connection() as connection:
            return await api_keys.waiting(connection, scope_id, limit)

    async def count_waiting(self, scope_id: ScopeId | None) -> int:
        """Return how many keys wait for a second operator."""
        async with self._database.connection() as connection:
            return await api_keys.count_waiting(connection, scope_id)

    async def one(self, key_id: str, who: Caller) -> KeyRow:
        """Return one key; another scope's is the same as none."""
        async with self._database.connection() as connection:
            row = await api_keys.by_id(connection, key_id)
        if row is None or who.scope_id not in (None, row.scope_id):
            raise NotFound
        return row

    async def confirm(self, key_id: str, who: Caller) -> KeyRow:
        """Let a key be used that another operator made; one's own word twice is not two operators."""
        async with self._database.transaction() as connection:
            row = await _reached(connection, key_id, who)
            if who.key_id in (row.created_by, row.key_id):
                raise CustodyError(
                    Reason.PERMISSION_DENIED, "a key is confirmed by another operator than its maker"
                )
            if row.confirmed_at is None:
                await api_keys.confirm(connection, key_id)
                await operator_actions.insert(connection, row.scope_id, who.key_id, "key_confirmed", key_id)
                _alarm("key_confirmed", row)
            return await self._changed(connection, key_id)

    async def rotate(self, key_id: str, who: Caller | None, instead_of: str | None = None) -> Made:
        """Give a key a second secret; of two, the older one ends. `who` None is the command line.

        Conflict where its secrets are others by now than `instead_of` (`secrets_of`): done twice, it would end the one
        that is in use.

        Whoever rotates a key learns its secret: over HTTP therefore only runtimes' and auditors' keys, and one's own.
        """
        text = _new_secret()
        async with self._database.transaction() as connection:
            row = await _reached(connection, key_id, who)
            if who is not None and row.role in NEED_CONFIRMATION and row.key_id != who.key_id:
                raise CustodyError(
                    Reason.PERMISSION_DENIED, "rotating it would show its secret: make another one"
                )
            if row.revoked_at is not None:
                raise Conflict(Reason.IDENTITY_CONFLICT, "the key is revoked")
            _require_same(row, instead_of)
            await api_keys.set_digests(connection, key_id, [*row.digests[-1:], _digest(text)])
            await operator_actions.insert(connection, row.scope_id, _said_by(who), "key_rotated", key_id)
            changed = await self._changed(connection, key_id)
        return Made(changed, _text(changed, text))

    async def retire(self, key_id: str, who: Caller | None, instead_of: str | None = None) -> KeyRow:
        """End the older of two secrets, once everybody has the newer one; Conflict as for `rotate`."""
        async with self._database.transaction() as connection:
            row = await _reached(connection, key_id, who)
            _require_same(row, instead_of)
            if len(row.digests) > 1:
                await api_keys.set_digests(connection, key_id, row.digests[-1:])
                await operator_actions.insert(
                    connection, row.scope_id, _said_by(who), "secret_retired", key_id
                )
            return await self._changed(connection, key_id)

    async def revoke(self, key_id: str, who: Caller | None) -> KeyRow:
        """End a key; other processes notice within the refresh."""
        async with self._database.transaction() as connection:
            row = await _reached(connection, key_id, who)
            if row.revoked_at is None:
                await api_keys.revoke(connection, key_id)
                await operator_actions.insert(connection, row.scope_id, _said_by(who), "key_revoked", key_id)
            return await self._changed(connection, key_id)

    async def _look_up(self, text: str) -> _Known:
        said = KEY_TEXT.fullmatch(text)
        if said is None:
            raise Unauthenticated
        row = await self._rows.get(said["id"])
        if row is None or not _genuine(row, said["role"], said["secret"]) or not _live(row, clock.utc_now()):
            raise Unauthenticated
        return _Known(row, Caller(row.key_id, row.role, row.scope_id, row.clearances))

    async def _changed(self, connection: Connection, key_id: str) -> KeyRow:
        row = await api_keys.by_id(connection, key_id)
        self._rows.drop(key_id)
        if row is None:
            raise NotFound
        return row

    async def _read(self, key_id: str) -> KeyRow | None:
        async with self._database.connection() as connection:
            return await api_keys.by_id(connection, key_id)

    def _grace_of(self, row: KeyRow) -> float:
        return self._grace_s if row.role is Role.RUNTIME else 0.0


async def _reached(connection: Connection, key_id: str, who: Caller | None) -> KeyRow:
    """Lock a key that the caller's scope holds; another scope's is the same as none."""
    row = await api_keys.lock(connection, key_id)
    if row is None or (who is not None and who.scope_id not in (None, row.scope_id)):
        raise NotFound
    return row


def secrets_of(row: KeyRow) -> str:
    """Return what changes with the secrets of a key, and tells nothing of them."""
    return hashlib.sha256(b"".join(row.digests)).hexdigest()[:16]


def _require_same(row: KeyRow, instead_of: str | None) -> None:
    if instead_of not in (None, secrets_of(row)):
        raise Conflict(Reason.IDENTITY_CONFLICT, "the key has other secrets by now: look at it again")


def secret_digest(text: str) -> bytes:
    """Return the digest by which a key's row knows the secret in this text; ValueError where it is no key's text."""
    said = KEY_TEXT.fullmatch(text)
    if said is None:
        raise ValueError("not a key's text")
    return _digest(said["secret"])


def _genuine(row: KeyRow, role: str, text: str) -> bool:
    digest = _digest(text)
    matches: Collection[bool] = [hmac.compare_digest(digest, known) for known in row.digests]
    return row.role.value == role and any(matches)


def _live(row: KeyRow, now: datetime) -> bool:
    return row.revoked_at is None and row.confirmed_at is not None and now < row.expires_at


def _digest(text: str) -> bytes:
    # 256 random bits cannot be guessed, so that a slow hash would only slow us.
    return hashlib.sha256(text.encode("ascii")).digest()


def _new_secret() -> str:
    # Without "_", which separates the pieces of a key; that takes one bit of 256.
    while True:
        text = base64.urlsafe_b64encode(secret(_SECRET_BYTES)).rstrip(b"=").decode("ascii")
        if "_" not in text:
            return text


def _text(row: KeyRow, secret_text: str) -> str:
    return f"ck_{row.role.value}_{row.key_id}_{secret_text}"


def _said_by(who: Caller | None) -> str:
    return COMMAND_LINE if who is None else who.key_id


def _alarm(event: str, row: KeyRow) -> None:
    logger().warning(event, key_id=row.key_id, role=row.role.value, scope_id=row.scope_id)


def faults_of(wanted: Wanted) -> dict[str, str]:
    """Return what is wrong with a key that is wanted, by the field that says it; nothing where it can be made."""
    found: dict[str, str] = {}
    if wanted.scope_id is None and wanted.role is not Role.OPERATOR:
        found["role"] = "only an operator's key may reach the whole store: name a scope"
    if not timedelta(0) < wanted.lifetime <= MAX_LIFETIME:
        found["lifetime"] = f"a key lives for at most {MAX_LIFETIME.days}d"
    if wanted.clearances and wanted.role not in READ_CONTENT:
        found["clearances"] = "clearances are for keys that read content"
    elif len(wanted.clearances) > _MOST_CLEARANCES or any(
        not 0 < len(tag) <= _NOTE_CHARACTERS or not tag.isprintable() for tag in wanted.clearances
    ):
        found["clearances"] = (
            f"at most {_MOST_CLEARANCES} clearances of at most {_NOTE_CHARACTERS} printable characters"
        )
    if len(wanted.note) > _NOTE_CHARACTERS or not wanted.note.isprintable():
        found["note"] = f"a note is one line of at most {_NOTE_CHARACTERS} characters"
    return found


def _check(wanted: Wanted) -> None:
    for fault in faults_of(wanted).values():
        raise Malformed(detail=fault)
