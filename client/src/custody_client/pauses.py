"""When to ask again after no answer: later each time, never all clients at once, one request as the probe."""

import os
from typing import Final

_FIRST_S: Final = 0.5
_MOST_S: Final = 30.0
_SOON_S: Final = 0.25


class Pause:
    """The state of one service as this client sees it: since when it has not answered, and when to try again."""

    __slots__ = ("_failed_at", "failures", "since", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.since: float | None = None
        self.until = 0.0
        self._failed_at = float("-inf")

    def answered(self) -> None:
        """Note an answer, of whatever kind."""
        self.failures, self.since, self.until = 0, None, 0.0

    def failed(self, now: float, least_s: float = 0.0) -> None:
        """Note that there was none; `least_s` is what the service asked for."""
        if self.since is None:
            self.since = now
        self._failed_at = now
        longest = min(_MOST_S, _FIRST_S * 2**self.failures)
        self.failures = min(self.failures + 1, 16)
        # From half of it to all of it.
        self.until = now + max(min(least_s, _MOST_S), longest * (0.5 + _random() / 2))

    def over(self, now: float) -> bool:
        """Say whether the next request may go."""
        return now >= self.until

    def once_more(self) -> None:
        """Allow the next request soon, for who cannot wait; however often that is said, there is still a pause."""
        self.until = min(self.until, self._failed_at + _SOON_S)


def _random() -> float:
    # The module `random` takes longer to import than all of this client.
    return int.from_bytes(os.urandom(4)) / 2**32
