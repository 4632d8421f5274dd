"""Keys, sealing and wrapping: part secrets, ciphertexts, wrapped secrets, and bodies that wait in the queue.

The additional data holds identity only, nothing that can change: what is moved to another row does not open.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policies.reasons import Reason
from store import errors, ids
from store.encoding import ID_LENGTH, Identity, Keyed, lp

SECRET_BYTES: Final = 32
INTAKE_VERSION: Final = 0x01

_NONCE: Final = 12
_TAG: Final = 16
_SALT: Final = 16
_KEY_ID: Final = 8
_INTAKE_HEADER: Final = 1 + _KEY_ID + _SALT

# Under a key that is derived afresh from a random salt, one fixed nonce is used exactly once.
_INTAKE_NONCE: Final = bytes(_NONCE)

_ENC_INFO: Final = b"custody/v1/enc"
_OPEN_INFO: Final = b"custody/v1/open"
_INTAKE_INFO: Final = b"custody/v1/intake"
_SAME_INFO: Final = b"custody/v1/same"
_PART_LABEL: Final = b"custody/v1/part"
_SECRET_LABEL: Final = b"custody/v1/ps"

_INTAKE_BOUND: Final = lp(_INTAKE_INFO)
_PART_BOUND: Final = lp(_PART_LABEL)


@dataclass(frozen=True, slots=True)
class IntakeKey:
    """An hour's key for bodies that wait in the queue."""

    key_id: bytes
    secret: bytes = field(repr=False)


def hkdf_expand(secret: bytes, info: bytes) -> bytes:
    """HKDF-Expand-SHA256 (RFC 5869) to 32 bytes, which is its first block and so one HMAC."""
    return Keyed(secret).digest(info + b"\x01")


def part_keys(part_secret: bytes) -> tuple[bytes, bytes]:
    """Derive a part's encryption key and its opening."""
    keyed = Keyed(part_secret)
    return keyed.digest(_ENC_INFO + b"\x01"), keyed.digest(_OPEN_INFO + b"\x01")


def seal_part(
    part_secret: bytes, frame: bytes, identity: Identity, evidence: UUID, nonce: bytes | None = None
) -> bytes:
    """Encrypt a frame for its row: nonce ‖ ciphertext. `nonce` is for test vectors only."""
    key = hkdf_expand(part_secret, _ENC_INFO)
    return seal_frame(key, frame, bound(identity.named(), evidence), nonce or ids.secret(_NONCE))


def seal_frame(enc_key: bytes, frame: bytes, bound_to: bytes, nonce: bytes) -> bytes:
    """Do the same with what was derived and joined before; a nonce is drawn afresh for each call."""
    return nonce + AESGCM(enc_key).encrypt(nonce, frame, _PART_BOUND + bound_to)


def open_part(part_secret: bytes, ciphertext: bytes, identity: Identity, evidence: UUID) -> bytes:
    """Return the frame of a row's ciphertext; Corrupt unless it is of this identity, evidence and secret."""
    key = hkdf_expand(part_secret, _ENC_INFO)
    return _open(key, ciphertext[:_NONCE], ciphertext[_NONCE:], part_aad(identity, evidence))


def part_aad(identity: Identity, evidence: UUID) -> bytes:
    """Return what a part's ciphertext is bound to."""
    return _PART_BOUND + bound(identity.named(), evidence)


def bound(named: bytes, evidence: UUID) -> bytes:
    """Return what both sealings of a part are bound to behind their labels; `named` is its identity, joined."""
    return b"".join((named, ID_LENGTH, evidence.bytes))


def wrap_secret(
    bucket_key: bytes,
    part_secret: bytes,
    scope: UUID,
    bucket: UUID,
    evidence: UUID,
    nonce: bytes | None = None,
) -> bytes:
    """Wrap a part secret in its bucket's key: 60 bytes, the unit of erasure."""
    return Wrapping(bucket_key, scope, bucket).wrap(part_secret, evidence, nonce or ids.secret(_NONCE))


class Wrapping:
    """Wraps the secrets of many parts in one bucket's key. Holds the key: not to be kept longer than keys may be."""

    __slots__ = ("_bound", "_cipher")

    def __init__(self, bucket_key: bytes, scope: UUID, bucket: UUID) -> None:
        self._cipher = AESGCM(bucket_key)
        self._bound = lp(_SECRET_LABEL, scope.bytes, bucket.bytes)

    def wrap(self, part_secret: bytes, evidence: UUID, nonce: bytes) -> bytes:
        """Wrap one secret; a nonce is drawn afresh for each call."""
        return nonce + self._cipher.encrypt(nonce, part_secret, self._bound + lp(evidence.bytes))


def unwrap_secret(bucket_key: bytes, wrapped: bytes, scope: UUID, bucket: UUID, evidence: UUID) -> bytes:
    """Return the part secret; Corrupt unless it was wrapped for this scope, bucket and evidence."""
    return _open(bucket_key, wrapped[:_NONCE], wrapped[_NONCE:], secret_aad(scope, bucket, evidence))


def secret_aad(scope: UUID, bucket: UUID, evidence: UUID) -> bytes:
    """Return what a wrapped secret is bound to."""
    return lp(_SECRET_LABEL, scope.bytes, bucket.bytes, evidence.bytes)


def seal_intake(
    key: IntakeKey, frame: bytes, identity: Identity, evidence: UUID, salt: bytes | None = None
) -> bytes:
    """Encrypt a frame for the queue: version ‖ key id ‖ salt ‖ ciphertext. `salt` is for vectors only."""
    return Intake(key).seal(frame, bound(identity.named(), evidence), salt)


class Intake:
    """Seals many bodies for the queue under one hour's key. Holds the key: not to be kept longer than keys may be."""

    __slots__ = ("_keyed", "_prefix", "key_id")

    def __init__(self, key: IntakeKey) -> None:
        self.key_id = key.key_id
        self._keyed = Keyed(key.secret)
        self._prefix = INTAKE_VERSION.to_bytes(1) + key.key_id

    def seal(self, frame: bytes, bound_to: bytes, salt: bytes | None = None) -> bytes:
        """Encrypt a frame as `seal_intake` does; `bound_to` is what `bound` joins."""
        salt = salt or ids.secret(_SALT)
        key = self._keyed.digest(b"".join((_INTAKE_INFO, salt, b"\x01")))
        sealed = AESGCM(key).encrypt(_INTAKE_NONCE, frame, _INTAKE_BOUND + bound_to)
        return b"".join((self._prefix, salt, sealed))

    def digest(self, content: bytes, named: bytes) -> bytes:
        """Do as `intake_digest` does; `named` is the identity, joined."""
        return self._keyed.digest(b"".join((_SAME_INFO, named, content)))[:8]


def open_intake(lookup: Callable[[bytes], bytes], sealed: bytes, identity: Identity, evidence: UUID) -> bytes:
    """Return the frame of a queued body; `lookup` gives the secret of a key id, and raises if it is gone."""
    return open_taken(Keyed(lookup(intake_key_id(sealed))), sealed, bound(identity.named(), evidence))


def open_taken(intake: Keyed, sealed: bytes, bound_to: bytes) -> bytes:
    """Do the same with a key that was looked up by `intake_key_id`, and what was joined before."""
    key = intake.digest(b"".join((_INTAKE_INFO, sealed[1 + _KEY_ID : _INTAKE_HEADER], b"\x01")))
    return _open(key, _INTAKE_NONCE, sealed[_INTAKE_HEADER:], _INTAKE_BOUND + bound_to)


def intake_aad(identity: Identity, evidence: UUID) -> bytes:
    """Return what a queued body is bound to."""
    return _INTAKE_BOUND + bound(identity.named(), evidence)


def intake_key_id(sealed: bytes) -> bytes:
    """Return which intake key sealed a queued body."""
    if len(sealed) < _INTAKE_HEADER + _TAG or sealed[0] != INTAKE_VERSION:
        raise errors.Corrupt(Reason.INTEGRITY_MISMATCH, "not a sealed body")
    return sealed[1 : 1 + _KEY_ID]


def intake_digest(key: IntakeKey, content: bytes, identity: Identity) -> bytes:
    """Return 8 bytes by which a repeat is known while queued; equal contents elsewhere share nothing."""
    return Intake(key).digest(content, identity.named())


def _open(key: bytes, nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(nonce, sealed, aad)
    # ValueError: a nonce too short to be one, that is, a row cut off within it.
    except (InvalidTag, ValueError) as error:
        raise errors.Corrupt(Reason.INTEGRITY_MISMATCH, "does not open") from error
