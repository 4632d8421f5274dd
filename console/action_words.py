"""What operators can have done, in words; a test holds it complete."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

ACTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "scope_created": "Scope made",
        "policy_changed": "Policy changed",
        "key_created": "Key made",
        "key_confirmed": "Key confirmed",
        "key_rotated": "Key rotated",
        "secret_retired": "Older secret retired",
        "key_revoked": "Key revoked",
        "source_version_added": "Source version added",
        "source_revoked": "Source closed",
        "source_restored": "Source opened again",
        "hold_placed": "Hold placed",
        "hold_released": "Hold released",
        "erasure_asked": "Erasure asked for",
        "signed_in": "Signed in here",
        "signed_in_by_proxy": "Signed in here, by the proxy",
        "bucket_key_changed": "Key of a bucket changed",
        "log_resumed": "Log let go on",
        "log_restored": "Log restored",
        "log_taken_back": "Fork of the log taken back",
        "log_mirror_written": "Mirror of the log written anew",
    }
)
_HEX: Final = 32


def named(target: str | None) -> str:
    """Write a target as the forms of the desk take it; ids of ours stand in records without their dashes."""
    if target is None:
        return ""
    if len(target) != _HEX:
        return target
    try:
        return str(UUID(hex=target))
    except ValueError:
        return target
