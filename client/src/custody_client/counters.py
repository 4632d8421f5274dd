"""What became of everything that was observed in this process: numbers, and never content."""

from collections.abc import Mapping

import msgspec


class Counters(msgspec.Struct, frozen=True):
    """One look at the numbers of one client.

    `observed` is the sum of `waiting`, `delivered`, all of `not_captured`, and `undecided`.
    """

    observed: int = 0
    """Observations that were numbered, also the refused."""
    waiting: int = 0
    """Parts that wait in memory, or are on their way."""
    waiting_bytes: int = 0
    delivered: int = 0
    """Parts that the service answered `queued` or `stored`."""
    not_captured: Mapping[str, int] = {}
    """By reason: refused by the service, by its admission, or lost here."""
    undecided: int = 0
    """Observations of which nothing can be said yet: while the admission is awaited, and refused ones for seconds."""
    untold: int = 0
    """Of `not_captured`, what the service has not been told of yet."""
    facts_told: int = 0
    """Facts that the service took; facts are none of `observed`."""
    facts_waiting: int = 0
    """Facts that wait in memory; those on their way are none of them."""
    facts_lost: Mapping[str, int] = {}
    """Facts that were not taken, by reason: by the service, or here."""
    troubles: Mapping[str, int] = {}
    """Kinds of trouble, and how often each was: also calls of this client that were wrong (an id, a word)."""
    requests: int = 0
    unanswered: int = 0
    """Requests that got no answer, or one that was not to be understood."""
