"""Wrapping a part's secret in another key of its scope; what it encrypts, and what was committed to, stays."""

from uuid import UUID

from store import commitments
from store.keyring import Keyring
from store.tables.held_bodies import Wrapped


def anew(keyring: Keyring, scope: UUID, key: UUID, secret: Wrapped) -> Wrapped:
    """Wrap a secret in the bucket key of this id; Corrupt where nobody can open it."""
    old = keyring.bucket_key(scope, secret.bucket_id)
    opened = commitments.unwrap_secret(old, secret.wrapped, scope, secret.bucket_id, secret.evidence)
    wrapped = commitments.wrap_secret(keyring.bucket_key(scope, key), opened, scope, key, secret.evidence)
    return Wrapped(secret.evidence, key, wrapped)
