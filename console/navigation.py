"""Which pages a role is shown. What is shown decides nothing: every page has a guard of its own."""

from dataclasses import dataclass
from typing import Final

from policies.kinds import Role

_READERS: Final = frozenset({Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR})
# As the api has them (store/api/guards.py): what a call refuses, no page offers.
_OF_ACCESSES: Final = frozenset({Role.AUDITOR, Role.OPERATOR, Role.CUSTODIAN})
_OF_EXPORTS: Final = frozenset({Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR})
_OF_DESK: Final = frozenset({Role.OPERATOR})
_OF_ACTIONS: Final = frozenset({Role.AUDITOR, Role.OPERATOR})


@dataclass(frozen=True, slots=True)
class Place:
    """One entry: where it leads, what it is called, and whose it is."""

    path: str
    name: str
    roles: frozenset[Role] = _OF_DESK


PLACES: Final = (
    Place("/runs", "Runs", _READERS),
    Place("/accesses", "Accesses", _OF_ACCESSES),
    Place("/exports", "Exports", _OF_EXPORTS),
    Place("/log", "Proof log", _READERS),
    Place("/desk", "Desk"),
    # Operators have it on the desk.
    Place("/desk/actions", "Actions", frozenset({Role.AUDITOR})),
)
DESK: Final = (
    Place("/desk", "Overview"),
    Place("/desk/scopes", "Scopes"),
    Place("/desk/keys", "Keys"),
    Place("/desk/sources", "Sources"),
    Place("/desk/holds", "Holds"),
    Place("/desk/erasures", "Erasures"),
    Place("/desk/duties", "Duties"),
    Place("/desk/completeness", "Completeness"),
    Place("/desk/queue", "Queue"),
    Place("/desk/actions", "Actions", _OF_ACTIONS),
)


def places(role: Role) -> list[Place]:
    """Return the entries for a role."""
    return [place for place in PLACES if role in place.roles]


def may_open(role: Role, path: str) -> bool:
    """Say whether an entry is for a role."""
    return any(place.path == path and role in place.roles for place in PLACES)


def at(path: str, place: Place) -> bool:
    """Say whether a page is at, or below, an entry; parts have an address of their own, and are of runs."""
    below = (place.path, "/parts") if place.path == "/runs" else (place.path,)
    return path == place.path or any(path.startswith(f"{each}/") for each in below)
