"""What a read of a part is decided on, from the row of whichever statement read it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from policies.availability import PartFacts
from policies.kinds import PartState
from policies.reasons import Reason
from policies.revocation import Binding, SourceFacts, UnknownSources
from store.db import Record


@dataclass(frozen=True, slots=True)
class Ground:
    """All that availability needs of one part, as it was at `observed_at`."""

    facts: PartFacts
    bindings: tuple[Binding, ...]
    sources: dict[str, SourceFacts]
    unknown_sources: UnknownSources
    observed_at: datetime


class _SourceFacts(msgspec.Struct, array_like=True, frozen=True):
    source: str
    revoked: bool
    latest: int
    audience: frozenset[str]
    withdrawn: frozenset[int]


_source_facts: Final = msgspec.json.Decoder(list[_SourceFacts])


def ground_of(row: Record, *, body_present: bool) -> Ground:
    """Return the ground that stands in a row of `pages.facts` or `contents.part`."""
    reason = row["purge_reason"]
    return Ground(
        facts=PartFacts(
            state=PartState(row["state"]),
            purge_reason=None if reason is None else Reason(reason),
            retain_until=row["retain_until"],
            bucket_expired=row["bucket_expired"],
            body_present=body_present,
            held=row["held"],
            run_erased=row["erased"],
        ),
        bindings=_bindings(row),
        sources={} if row["source_facts"] is None else _sources(row["source_facts"]),
        # Anything but a clear `allow` refuses what nobody knows.
        unknown_sources="allow" if row["unknown_sources"] == "allow" else "refuse",
        observed_at=row["observed_at"],
    )


def _bindings(row: Record) -> tuple[Binding, ...]:
    if row["sources"] is None:
        return ()
    pairs = zip(row["sources"], row["versions"], strict=True)
    return tuple(Binding(source, version) for source, version in pairs)


def _sources(text: str) -> dict[str, SourceFacts]:
    return {
        each.source: SourceFacts(
            revoked=each.revoked, latest=each.latest, withdrawn=each.withdrawn, audience=each.audience
        )
        for each in _source_facts.decode(text)
    }
