"""Connections to Redis: bounded, with a deadline on everything, never trying again by themselves.

An unanswered command may have happened. Whether to send it again is for whoever knows its identity, not for a socket.
"""

import asyncio
from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class Links:
    """Three pools, so that a writer's long wait and a slow question never stand before an append."""

    appends: Redis
    calls: Redis
    readers: Redis

    @classmethod
    def to(cls, url: str, shards: int) -> "Links":
        """Prepare the pools for an address; nothing is connected yet."""
        return cls(
            # Whoever appends has a deadline of his own, and no more calls under way than there are connections.
            _client(url, FLIGHTS * shards, None),
            _client(url, _CALLS, SILENCE_S),
            # Two lanes of a writer wait on each shard, one subscription listens, and a repair may be under way.
            _client(url, max(_READERS, 2 * shards + 4), BLOCK_S + SILENCE_S),
        )

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(client.aclose() for client in (self.appends, self.calls, self.readers)))


def _client(url: str, connections: int, silence_s: float | None) -> Redis:
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
    client: Redis = Redis.from_pool(pool)
    return client


async def faults_of(client: Redis) -> list[str]:
    """Say what of this server does not suit a queue that must not lose what it has answered `queued`."""
    try:
        async with asyncio.timeout(CALL_S):
            facts = await client.execute_command("INFO", "memory", "persistence", "cluster")
            return _faults(facts, saves=await _told(client, "save"), block=await _told(client, _BLOCK))
    except (exceptions.RedisError, OSError, TimeoutError) as fault:
        return [f"Redis does not answer ({type(fault).__name__})"]


def _faults(facts: Mapping[str, Any], *, saves: str, block: str) -> list[str]:
    policy = facts.get("maxmemory_policy", "unknown")
    found = []
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


async def _told(client: Redis, name: str) -> str:
    """Return a setting of the server; a hosted one that does not tell counts as one where it is not set."""
    try:
        answer = await client.config_get(name)
    except exceptions.ResponseError:
        return ""
    return str(answer.get(name, ""))
