"""The one place where ids and random bytes are minted, and where ids of callers are checked."""

import os
import re
from collections.abc import Iterator
from typing import Final, NewType
from uuid import UUID

from uuid_utils.compat import uuid7

from store import errors

ScopeId = NewType("ScopeId", UUID)
RunUid = NewType("RunUid", UUID)
EvidenceId = NewType("EvidenceId", UUID)
BucketId = NewType("BucketId", UUID)
GapId = NewType("GapId", UUID)
SourceUid = NewType("SourceUid", UUID)
HoldId = NewType("HoldId", UUID)
ErasureId = NewType("ErasureId", UUID)
AccessId = NewType("AccessId", UUID)
ActionId = NewType("ActionId", UUID)
ExportId = NewType("ExportId", UUID)

# Begins with a letter or digit, so that no proxy and no client folds "." or ".." in a path.
CALLER_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def new_id() -> UUID:
    """Mint a time-ordered UUID (version 7): rows made together lie together in an index."""
    return uuid7()


def new_scope_id() -> ScopeId:
    """Mint the id of a scope."""
    return ScopeId(uuid7())


def new_run_uid() -> RunUid:
    """Mint the store's own id of a run; callers name runs by text."""
    return RunUid(uuid7())


def new_evidence_id() -> EvidenceId:
    """Mint an evidence reference; it says nothing of the content."""
    return EvidenceId(uuid7())


def new_bucket_id() -> BucketId:
    """Mint the id of a bucket."""
    return BucketId(uuid7())


def new_gap_id() -> GapId:
    """Mint the id of a gap."""
    return GapId(uuid7())


def secret(size: int) -> bytes:
    """Return `size` bytes from the system's generator, for keys, salts, nonces and openings."""
    return os.urandom(size)


def secrets(size: int, count: int) -> Iterator[bytes]:
    """Yield `count` secrets of `size` bytes, asked for at once: what they are for needs many small ones."""
    drawn = os.urandom(size * count)
    return (drawn[at : at + size] for at in range(0, size * count, size))


def caller_id(text: str) -> str:
    """Return `text` if it may name a run, session, exchange, attempt or source; else raise Malformed."""
    if CALLER_ID.fullmatch(text) is None:
        raise errors.Malformed(
            detail="an id is 1 to 128 of A-Z a-z 0-9 . _ : - and begins with a letter or digit"
        )
    return text
