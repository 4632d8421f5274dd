"""What a part's sources allow, at capture, before the write and at every read.

Fails closed: a source that nobody knows refuses, unless the scope allows unknown ones. A binding without a
version depends on the whole source and stands as long as any version of it does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from policies.decisions import ALLOW, Decision, Refuse
from policies.reasons import Reason

UnknownSources = Literal["refuse", "allow"]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the scope knows of one source now; its versions are 1 to `latest`."""

    known: bool = True
    revoked: bool = False
    latest: int = 1
    withdrawn: frozenset[int] = frozenset()
    audience: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Binding:
    """What a part says it depends on; no version means the whole source."""

    source: str
    version: int | None = None


NOT_KNOWN: Final = SourceFacts(known=False, latest=0)


def admit_sources(
    bindings: Collection[Binding],
    facts: Mapping[str, SourceFacts],
    unknown: UnknownSources,
) -> Decision:
    """Decide at capture and before the write; the reason does not depend on the order of the bindings."""
    if _any_revoked(bindings, facts):
        return Refuse(Reason.SOURCE_REVOKED)
    if unknown != "allow" and _any_unknown(bindings, facts):
        return Refuse(Reason.SOURCE_UNKNOWN)
    if _any_withdrawn(bindings, facts):
        return Refuse(Reason.DEPENDENCY_CHANGED)
    return ALLOW


def cleared(
    bindings: Collection[Binding],
    facts: Mapping[str, SourceFacts],
    clearances: frozenset[str],
) -> bool:
    """Say whether a viewer holds every audience tag of every source; lacking one is lacking all."""
    return all(_facts(binding, facts).audience <= clearances for binding in bindings)


def readable_sources(
    bindings: Collection[Binding],
    facts: Mapping[str, SourceFacts],
    clearances: frozenset[str],
    unknown: UnknownSources,
) -> Decision:
    """Decide at read: clearance first, then whether every source and bound version may still be read."""
    if not cleared(bindings, facts, clearances):
        return Refuse(Reason.PERMISSION_DENIED)
    if _any_revoked(bindings, facts) or (unknown != "allow" and _any_unknown(bindings, facts)):
        return Refuse(Reason.SOURCE_UNAVAILABLE)
    if _any_withdrawn(bindings, facts):
        return Refuse(Reason.DEPENDENCY_CHANGED)
    return ALLOW


def newer(bindings: Collection[Binding], facts: Mapping[str, SourceFacts]) -> Mapping[str, int]:
    """Name the latest version of each source that is newer than the bound one; that alone changes nothing."""
    return {
        binding.source: _facts(binding, facts).latest
        for binding in bindings
        if binding.version is not None and binding.version < _facts(binding, facts).latest
    }


def _facts(binding: Binding, facts: Mapping[str, SourceFacts]) -> SourceFacts:
    return facts.get(binding.source, NOT_KNOWN)


def _any_revoked(bindings: Collection[Binding], facts: Mapping[str, SourceFacts]) -> bool:
    return any(_facts(binding, facts).revoked for binding in bindings)


def _any_unknown(bindings: Collection[Binding], facts: Mapping[str, SourceFacts]) -> bool:
    return any(_unknown(binding.version, _facts(binding, facts)) for binding in bindings)


def _any_withdrawn(bindings: Collection[Binding], facts: Mapping[str, SourceFacts]) -> bool:
    return any(_withdrawn(binding.version, _facts(binding, facts)) for binding in bindings)


def _unknown(version: int | None, source: SourceFacts) -> bool:
    # Versions are minted by the store, so that one above the latest is nobody's.
    return not source.known or (version is not None and not 1 <= version <= source.latest)


def _withdrawn(version: int | None, source: SourceFacts) -> bool:
    if version is not None:
        return version in source.withdrawn
    return source.known and all(each in source.withdrawn for each in range(1, source.latest + 1))
