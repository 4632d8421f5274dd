"""Who is signed in to the console. What a browser holds is random and known here by its digest only.

A session ends when somebody signs out, after resting too long, at the latest some hours after it began, and with its
key: whether that is still good is asked at every request, by the same copy that the api decides by.
"""

import base64
import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from policies.kinds import Role
from store.db import Database
from store.errors import Unauthenticated
from store.ids import ScopeId, secret
from store.logging import logger
from store.services.content import checked_purpose
from store.services.duties import each_within
from store.services.keys import KEY_TEXT, Caller, KeyBook, secret_digest
from store.tables import console_sessions, operator_actions

SIGN_IN: Final = frozenset({Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR})

_TOKEN_BYTES: Final = 32
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# A session in use is noted as such so often, not with every request; less where resting is short.
_NOTED_EVERY: Final = timedelta(seconds=60)
_NOTED_PARTS: Final = 10
_REMOVED_AT_ONCE: Final = 1_000
_BUDGET_S: Final = 10.0
# A session is over by the clock, at every request, whether its row is there or not. The row stays for a day: then a
# clock of the database that was ahead, or a rest that was set too short, signs nobody out for good who is back once it
# is mended. It stays no longer, since it has a purpose in somebody's own words.
_KEPT_AFTER: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Session:
    """One browser and the key behind it; `scope_id` None: a store-wide operator has chosen none yet."""

    digest: bytes
    caller: Caller
    scope_id: ScopeId | None
    purpose: str | None
    created_at: datetime
    ends_at: datetime


class ConsoleSessions:
    """Begins sessions, finds them, ends them."""

    def __init__(self, database: Database, keys: KeyBook, *, idle: timedelta, longest: timedelta) -> None:
        self._database = database
        self._keys = keys
        self._idle_s = idle.total_seconds()
        self._longest_s = longest.total_seconds()
        self._noted_every = min(_NOTED_EVERY, idle / _NOTED_PARTS)

    async def sign_in(self, text: str) -> str:
        """Begin a session of whoever holds this key's text; Unauthenticated also for a runtime's."""
        said = KEY_TEXT.fullmatch(text)
        if said is None or Role(said["role"]) not in SIGN_IN:
            raise Unauthenticated
        return await self._begin(await self._keys.authenticate(text), secret_digest(text), "signed_in")

    async def vouched(self, key_id: str) -> str:
        """Begin a session of a key that a trusted proxy names; Unauthenticated where it cannot sign in."""
        caller = await self._keys.standing(key_id, None)
        if caller.role not in SIGN_IN:
            raise Unauthenticated
        return await self._begin(caller, None, "signed_in_by_proxy")

    async def find(self, token: str, *, used: bool = True) -> Session:
        """Return the session of what a browser holds; Unauthenticated where there is none, or its key is not good.

        `used` False: a page asks by itself, which is nobody's use: the session goes on resting.
        """
        if _TOKEN.fullmatch(token) is None:
            raise Unauthenticated
        digest = _digest(token)
        async with self._database.connection() as connection:
            row = await console_sessions.live(connection, digest, self._idle_s)
            if row is None:
                raise Unauthenticated
            if used and row.read_at - row.seen_at >= self._noted_every:
                await console_sessions.touch(connection, digest)
        caller = await self._keys.standing(row.key_id, row.secret)
        scope = caller.scope_id or row.scope_id
        return Session(digest, caller, scope, row.purpose, row.created_at, row.ends_at)

    async def still(self, session: Session) -> None:
        """Raise Unauthenticated once somebody signed out, the session's time is over or its key is not good any more.

        For what is sent for long: to wait for it is neither use nor rest.
        """
        async with self._database.connection() as connection:
            row = await console_sessions.live(connection, session.digest, self._longest_s)
        if row is None:
            raise Unauthenticated
        await self._keys.standing(row.key_id, row.secret)

    async def choose(self, session: Session, scope: ScopeId | None) -> Session:
        """Look at another scope from now on, as a store-wide operator; None: at the whole store again."""
        async with self._database.connection() as connection:
            await console_sessions.choose_scope(connection, session.digest, scope)
        return replace(session, scope_id=scope)

    async def say(self, session: Session, purpose: str | None) -> Session:
        """Keep what the reads from now on are for."""
        async with self._database.connection() as connection:
            await console_sessions.say_purpose(connection, session.digest, checked_purpose(purpose))
        return replace(session, purpose=purpose)

    async def sign_out(self, session: Session) -> None:
        """End one session."""
        async with self._database.connection() as connection:
            await console_sessions.remove(connection, session.digest)
        _told("signed_out", session.caller, 1)

    async def sign_out_everywhere(self, session: Session) -> int:
        """End every session of the key; return how many there were."""
        async with self._database.connection() as connection:
            ended = await console_sessions.remove_of_key(connection, session.caller.key_id)
        _told("signed_out_everywhere", session.caller, ended)
        return ended

    async def count(self, session: Session) -> int:
        """Return how many sessions the key has now."""
        async with self._database.connection() as connection:
            return await console_sessions.count_of_key(connection, session.caller.key_id, self._idle_s)

    async def _begin(self, caller: Caller, proven: bytes | None, how: str) -> str:
        token = base64.urlsafe_b64encode(secret(_TOKEN_BYTES)).rstrip(b"=").decode("ascii")
        async with self._database.transaction() as connection:
            await console_sessions.insert(connection, _digest(token), caller.key_id, proven, self._longest_s)
            if caller.role is Role.OPERATOR:
                # An operator's presence is part of what operators did; what readers read has records of its own.
                await operator_actions.insert(connection, caller.scope_id, caller.key_id, how, caller.key_id)
        _told(how, caller, 1)
        return token


async def remove_over(database: Database, idle: timedelta) -> int:
    """Remove what ended or rested for `idle` a day ago, some at a time, as the duties; return how many sessions.

    Who signed out has none left: that takes the row away at once.
    """

    async def some() -> int:
        async with database.connection() as connection:
            return await console_sessions.remove_over(
                connection, idle.total_seconds(), _KEPT_AFTER.total_seconds(), _REMOVED_AT_ONCE
            )

    return await each_within(_BUDGET_S, some)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii")).digest()


def _told(event: str, caller: Caller, count: int) -> None:
    logger().info(event, key_id=caller.key_id, role=caller.role.value, scope_id=caller.scope_id, count=count)
