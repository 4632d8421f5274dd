"""How fields become bytes that are hashed or bound: one way each, so that equal facts give equal bytes.

The formats are fixed by tests/contract/vectors.json and cannot change once evidence exists.
"""

import json
from hashlib import sha256
from struct import Struct
from typing import Final
from uuid import UUID

import msgspec


class Identity(msgspec.Struct, frozen=True, gc=False):
    """What names a part for ever: the scope, the caller's three ids, and the kind."""

    scope: UUID
    run: str
    exchange: str
    attempt: str
    kind: str

    def fields(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """Return the fields as they stand in additional data and keyed hashes."""
        return (
            self.scope.bytes,
            self.run.encode(),
            self.exchange.encode(),
            self.attempt.encode(),
            self.kind.encode(),
        )

    def named(self) -> bytes:
        """Return the fields joined as `lp` joins them; written out, since this is done for every part."""
        scope, run, exchange, attempt, kind = self.fields()
        return b"".join(
            (
                ID_LENGTH, scope, _length(len(run)), run, _length(len(exchange)), exchange,
                _length(len(attempt)), attempt, _length(len(kind)), kind,
            )
        )  # fmt: skip


_length: Final = Struct(">I").pack
# What stands before an id of ours.
ID_LENGTH: Final = _length(16)


def lp(*fields: bytes) -> bytes:
    """Join fields with a u32 big-endian length before each, so that no two lists give the same bytes."""
    return b"".join([_length(len(field)) + field for field in fields])


_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_KEY_BYTES: Final = 32
_INNER_REST: Final = b"\x36" * 32
_OUTER_REST: Final = b"\x5c" * 32


class Keyed:
    """HMAC-SHA256 (RFC 2104) of many messages under one key of 32 bytes. Holds what the key can be told from.

    The standard library's own finds its algorithm anew for each call, which takes longer than to hash a short message.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise ValueError("a key has 32 bytes")
        self._inner = sha256(key.translate(_INNER) + _INNER_REST)
        self._outer = sha256(key.translate(_OUTER) + _OUTER_REST)

    def digest(self, message: bytes) -> bytes:
        """Return the code of one message."""
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()


_any: Final = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
_ascii: Final = msgspec.json.Encoder(order="deterministic")


def canonical_json(value: object) -> bytes:
    """Encode as JSON with sorted keys, no spaces, ASCII only; a struct's fields stand in the order of their names."""
    encoded = _ascii.encode(value)
    # Several times faster, and the same bytes unless something is beyond printable ASCII: the standard library
    # escapes that, DEL included (a property test compares the two).
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _any.encode(msgspec.to_builtins(value)).encode("ascii")
