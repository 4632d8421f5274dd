"""The names of what the write queue keeps in Redis. All keys of a shard share its hash tag, so a cluster can come."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

GROUP: Final = "writers"
RUNS_CHANNEL: Final = "custody:runs"


class RunKey(NamedTuple):
    """What names a run in the queue: its scope and the caller's id of it."""

    scope: UUID
    run: str


def shard_of(key: RunKey, shards: int) -> int:
    """Return the shard of a run; the same in every process and version, or entries would be looked for elsewhere."""
    return crc32(key.scope.bytes + key.run.encode()) % shards


def identity_field(exchange: str, attempt: str, kind: str) -> str:
    """Return the field of a run's hash that holds one identity; `/` is in no id, so two identities never meet."""
    return f"i:{exchange}/{attempt}/{kind}"


def names_of(field: bytes) -> tuple[str, str, str] | None:
    """Read what `identity_field` wrote; None for the other fields of a run's hash."""
    if not field.startswith(b"i:"):
        return None
    exchange, attempt, kind = field[2:].decode().split("/")
    return exchange, attempt, kind


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of one shard."""

    prefix: str
    entries: str
    pending: str
    epoch: str
    outcomes: str
    settled: str
    alone: str

    @classmethod
    def of(cls, shard: int) -> "ShardKeys":
        """Name the keys of shard number `shard`."""
        prefix = f"custody:{{q{shard}}}:"
        names = ("entries", "pending", "epoch", "outcomes", "settled", "alone")
        return cls(prefix, *(prefix + name for name in names))

    def run(self, key: RunKey) -> str:
        """Return the key of a run's hash."""
        return f"{self.prefix}run:{key.scope.hex}:{key.run}"

    def scope(self, scope: UUID) -> str:
        """Return the key of what a scope has waiting in this shard."""
        return f"{self.prefix}scope:{scope.hex}"

    def scope_of(self, run: str) -> str:
        """Return the key of the scope of a run's hash."""
        return f"{self.prefix}scope:{run.removeprefix(self.prefix).split(':')[1]}"


def all_shards(shards: int) -> Mapping[int, ShardKeys]:
    """Name the keys of every shard."""
    return {shard: ShardKeys.of(shard) for shard in range(shards)}
