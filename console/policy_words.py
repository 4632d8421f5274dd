"""What another policy would change, in words, and for whom: said before it is put in force."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policies.quantities import duration_text
from policies.scope_policy import ScopePolicy

_NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class Change:
    """One field: what it is now, what it would be, and for whom that makes a difference."""

    field: str
    before: str
    after: str
    sentence: str


_NEW_RUNS: Final = "For runs that are declared from then on."
_STRICTEST: Final = (
    "For runs that are declared from then on. A run that is open keeps the stricter of both when its runtime declares "
    "it again; one that is closed keeps what it has."
)
_AT_ONCE: Final = "For every capture of the scope, within a second of being put in force."
_WAITING: Final = "For what waits in the queue, within a second; what waits already is not refused."


def _retention(before: ScopePolicy, after: ScopePolicy) -> str:
    shorter = after.retention_max_s < before.retention_max_s or (
        after.retention_default_s < before.retention_default_s
    )
    return f"{_STRICTEST} Nothing that is stored is kept longer than it was promised." + (
        " Content of open runs may so expire, and be destroyed, sooner." if shorter else ""
    )


def _metadata(before: ScopePolicy, after: ScopePolicy) -> str:
    if after.metadata_retention_s >= before.metadata_retention_s:
        return "For every run that is not yet forgotten: they stay listed longer after they were closed."
    return (
        "For every run, also of the past: the next hourly round forgets, for good, those that were closed longer ago "
        "than this."
    )


def _destroy_after(before: ScopePolicy, after: ScopePolicy) -> str:
    if after.destroy_after_s is None:
        return "What revoked sources closed stays closed and is no longer destroyed by that alone."
    if before.destroy_after_s is None or after.destroy_after_s < before.destroy_after_s:
        return (
            "Also for what is revoked or withdrawn already: what has been closed for longer than this is destroyed "
            "within minutes, and cannot be restored."
        )
    return "Also for what is revoked or withdrawn already: there is more time to restore it."


def _unknown(_: ScopePolicy, after: ScopePolicy) -> str:
    if after.unknown_sources == "allow":
        return "At once, for captures and reads: parts bound to sources that nobody has added are taken, and shown."
    return (
        "At once, for captures and reads: parts bound to sources that nobody has added are refused, and those that "
        "are stored are shown no more until the source is added."
    )


def _purpose(_: ScopePolicy, after: ScopePolicy) -> str:
    if after.purpose_required:
        return "For every read of content, within a second: who says no purpose is refused."
    return "For every read of content: a purpose may be said and need not be."


def _sampling(_: ScopePolicy, __: ScopePolicy) -> str:
    return f"{_NEW_RUNS} Each was drawn once, when it was declared first; that stays."


def _always(sentence: str) -> Callable[[ScopePolicy, ScopePolicy], str]:
    return lambda _, __: sentence


# By the field's path in the document.
_FOR_WHOM: Final[Mapping[str, Callable[[ScopePolicy, ScopePolicy], str]]] = MappingProxyType(
    {
        "kinds": _always(f"{_STRICTEST} Parts of other kinds become gaps."),
        "content": _always(
            "For runs that do not say: those declared from then on, and open ones that are declared again, where "
            "opting out wins. Runs that say for themselves keep their word."
        ),
        "sampling": _sampling,
        "retention.default": _retention,
        "retention.max": _retention,
        "metadata_retention": _metadata,
        "destroy_after": _destroy_after,
        "unknown_sources": _unknown,
        "purpose_required": _purpose,
        "limits.part_bytes": _always(f"{_AT_ONCE} Larger parts become gaps."),
        "limits.run_parts": _always(f"{_AT_ONCE} What a run sends beyond becomes gaps."),
        "limits.run_bytes": _always(f"{_AT_ONCE} What a run sends beyond becomes gaps."),
        "waiting.run_parts": _always(_WAITING),
        "waiting.run_bytes": _always(_WAITING),
        "waiting.run_notes": _always(_WAITING),
        "waiting.parts": _always(_WAITING),
        "waiting.bytes": _always(_WAITING),
        "share": _always(
            "For the part of the queue that this scope may fill while others need it too, at once."
        ),
    }
)


def changes(before: ScopePolicy, after: ScopePolicy) -> list[Change]:
    """Name every field that differs; nothing where the two are the same policy."""
    old, new = flat(before.to_document()), flat(after.to_document())
    return [
        Change(field, old[field], new[field], _FOR_WHOM[field](before, after))
        for field in _FOR_WHOM
        if old[field] != new[field]
    ]


def flat(document: Mapping[str, object], path: str = "") -> dict[str, str]:
    """Write each field of a policy's document as people read it, by its path."""
    found: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            found |= flat(value, f"{path}{name}.")
        else:
            found[path + name] = _text(value)
    return found


def destroys(policy: ScopePolicy) -> str:
    """Say how long after a revocation what it closed is destroyed."""
    return _NEVER if policy.destroy_after_s is None else duration_text(policy.destroy_after_s)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value) or "none"
    return str(value)
