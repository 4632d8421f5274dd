"""How fields become bytes that are hashed or bound: one way each, so that equal facts give equal bytes.

The formats are fixed by tests/contract/vectors.json and cannot change once evidence exists.
"""

import json
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec


@dataclass(frozen=True, slots=True)
class Identity:
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


def lp(*fields: bytes) -> bytes:
    """Join fields with a u32 big-endian length before each, so that no two lists give the same bytes."""
    return b"".join([part for field in fields for part in (len(field).to_bytes(4, "big"), field)])


_any: Final = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
_ascii: Final = msgspec.json.Encoder(order="deterministic")


def canonical_json(value: object) -> bytes:
    """Encode as JSON with sorted keys, no spaces, ASCII only."""
    encoded = _ascii.encode(value)
    # Several times faster, and the same bytes unless something is beyond printable ASCII: the standard library
    # escapes that, DEL included (a property test compares the two).
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _any.encode(value).encode("ascii")
