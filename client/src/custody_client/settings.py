"""What a runtime sets: bounds of its memory, what may be held before the answer, what content depends on."""

from collections.abc import Iterable

import msgspec

from custody_client.words import KINDS

_KIB = 1024
_MIB = 1024 * 1024


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What may wait in the runtime's memory; full means that the newcomer is refused, and counted."""

    run_parts: int = 128
    run_bytes: int = 8 * _MIB
    parts: int = 1024
    bytes: int = 32 * _MIB
    runs: int = 4096
    """Runs that are open at once."""
    serialise_s: float = 0.25
    """Time in which content must have become bytes, on the caller's thread."""
    mask_s: float = 0.5
    """Time in which the mask must have answered for one part, on a thread of its own."""


class LocalPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Allow content to be held in memory while the service's answer is awaited. Nothing leaves before it."""

    kinds: Iterable[str] = KINDS
    """Kinds that may be held."""
    hold_s: float = 2.0
    """How long, at most two seconds; then what was held is dropped as `client_transport`."""
    part_bytes: int = 256 * _KIB
    """How large one part may be, as long as the service has not said it."""


class Source(msgspec.Struct, frozen=True):
    """Something that content depends on; without a version the whole source is meant."""

    source: str
    version: int | None = None
