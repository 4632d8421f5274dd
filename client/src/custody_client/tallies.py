"""What became of facts: they are numbered by nobody, so that counting is all that is known of what got lost."""

from itertools import count

from custody_client.ledger import numbered


class Tally:
    """Facts of one client. `lose` may be called by any thread, also amid itself: a counter waits for nobody."""

    __slots__ = ("_lost", "told")

    def __init__(self) -> None:
        self.told = 0
        """What the service took; the background thread's alone."""
        self._lost: dict[str, count[int]] = {}

    def lose(self, reason: str, many: int = 1) -> None:
        """Count facts that nobody will be told of."""
        counter = self._lost.setdefault(reason, count(1))
        for _ in range(many):
            next(counter)

    def lost(self) -> dict[str, int]:
        """Return how many were lost, by reason."""
        return {reason: numbered(counter) for reason, counter in list(self._lost.items())}
