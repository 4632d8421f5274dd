"""Failures to sign in, counted by key id and by address, in this process and in bounded memory.

A key's secret has 256 bits and is not guessed; what this keeps small is the load and the noise of trying. No answer
tells whether a key exists: a text that is none counts as well, under whatever id it names.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Bound:
    """So many failures within so many seconds."""

    failures: int
    within_s: float


OF_KEY: Final = Bound(10, 300.0)
# Many people may come from one address.
OF_ADDRESS: Final = Bound(50, 300.0)


@dataclass(slots=True)
class _Count:
    began: float
    failures: int


class Throttle:
    """Counts failures of each name over windows of its bound; the least recently counted is forgotten first."""

    def __init__(self, size: int = _REMEMBERED) -> None:
        self._size = size
        self._counts: OrderedDict[Hashable, _Count] = OrderedDict()

    def wait_s(self, name: Hashable, bound: Bound, now: float) -> float:
        """Return how long to wait before the next try; 0 where there is nothing to wait for."""
        count = self._counts.get(name)
        if count is None or count.failures < bound.failures:
            return 0.0
        return max(0.0, count.began + bound.within_s - now)

    def failed(self, name: Hashable, bound: Bound, now: float) -> None:
        """Count one failure."""
        count = self._counts.get(name)
        if count is None or now >= count.began + bound.within_s:
            self._counts[name] = _Count(now, 1)
        else:
            count.failures += 1
        self._counts.move_to_end(name)
        while len(self._counts) > self._size:
            self._counts.popitem(last=False)

    def succeeded(self, name: Hashable) -> None:
        """Forget the failures of a name."""
        self._counts.pop(name, None)
