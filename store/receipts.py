"""Receipts: the evidence id with a tag of ours that binds what was answered, when, and to which scope.

A receipt is all that is left of an outcome that the store did not record; it must be cheap to give.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from policies.kinds import Capture, Kind
from policies.reasons import Reason
from store import errors, tokens
from store.ids import EvidenceId, ScopeId

PREFIX: Final = "cr1."

# 128 bits: identities may be long, and a receipt stands in a URL.
_TAG_BYTES: Final = 16

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Claims(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a receipt says was answered first; `first_at_us` counts microseconds since 1970."""

    evidence: EvidenceId
    run: str
    exchange: str
    attempt: str
    kind: Kind
    capture: Capture
    reason: Reason | None
    first_at_us: int

    @property
    def first_at(self) -> datetime:
        """When it was answered first."""
        return _EPOCH + self.first_at_us * _MICROSECOND


_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: Final = msgspec.msgpack.Decoder(Claims)


def issue(key: bytes, scope: ScopeId, claims: Claims) -> str:
    """Return the text of a receipt; one HMAC."""
    payload = _encoder.encode(claims)
    return tokens.sign(PREFIX, key, payload, scope.bytes, tag_bytes=_TAG_BYTES)


def read(key: bytes, scope: ScopeId, text: str) -> Claims:
    """Return what a receipt says; NotFound unless we gave it to this scope."""
    payload = tokens.verified(PREFIX, key, text, scope.bytes, tag_bytes=_TAG_BYTES)
    if payload is None:
        raise errors.NotFound
    try:
        return _decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise errors.NotFound from error
