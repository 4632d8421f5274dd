"""What each standing duty does, in a sentence, and how it ended; a test holds it complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from store.services.duties import OK
from store.services.overview import DutyStanding

DUTIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "intake_keys": "Makes the hours' keys under which the queue holds what waits, and destroys those of the past.",
        "buckets": "Makes the buckets, and their keys, into which content is written.",
        "reconcile": "Closes runs, accounts for what is missing, and notices a queue that was lost.",
        "accounts": "Accounts again for closed runs of which more became known.",
        "purge": "Destroys what was erased or revoked, and ends holds whose grace is over.",
        "expiry": "Destroys the keys and the content of spans whose retention is over.",
        "sequence": "Gives leaves their place in the proof log.",
        "metadata": "Forgets runs whose metadata is kept no longer.",
        "months": "Makes and drops the months of tables that only grow, and removes console sessions that are over.",
        "depths": "Notes each minute how deep the queue is and what was refused, and forgets it after a week.",
        "bucket_keys": "Looks at all keys at rest once a day.",
        "canary": "Sends a part of its own the whole way, and reads it back.",
        "publish": "Signs and publishes the proof log, and compares it with its mirror.",
    }
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a duty ended the last time: a word, how bad that is, and what it counted or why it failed."""

    word: str
    level: str
    what: Sequence[str] = ()


def ended(duty: DutyStanding) -> Ended:
    """Read how a duty ended from what its lease keeps, as store/services/duties.py writes it."""
    said = "never" if duty.lease is None else duty.lease.last_outcome
    word, *counts = said.split(" ")
    if word == OK:
        return Ended(
            "done", "good", [f"{name.replace('_', ' ')} {count}" for name, _, count in _pairs(counts)]
        )
    if word == "failed:":
        return Ended("failed", "bad", [" ".join(counts)])
    return Ended("never ran" if word == "never" else said, "warn")


def _pairs(counts: Sequence[str]) -> list[tuple[str, str, str]]:
    return [each.partition("=") for each in counts]
