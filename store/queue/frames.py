"""What goes into the queue, what it answers, and what a writer says became of an entry."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias
from uuid import UUID

import msgspec

from policies.reasons import Reason
from policies.revocation import Binding
from store.queue.keys import RunKey

Outcome: TypeAlias = Literal["stored", "noted", "refused"]


class Belonging(msgspec.Struct, frozen=True, gc=False):
    """Whose a run is, and what all of it depends on: what a guard asks for each capture, and the database once."""

    owner_key: str
    shared: bool
    sources: frozenset[Binding]


class RunView(msgspec.Struct, frozen=True, gc=False):
    """A run as the queue knows it; `state` is `open`, `closing`, or the reason why it takes no more parts.

    `belonging` is None where an earlier version opened the run.
    """

    run_uid: UUID
    state: str
    policy_version: int
    retain_until: datetime
    temporary: bool
    announced: Mapping[str, int]
    belonging: Belonging | None


class PartFrame(msgspec.Struct, frozen=True, gc=False):
    """A sealed part. `digest` is the keyed digest that tells same bytes from others while the part is pending."""

    key: RunKey
    exchange: str
    attempt: str
    kind: str
    evidence: UUID
    header: bytes
    sealed: bytes
    exact_bytes: int
    key_id: bytes
    digest: bytes
    session: str | None = None
    sequence: int | None = None


class NoteFrame(msgspec.Struct, frozen=True, gc=False):
    """An attempt state, a gap or a fact; `reason` is for gaps that the store itself says."""

    key: RunKey
    type: Literal["state", "gap", "fact"]
    header: bytes
    reason: Reason | None = None


Frame: TypeAlias = PartFrame | NoteFrame


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What the queue says to one frame.

    `absent` means that the queue does not know the run: rebuild it and ask again. For `exists`, `key_id` and `digest`
    are those of the part that is pending, and None once it is stored. `recorded` says that the store will remember a
    refusal: as a gap queued in the same call.
    """

    outcome: Literal["queued", "exists", "refused", "absent"]
    reason: Reason | None = None
    evidence: UUID | None = None
    pending: bool = False
    key_id: bytes | None = None
    digest: bytes | None = None
    recorded: bool = False


QUEUED: Final = Answer("queued")
ABSENT: Final = Answer("absent")


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What became of one entry; the identity, the 16 bytes of the evidence and `sealed_bytes` are for parts only."""

    entry_id: str
    key: RunKey
    type: Literal["part", "state", "gap", "fact"]
    outcome: Outcome
    reason: Reason | None = None
    exchange: str = ""
    attempt: str = ""
    kind: str = ""
    evidence: bytes | None = None
    sealed_bytes: int = 0


class Settled(msgspec.Struct, frozen=True, gc=False):
    """What a waiter is told: `stored`, or `refused` with its reason."""

    outcome: str
    reason: Reason | None


class Depth(msgspec.Struct, frozen=True, gc=False):
    """How much waits in a shard; `oldest_age_s` is 0 where nothing waits."""

    shard: int
    parts: int
    bytes: int
    notes: int
    oldest_age_s: float
    stream_length: int


class SealedBy(msgspec.Struct, frozen=True, gc=False):
    """Intake keys that sealed what has waited for some time, and for how long the first entry of each has waited.

    Where not every such entry was looked at, those that were not have waited for `unseen_s` or less.
    """

    ages_s: Mapping[bytes, float]
    unseen_s: float | None
