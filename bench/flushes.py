"""The load of the benchmarks that post flushes: so many parts that they last, so few that no bound is met."""

from collections.abc import Iterator, Sequence
from typing import Final

from bench.wire import Run, post_frames

FLUSH: Final = 32
CONNECTIONS: Final = 8
# Eight scopes with an equal part of this never meet their share of the queue, even if no writer gets to work.
PARTS: Final = 10_240


def requests_of(runs: Sequence[Run], contents: Sequence[bytes]) -> Iterator[bytes]:
    """Yield one flush for each run."""
    for at, run in enumerate(runs):
        yield post_frames(run, contents[at * FLUSH : (at + 1) * FLUSH])
