"""Every alarm in words: what it means for whoever looks, and what an operator does about it (docs/operations.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from store.services.alarms import STOPS, Alarm, Raised


@dataclass(frozen=True, slots=True)
class AlarmWords:
    """What an alarm is called, what it means, what can be done, and whether it stops reads (`stop`) or warns."""

    name: str
    sentence: str
    advice: str
    level: str


_CLOSED: Final = "No evidence is shown until then; captures go on."

_ALARMS: Final[Mapping[Alarm, tuple[str, str, str]]] = MappingProxyType(
    {
        Alarm.ROLLED_BACK: (
            "Reads are closed: the log was rolled back.",
            f"The database has fewer leaves than were published. {_CLOSED}",
            "On the host: python -m store restore.",
        ),
        Alarm.FORKED: (
            "Reads are closed: the log is forked.",
            f"The database has other leaves than were published. {_CLOSED}",
            "It is never resumed as it is: docs/operations.md, Out of a fork.",
        ),
        Alarm.RESTORING: (
            "Reads are closed: a restore is under way.",
            _CLOSED,
            "If nobody runs it, on the host: python -m store restore again.",
        ),
        Alarm.NOT_COMPARED: (
            "Reads are closed: the log was not compared with its mirror in time.",
            f"Only a log that was lately found to be what was published may be believed. {_CLOSED}",
            "See whether the publisher runs and can write its mirror.",
        ),
        Alarm.KEYS_WRONG: (
            "Keys at rest are wrong.",
            "Faults that the last daily look found:",
            "On the host: python -m store keys-at-rest check.",
        ),
        Alarm.DUTIES_LATE: (
            "Duties are late.",
            "These have not succeeded for several of their periods:",
            "See whether the duties run, and what their last outcome was.",
        ),
        Alarm.QUEUE_AWAY: (
            "The write queue does not answer.",
            "Nothing can be captured meanwhile; clients keep count of what is missed.",
            "Look at Redis or Valkey.",
        ),
        Alarm.WRITERS_BEHIND: (
            "Writers are behind.",
            "What waits longest in the queue has waited for over a minute.",
            "See whether the writers run and reach the database.",
        ),
        Alarm.LEAVES_WAIT: (
            "Leaves wait for their place in the proof log.",
            "Parts are stored all the same, and stay pending.",
            "See whether the duty sequence runs.",
        ),
        Alarm.EXPIRY_BEHIND: (
            "Expiry is behind.",
            "Content that has expired, and is refused, is still on the disk.",
            "See whether the duty expiry runs.",
        ),
        Alarm.UNANSWERED: (
            "The database is slow.",
            "It did not answer in two seconds whether anything is wrong, so there may be more.",
            "Look at Postgres.",
        ),
    }
)


def of_alarm(raised: Raised) -> AlarmWords:
    """Return the words of an alarm."""
    name, sentence, advice = _ALARMS[raised.alarm]
    return AlarmWords(name, sentence, advice, "stop" if raised.alarm in STOPS else "warn")
