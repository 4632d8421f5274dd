"""Connections to Redis: bounded, with a deadline on everything, never trying again by themselves.

An unanswered command may have happened. Whether to send it again is for whoever knows its identity, not for a socket.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from policies.reasons import Reason
from store.errors import Unavailable

# A server that is silent for so long is away, whatever its socket says.
SILENCE_S: Final = 2.0
# What one call may take in all, waiting for a connection included.
CALL_S: Final = 5.0
# The longest that a writer asks the server to hold its answer back while nothing waits.
BLOCK_S: Final = 5.0
# Two calls of each shard under way: one is worked on while the next is on the wire.
FLIGHTS: Final = 2

# How many entries share one block of a stream. A block is kept whole until none of its entries is left.
_BLOCK: Final = "stream-node-max-entries"

_CALLS: Final = 16
_READERS: Final = 16


@contextmanager
def translated() -> Iterator[None]:
    """Turn what redis-py and the socket raise into `queue_unavailable`; messages of the server can hold keys."""
    try:
        yield
    except (exceptions.RedisError, OSError, TimeoutError) as fault:
        raise Unavailable(Reason.QUEUE_UNAVAILABLE, cause=type(fault).__name__) from None


class Link(Redis):
    """The client of one pool. It tells when a server says of itself that it is no primary."""

    demoted: Callable[[], Awaitable[None]]

    async def execute_command(self, *command: Any, **options: Any) -> Any:
        """Send a command and return what its answer means."""
        try:
            return await super().execute_command(*command, **options)  # type: ignore[no-untyped-call]
        except exceptions.ReadOnlyError:
            await self.demoted()
            raise


@dataclass(slots=True)
class Links:
    """Three pools, so that a writer's long wait and a slow question never stand before an append.

    `renewed` counts how often a server was left.
    """

    appends: Link
    calls: Link
    readers: Link
    renewed: int = 0

    @classmethod
    def to(cls, url: str, shards: int) -> "Links":
        """Prepare the pools for an address; nothing is connected yet."""
        links = cls(
            # Whoever appends has a deadline of his own, and no more calls under way than there are connections.
            _client(url, FLIGHTS * shards, None),
            _client(url, _CALLS, SILENCE_S),
            # Two lanes of a writer wait on each shard, one subscription listens, and a repair may be under way.
            _client(url, max(_READERS, 2 * shards + 4), BLOCK_S + SILENCE_S),
        )
        for link in links._all():
            link.demoted = links.renew
        return links

    async def renew(self) -> None:
        """Leave the server: whoever asks next connects anew.

        One that was a primary and became a replica keeps its connections, and only new ones lead to its successor.
        Those in use stay with whoever uses them: a write hears the same, and a read is answered once more.
        """
        self.renewed += 1
        await asyncio.gather(
            *(link.connection_pool.disconnect(inuse_connections=False) for link in self._all())
        )

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(link.aclose() for link in self._all()))

    def _all(self) -> tuple[Link, ...]:
        return self.appends, self.calls, self.readers


def _client(url: str, connections: int, silence_s: float | None) -> Link:
    """Prepare a pool; without `silence_s` nobody waits for a connection, nor for longer than he himself allows."""
    options: Mapping[str, Any] = {
        "max_connections": connections,
        "socket_timeout": silence_s,
        "socket_connect_timeout": SILENCE_S,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": False,
    }
    pool = (
        ConnectionPool.from_url(url, **options)
        if silence_s is None
        else BlockingConnectionPool.from_url(url, timeout=SILENCE_S, **options)
    )
    # It is a client of the class that it is called on.
    client: Link = Link.from_pool(pool)  # type: ignore[assignment]
    return client


async def faults_of(links: Links) -> list[str]:
    """Say what of this server does not suit a queue that must not lose what it has answered `queued`."""
    client = links.calls
    try:
        async with asyncio.timeout(CALL_S):
            facts = await client.execute_command("INFO", "memory", "persistence", "cluster", "replication")
            found = _faults(facts, saves=await _told(client, "save"), block=await _told(client, _BLOCK))
            if _demoted(facts):
                await links.renew()
            return found
    except (exceptions.RedisError, OSError, TimeoutError) as fault:
        return [f"Redis does not answer ({type(fault).__name__})"]


def _faults(facts: Mapping[str, Any], *, saves: str, block: str) -> list[str]:
    policy = facts.get("maxmemory_policy", "unknown")
    found = []
    if _demoted(facts):
        found.append("Redis is a replica and takes nothing: the address must lead to the primary")
    if policy != "noeviction":
        found.append(f"Redis evicts: maxmemory-policy is {policy} and must be noeviction")
    if not facts.get("aof_enabled") and not saves:
        found.append("Redis keeps nothing over a restart: set appendonly yes")
    if facts.get("aof_enabled") and facts.get("aof_last_write_status", "ok") != "ok":
        found.append("Redis cannot write its append-only file: its disk is full or broken")
    if block != "1":
        found.append(f"Redis keeps what was settled beside what waits: set {_BLOCK} 1")
    if facts.get("cluster_enabled"):
        found.append("Redis is a cluster, which this version does not speak to: name a single node")
    return found


def _demoted(facts: Mapping[str, Any]) -> bool:
    return bool(facts.get("role", "master") != "master")


async def _told(client: Redis, name: str) -> str:
    """Return a setting of the server; a hosted one that does not tell counts as one where it is not set."""
    try:
        answer = await client.config_get(name)
    except exceptions.ResponseError:
        return ""
    return str(answer.get(name, ""))
