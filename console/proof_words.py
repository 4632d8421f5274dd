"""How a part stands in the proof log, and how a read of it ended, in words: what each allows to say."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from console import words
from policies.reasons import Reason
from store.services.access import READ
from store.services.part_views import ProofState


@dataclass(frozen=True, slots=True)
class Said:
    """What a state is called, what it means, what can be done, and how it looks."""

    name: str
    sentence: str
    advice: str
    level: str


_STATES: Final[Mapping[ProofState, Said]] = MappingProxyType(
    {
        "pending": Said(
            "Pending",
            "Its leaf waits for its place in the proof log, or for the checkpoint that covers it.",
            "The log is signed once a second: look again in a moment. If it stays so, operators see an alarm.",
            "warn",
        ),
        "verified": Said(
            "Verified",
            "Just now: its leaf says what its row says, the metadata shown here is what was committed to, "
            "and the leaf is in the tree of the published checkpoint.",
            "The content itself is checked whenever it is read. To check without us, export a bundle.",
            "good",
        ),
        "failed": Said(
            "Failed",
            "What is shown here is not what the log has: the leaf, the metadata or the tree does not fit.",
            "Operators: this is an alarm. On the host: python -m store verify.",
            "bad",
        ),
        "not_checked": Said(
            "Not checked",
            "Nothing was looked at: what it would be checked against is not here any more.",
            "Its leaf stays in the log. A bundle has the proofs of what became of it.",
            "",
        ),
    }
)


# Of what a read can be malformed by, only this is known after the part was found, and so recorded.
_WITHOUT_PURPOSE: Final = Said(
    "No purpose said",
    "The read had to say what it was for, and did not.",
    "It can be tried again with one.",
    "warn",
)


def of_state(state: ProofState) -> Said:
    """Return the words of a proof state."""
    return _STATES[state]


def of_outcome(outcome: str) -> Said:
    """Return the words of an access record's outcome: that it was read, or why it was refused."""
    if outcome == READ:
        return Said("Read", "The content was given out.", "", "good")
    if outcome == Reason.MALFORMED_REQUEST:
        return _WITHOUT_PURPOSE
    said = words.at_read(Reason(outcome))
    return Said(said.name, said.sentence, said.advice, "warn")
