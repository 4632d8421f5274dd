"""The write queue: between an answer `queued` and the transaction that stores. The only place that speaks to Redis.

Bounded in every direction, it reserves when it appends and gives back when a writer settles; both happen inside Redis.
"""

from store.queue.entries import Entry, FactHeader, GapHeader, Header, PartHeader, StateHeader, encode
from store.queue.frames import (
    ABSENT,
    QUEUED,
    Answer,
    Belonging,
    Depth,
    Frame,
    NoteFrame,
    PartFrame,
    RunView,
    SealedBy,
    Settled,
    Settlement,
)
from store.queue.keys import RunKey, shard_of
from store.queue.queue import Queue

__all__ = [
    "ABSENT",
    "QUEUED",
    "Answer",
    "Belonging",
    "Depth",
    "Entry",
    "FactHeader",
    "Frame",
    "GapHeader",
    "Header",
    "NoteFrame",
    "PartFrame",
    "PartHeader",
    "Queue",
    "RunKey",
    "RunView",
    "SealedBy",
    "Settled",
    "Settlement",
    "StateHeader",
    "encode",
    "shard_of",
]
