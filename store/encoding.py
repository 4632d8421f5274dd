"""How fields become bytes that are hashed or bound: one way each, so that equal facts give equal bytes.

The formats are fixed by tests/contract/vectors.json and cannot change once evidence exists.
"""

import json
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
        """Return the fields joined, each with its length."""
        return lp(*self.fields())


_length: Final = Struct(">I").pack


def lp(*fields: bytes) -> bytes:
    """Join fields with a u32 big-endian length before each, so that no two lists give the same bytes."""
    return b"".join([_length(len(field)) + field for field in fields])


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
