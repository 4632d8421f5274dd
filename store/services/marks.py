"""Keyed marks: tombstones, and the ids of source sets. They outlive what they stand for, and tell nothing of it."""

import hmac
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from policies.revocation import Binding
from store import commitments
from store.commitments import Identity, lp

_EVIDENCE_LABEL: Final = b"custody/v1/evidence"


def evidence_mark(key: bytes, scope: UUID, evidence: UUID) -> bytes:
    """Return the mark of an evidence reference; `key` is the lookup key."""
    return hmac.digest(key, lp(_EVIDENCE_LABEL, scope.bytes, evidence.bytes), "sha256")


def identity_mark(key: bytes, identity: Identity) -> bytes:
    """Return the mark of an identity; `key` is the lookup key."""
    return commitments.identity_hash(key, identity)


def in_order(bindings: Iterable[Binding]) -> list[Binding]:
    """Return bindings once each, in the order in which sets keep them."""
    return sorted(set(bindings), key=lambda binding: (binding.source, binding.version or 0))


def source_set_id(key: bytes, scope: UUID, bindings: Iterable[Binding]) -> bytes:
    """Return the id of a set of bindings, the same in whatever order they come; `key` is the lookup key."""
    fields = [
        field
        for binding in in_order(bindings)
        for field in (binding.source.encode(), b"" if binding.version is None else b"%d" % binding.version)
    ]
    return commitments.lookup_hash(key, "sources", scope, lp(*fields))
