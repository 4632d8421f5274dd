"""What another policy would change, in words, before it is put in force: for whom, what waits, and what is stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from policies.quantities import duration_text
from policies.scope_policy import ScopePolicy

Way = Literal["stricter", "looser", "both"]

_NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class Effect:
    """What one field's change does: `way` by whether less or more is taken, kept and shown; then three sentences."""

    way: Way
    onward: str
    waits: str
    stored: str


@dataclass(frozen=True, slots=True)
class Change:
    """One field: its path and its name, what it is now, what it would be, and what that does."""

    field: str
    name: str
    before: str
    after: str
    effect: Effect


# By the field's path in the document, in the order in which they are shown.
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kinds": "Kinds that are taken",
        "content": "Content, for runs that do not say",
        "sampling": "Share of runs that is kept",
        "retention.default": "Retention, for runs that do not say",
        "retention.max": "Longest retention",
        "metadata_retention": "Metadata is kept after a run was closed",
        "destroy_after": "What a revocation closes is destroyed after",
        "unknown_sources": "Sources that nobody has added",
        "purpose_required": "Reading demands a purpose",
        "limits.part_bytes": "Largest part",
        "limits.run_parts": "Parts in a run",
        "limits.run_bytes": "Bytes in a run",
        "waiting.run_parts": "Parts of a run that may wait",
        "waiting.run_bytes": "Bytes of a run that may wait",
        "waiting.run_notes": "States, gaps and facts of a run that may wait",
        "waiting.parts": "Parts of the scope that may wait",
        "waiting.bytes": "Bytes of the scope that may wait",
        "share": "Share of the queue's free space that the scope may fill",
    }
)

_ITS_OWN: Final = "Keeps what its run was declared with."
_SAME: Final = "Nothing changes for it."
_NARROWED: Final = (
    "For runs that are declared from then on. A run that is open keeps the stricter of both when its runtime declares "
    "it again; one that is closed keeps what it has."
)
_NEW_RUNS: Final = (
    "For runs that are declared from then on. Each was drawn once, when it was declared first; that stays."
)
_CAPTURES: Final = (
    "For every capture of the scope, once its runtime has declared its run again, which it must."
)


def _kinds(before: ScopePolicy, after: ScopePolicy) -> Effect:
    fewer, more = bool(before.kinds - after.kinds), bool(after.kinds - before.kinds)
    return Effect(
        "both" if fewer and more else "stricter" if fewer else "looser",
        f"{_NARROWED}{' Parts of other kinds become gaps.' if fewer else ''}",
        "What waits of a kind that is no longer taken becomes a gap when its turn comes." if fewer else _SAME,
        _SAME,
    )


def _content(_: ScopePolicy, after: ScopePolicy) -> Effect:
    opts_out = after.content.value != "allow"
    return Effect(
        "stricter" if opts_out else "looser",
        "For runs that do not say: those declared from then on, and open ones that are declared again, where opting "
        "out wins. Runs that say for themselves keep their word.",
        "What waits of a run that opts out by that becomes a gap when its turn comes." if opts_out else _SAME,
        _SAME,
    )


def _sampling(before: ScopePolicy, after: ScopePolicy) -> Effect:
    return Effect(_less(after.sampling, before.sampling), _NEW_RUNS, _SAME, _SAME)


def _default(before: ScopePolicy, after: ScopePolicy) -> Effect:
    return _retention(_less(after.retention_default_s, before.retention_default_s))


def _longest(before: ScopePolicy, after: ScopePolicy) -> Effect:
    return _retention(_less(after.retention_max_s, before.retention_max_s))


def _retention(way: Way) -> Effect:
    if way == "looser":
        return Effect(way, _NARROWED, _ITS_OWN, "Nothing that is stored is kept longer than it was promised.")
    return Effect(
        way,
        _NARROWED,
        "Keeps what its run was declared with, or has been narrowed to.",
        "Content of open runs that are declared again may expire, and be destroyed, sooner. That of closed runs keeps "
        "its time.",
    )


def _metadata(before: ScopePolicy, after: ScopePolicy) -> Effect:
    way = _less(after.metadata_retention_s, before.metadata_retention_s)
    if way == "looser":
        return Effect(
            way,
            "For every run that is not yet forgotten: it stays listed longer after it was closed.",
            _SAME,
            _SAME,
        )
    return Effect(
        way,
        "For every run, also of the past.",
        _SAME,
        "The next hourly round forgets, for good, runs that were closed longer ago than this.",
    )


def _destroy_after(before: ScopePolicy, after: ScopePolicy) -> Effect:
    if after.destroy_after_s is None:
        return Effect(
            "looser",
            "For every source of the scope.",
            _SAME,
            "What revoked sources closed stays closed and is no longer destroyed by that alone.",
        )
    if before.destroy_after_s is None or after.destroy_after_s < before.destroy_after_s:
        return Effect(
            "stricter",
            "For every source of the scope, also for what is revoked or withdrawn already.",
            _SAME,
            "What has been closed for longer than this is destroyed within minutes, and cannot be restored.",
        )
    return Effect(
        "looser",
        "For every source of the scope, also for what is revoked or withdrawn already.",
        _SAME,
        "There is more time to restore what is closed.",
    )


def _unknown(_: ScopePolicy, after: ScopePolicy) -> Effect:
    if after.unknown_sources == "allow":
        return Effect(
            "looser",
            "Within a second, parts bound to sources that nobody has added are taken.",
            "Is taken when its turn comes.",
            "What is bound to such sources is shown.",
        )
    return Effect(
        "stricter",
        "Within a second, parts bound to sources that nobody has added are refused.",
        "What is bound to such sources becomes a gap when its turn comes.",
        "What is bound to such sources is shown no more until the source is added.",
    )


def _purpose(_: ScopePolicy, after: ScopePolicy) -> Effect:
    if after.purpose_required:
        return Effect(
            "stricter", "Captures do not change.", _SAME, "Within a second, who says no purpose is refused."
        )
    return Effect(
        "looser", "Captures do not change.", _SAME, "A purpose may be said when it is read, and need not be."
    )


def _limit(read: Callable[[ScopePolicy], float], gaps: str) -> Callable[[ScopePolicy, ScopePolicy], Effect]:
    def effect(before: ScopePolicy, after: ScopePolicy) -> Effect:
        way = _less(read(after), read(before))
        return Effect(way, _CAPTURES + (f" {gaps}" if way == "stricter" else ""), _SAME, _SAME)

    return effect


def _waiting(
    read: Callable[[ScopePolicy], float], beyond: str = "what finds no room is refused, and becomes a gap."
) -> Callable[[ScopePolicy, ScopePolicy], Effect]:
    def effect(before: ScopePolicy, after: ScopePolicy) -> Effect:
        return Effect(
            _less(read(after), read(before)),
            f"For what is captured from then on: {beyond}",
            "What waits already is not refused, also where it is more than that.",
            _SAME,
        )

    return effect


def _less(after: float, before: float) -> Way:
    return "stricter" if after < before else "looser"


_EFFECTS: Final[Mapping[str, Callable[[ScopePolicy, ScopePolicy], Effect]]] = MappingProxyType(
    {
        "kinds": _kinds,
        "content": _content,
        "sampling": _sampling,
        "retention.default": _default,
        "retention.max": _longest,
        "metadata_retention": _metadata,
        "destroy_after": _destroy_after,
        "unknown_sources": _unknown,
        "purpose_required": _purpose,
        "limits.part_bytes": _limit(lambda policy: policy.run_limits.part_bytes, "Larger parts become gaps."),
        "limits.run_parts": _limit(
            lambda policy: policy.run_limits.run_parts, "What is beyond becomes gaps."
        ),
        "limits.run_bytes": _limit(
            lambda policy: policy.run_limits.run_bytes, "What is beyond becomes gaps."
        ),
        "waiting.run_parts": _waiting(lambda policy: policy.run_limits.run_waiting_parts),
        "waiting.run_bytes": _waiting(lambda policy: policy.run_limits.run_waiting_bytes),
        "waiting.run_notes": _waiting(
            lambda policy: policy.run_limits.run_waiting_notes,
            "what finds no room is refused, and its runtime may tell it again.",
        ),
        "waiting.parts": _waiting(lambda policy: policy.scope_limits.waiting_parts),
        "waiting.bytes": _waiting(lambda policy: policy.scope_limits.waiting_bytes),
        "share": _waiting(lambda policy: policy.scope_limits.share),
    }
)


def changes(before: ScopePolicy, after: ScopePolicy) -> list[Change]:
    """Name every field that differs; nothing where the two are the same policy."""
    old, new = flat(before.to_document()), flat(after.to_document())
    return [
        Change(field, name, old[field], new[field], _EFFECTS[field](before, after))
        for field, name in NAMES.items()
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
