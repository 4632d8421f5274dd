"""Commitments to content, metadata and closings; and the one import for all fixed byte formats.

No plain digest of content rests anywhere: everything here is keyed by a secret that is destroyed with it.
"""

import hmac
from typing import Final, Literal
from uuid import UUID

from store.encoding import Identity, Keyed, canonical_json, lp
from store.envelope import (
    INTAKE_VERSION,
    SECRET_BYTES,
    Intake,
    IntakeKey,
    Wrapping,
    bound,
    hkdf_expand,
    intake_aad,
    intake_digest,
    intake_key_id,
    open_intake,
    open_part,
    open_taken,
    part_aad,
    part_keys,
    seal_frame,
    seal_intake,
    seal_part,
    secret_aad,
    unwrap_secret,
    wrap_secret,
)
from store.frames import frame_decode, frame_encode, size_class
from store.leaves import close_bytes, leaf, meta_bytes, part_leaf

__all__ = [
    "INTAKE_VERSION",
    "SECRET_BYTES",
    "Identity",
    "Intake",
    "IntakeKey",
    "Keyed",
    "Wrapping",
    "bound",
    "canonical_json",
    "close_bytes",
    "close_commitment",
    "commitment",
    "drawn",
    "frame_decode",
    "frame_encode",
    "hkdf_expand",
    "identity_hash",
    "intake_aad",
    "intake_digest",
    "intake_key_id",
    "leaf",
    "lookup_hash",
    "lp",
    "meta_bytes",
    "meta_commitment",
    "open_intake",
    "open_part",
    "open_taken",
    "part_aad",
    "part_keys",
    "part_leaf",
    "same",
    "seal_frame",
    "seal_intake",
    "seal_part",
    "secret_aad",
    "size_class",
    "unwrap_secret",
    "wrap_secret",
]

_IDENTITY_LABEL: Final = b"custody/v1/identity"
_LOOKUP_LABEL: Final = b"custody/v1/lookup/"


def commitment(opening: bytes, content: bytes) -> bytes:
    """Return c, which commits to the exact bytes posted; `opening` is derived from the part secret."""
    return Keyed(opening).digest(content)


def meta_commitment(meta_opening: bytes, meta: bytes) -> bytes:
    """Return m of a part; its opening is a column of its own, since metadata outlives content."""
    return Keyed(meta_opening).digest(meta)


def close_commitment(close_opening: bytes, close: bytes) -> bytes:
    """Return m of a close leaf."""
    return hmac.digest(close_opening, close, "sha256")


def same(one: bytes, other: bytes) -> bool:
    """Compare commitments or digests in a time that says nothing of where they differ."""
    return hmac.compare_digest(one, other)


def identity_hash(key: bytes, identity: Identity) -> bytes:
    """Return what stays of an identity once its caller text has gone; it tells nothing without the key."""
    return hmac.digest(key, lp(_IDENTITY_LABEL) + identity.named(), "sha256")


def lookup_hash(key: bytes, what: Literal["ref", "subject", "sources"], scope: UUID, value: bytes) -> bytes:
    """Return the keyed hash by which a reference, subject or source set is found within its scope."""
    return hmac.digest(key, lp(_LOOKUP_LABEL + what.encode("ascii"), scope.bytes, value), "sha256")


def drawn(key: bytes, scope: UUID, run: str) -> float:
    """Return the run's number in [0, 1) for sampling, under the scope's sampling key, derived from `key`."""
    scope_key = hmac.digest(key, lp(b"custody/v1/sampling", scope.bytes), "sha256")
    number = int.from_bytes(hmac.digest(scope_key, run.encode(), "sha256")[:8], "big")
    # A float has 53 bits: without the shift the largest numbers would round up to 1.
    return (number >> 11) / 2**53
