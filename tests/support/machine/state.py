"""What a database should hold, in plain Python. A backup of it is a copy; what lies elsewhere is not in here."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

Source = tuple[int, str]
"""A scope by its number, and the name of a source in it."""

Place = tuple[int, datetime]
"""A bucket: a scope by its number, and the beginning of a span."""


class Binding(NamedTuple):
    """What a part depends on; no version means the whole source."""

    source: str
    version: int | None


class Leaf(NamedTuple):
    """A leaf of the log: what it says, as far as that tells it from others; `number` tells it from its equals."""

    number: int
    kind: str
    about: tuple[object, ...]


@dataclass
class RunState:
    scope: int
    uid: UUID
    born: int
    # In which its retention ends; `shortened`: it ended later before.
    span: datetime
    days: int
    subject: str | None
    shortened: bool = False
    open: bool = True
    closed: bool = False
    opted_out: bool = False
    erased: bool = False
    # Losses that have a name, by exchange and reason.
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass
class PartState:
    """`state` is stored, gone or lost; `reason` of a stored one says that a hold defers its erasure.

    `key` is the number of the key that wraps its secret; `garbled`: nobody could open it when it was wrapped anew.
    """

    evidence: UUID
    run: str
    exchange: str
    content: bytes
    bindings: tuple[Binding, ...]
    span: datetime
    key: int
    state: str = "stored"
    reason: str | None = None
    body: bool = True
    moved: bool = False
    garbled: bool = False


@dataclass
class HoldState:
    """`reach` is part, run or scope; `target` the part's id or the run's name."""

    scope: int
    reach: str
    target: UUID | str | None
    released: bool = False
    ended: bool = False


@dataclass
class SourceState:
    """`ripe` are the versions (None: the whole) that have been closed for as long as it takes to destroy."""

    uid: UUID
    latest: int = 0
    revoked: bool = False
    erased: bool = False
    withdrawn: set[int] = field(default_factory=set)
    ripe: set[int | None] = field(default_factory=set)
    destroyed: set[int | None] = field(default_factory=set)


@dataclass(frozen=True)
class ErasureState:
    scope: int
    kind: str
    target: UUID | str
    born: int


@dataclass
class BucketState:
    """`state` is live, expired or destroyed; `key` is the number of its key."""

    bucket: UUID
    key: int
    state: str = "live"


@dataclass
class State:
    """Everything that goes back with a backup."""

    runs: dict[str, RunState] = field(default_factory=dict)
    parts: dict[UUID, PartState] = field(default_factory=dict)
    # Parts without a row, of which the log tells: their bucket, and why they were purged, if they were.
    lost: dict[UUID, tuple[Place, str | None]] = field(default_factory=dict)
    # Parts of which only marks are left, and whose scope they were.
    forgotten: dict[UUID, int] = field(default_factory=dict)
    holds: dict[UUID, HoldState] = field(default_factory=dict)
    sources: dict[Source, SourceState] = field(default_factory=dict)
    erasures: list[ErasureState] = field(default_factory=list)
    buckets: dict[Place, BucketState] = field(default_factory=dict)
    # Of each scope, the key of what is held beyond its span.
    hold_keys: list[int] = field(default_factory=list)
    entries: list[Leaf] = field(default_factory=list)
    queued: list[Leaf] = field(default_factory=list)
    # What is never written again, by evidence or by run and exchange.
    marks: dict[UUID | tuple[str, str], str] = field(default_factory=dict)
