"""Every bound on what may be captured and what may wait, with the defaults."""

from dataclasses import dataclass

_KIB = 1024
_MIB = 1024 * 1024

# What one attempt state, gap or fact may take; they are counted apart from parts.
NOTE_BYTES = 1 * _KIB
# How many facts of one run are kept, unless the settings say otherwise.
RUN_FACTS = 4_096


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Bounds of one run: `part_bytes` and `run_bytes` count exact bytes, `run_waiting_bytes` sealed bytes."""

    part_bytes: int = 256 * _KIB
    run_parts: int = 128
    run_bytes: int = 16 * _MIB
    run_waiting_parts: int = 32
    run_waiting_bytes: int = 4 * _MIB
    run_waiting_notes: int = 128


@dataclass(frozen=True, slots=True)
class ScopeLimits:
    """What one scope may have waiting; `share` is the most of what is free in its shard that it may take."""

    waiting_parts: int = 4_096
    waiting_bytes: int = 64 * _MIB
    share: float = 0.5


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """What one shard of the write queue may have waiting over all scopes; notes are counted apart."""

    parts: int = 16_384
    bytes: int = 256 * _MIB
    notes: int = 65_536


DEFAULT_RUN_LIMITS = RunLimits()
DEFAULT_SCOPE_LIMITS = ScopeLimits()
DEFAULT_SHARD_LIMITS = ShardLimits()
