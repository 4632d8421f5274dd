"""What the queue knows of a run: its state, its limits, what it has captured, and its identities."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from policies.limits import RunLimits, ScopeLimits
from policies.revocation import Binding
from store.queue.connection import CALL_S, Link, translated
from store.queue.frames import Answer, Belonging
from store.queue.keys import GROUP, RUNS_CHANNEL, RunKey, ShardKeys, identity_field, names_of, shard_of
from store.queue.scripts import CLOSE, FORGET, NARROW, OPEN, Script
from store.queue.wire import read_identity

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_PER_MILLE: Final = 1000
_sources: Final = msgspec.msgpack.Decoder(list[tuple[str, int | None]])


@dataclass(frozen=True, slots=True)
class Opening:
    """A run as the database knows it."""

    run_uid: UUID
    state: str
    policy_version: int
    retain_until: datetime
    temporary: bool
    run_limits: RunLimits
    scope_limits: ScopeLimits
    belonging: Belonging | None
    captured_parts: int
    captured_bytes: int
    stored: Iterable[tuple[str, str, str, UUID]]
    refresh_limits: bool
    closing_until: datetime | None
    announced: Mapping[str, int]


class Runs:
    """Makes, narrows and closes the hashes of runs, and looks identities up in them."""

    def __init__(self, client: Link, keys: Mapping[int, ShardKeys]) -> None:
        self._client = client
        self._keys = keys

    async def open(self, key: RunKey, facts: Opening) -> None:
        """Make a run's hash unless it is there."""
        shard = self._shard(key)
        new: dict[str, str | int] = {"run_uid": facts.run_uid.hex, "temporary": int(facts.temporary)}
        if facts.closing_until is not None:
            new["closing_until"] = _milliseconds(facts.closing_until)
            new |= {f"n:{session}": last for session, last in facts.announced.items()}
        limits = {"policy_version": facts.policy_version, **_limits(facts.run_limits, facts.scope_limits)}
        await self._run(
            OPEN,
            [shard.run(key), shard.scope(key.scope), shard.entries],
            [
                GROUP, key.run, facts.state, _milliseconds(facts.retain_until),
                int(facts.refresh_limits), facts.captured_parts, facts.captured_bytes, *_belonging(facts.belonging),
                len(new), *_flat(new), len(limits), *_flat(limits),
                *_flat({identity_field(*names): f"{evidence.hex}s" for *names, evidence in facts.stored}),
            ],
        )  # fmt: skip

    async def narrow(self, key: RunKey, state: str | None, retain_until: datetime | None) -> None:
        """Lower a run and tell every process."""
        until = "" if retain_until is None else _milliseconds(retain_until)
        await self._run(
            NARROW, [self._shard(key).run(key)], [state or "", until, RUNS_CHANNEL, message_of(key)]
        )

    async def close(self, key: RunKey, sessions: Mapping[str, int], until: datetime) -> bool:
        """Begin to close a run."""
        arguments = [_milliseconds(until), RUNS_CHANNEL, message_of(key), *_flat(sessions)]
        return bool(await self._run(CLOSE, [self._shard(key).run(key)], arguments))

    async def forget(self, key: RunKey) -> bool:
        """Drop a run of which nothing waits."""
        shard = self._shard(key)
        return bool(await self._run(FORGET, [shard.run(key), shard.scope(key.scope)], [key.run]))

    async def identity(self, key: RunKey, exchange: str, attempt: str, kind: str) -> Answer | None:
        """Look up one identity."""
        with translated():
            async with asyncio.timeout(CALL_S):
                field = identity_field(exchange, attempt, kind)
                value = await self._client.execute_command("HGET", self._shard(key).run(key), field)
        return None if value is None else read_identity(value)

    async def pending(self, key: RunKey) -> list[tuple[str, str, str, UUID]]:
        """List what waits of a run: exchange, attempt, kind, evidence. Bounded by what a run may hold."""
        with translated():
            async with asyncio.timeout(CALL_S):
                fields = await self._client.execute_command("HGETALL", self._shard(key).run(key))
        found = []
        for field, value in fields.items():
            identity = names_of(field)
            answer = None if identity is None else read_identity(value)
            if identity is not None and answer is not None and answer.pending and answer.evidence is not None:
                found.append((*identity, answer.evidence))
        return found

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        with translated():
            async with asyncio.timeout(CALL_S):
                return await script.run(self._client, keys, arguments)

    def _shard(self, key: RunKey) -> ShardKeys:
        return self._keys[shard_of(key, len(self._keys))]


def message_of(key: RunKey) -> str:
    """Name a run on the channel of runs."""
    return f"{key.scope.hex}:{key.run}"


def key_of(message: str) -> RunKey:
    """Read what `message_of` wrote."""
    scope, _, run = message.partition(":")
    return RunKey(UUID(scope), run)


def _limits(run: RunLimits, scope: ScopeLimits) -> Mapping[str, int]:
    return {
        "l_part": run.part_bytes,
        "l_parts": run.run_parts,
        "l_bytes": run.run_bytes,
        "l_wparts": run.run_waiting_parts,
        "l_wbytes": run.run_waiting_bytes,
        "l_wnotes": run.run_waiting_notes,
        "s_parts": scope.waiting_parts,
        "s_bytes": scope.waiting_bytes,
        "share": round(scope.share * _PER_MILLE),
    }


def _belonging(told: Belonging | None) -> tuple[str, int, int, bytes]:
    if told is None:
        return "", 0, 0, b""
    sources = [(each.source, each.version) for each in told.sources]
    return told.owner_key, int(told.shared), len(sources), msgspec.msgpack.encode(sources)


def read_sources(packed: bytes) -> frozenset[Binding]:
    """Read a run's default sources."""
    return frozenset(Binding(source, version) for source, version in _sources.decode(packed))


def _flat(fields: Mapping[str, Any]) -> list[Any]:
    return [item for pair in fields.items() for item in pair]


def _milliseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MS
