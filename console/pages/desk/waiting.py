"""What waits in the queue. All of it is for operators of the whole store; others see their own scope's wait."""

import asyncio
from dataclasses import dataclass
from typing import Final

from console.guards import Signed
from store.errors import Unavailable
from store.queue import Depth
from store.wiring import Services

_DEADLINE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the queue answered; `answered` false: it did not in time. `shards` is empty for one scope's operator."""

    answered: bool
    oldest_s: float = 0.0
    shards: tuple[Depth, ...] = ()

    @property
    def parts(self) -> int:
        """Return how many parts wait."""
        return sum(each.parts for each in self.shards)

    @property
    def notes(self) -> int:
        """Return how many states, gaps and facts wait."""
        return sum(each.notes for each in self.shards)


async def now_waiting(opened: Services, who: Signed) -> Waiting:
    """Ask the queue, for as long as a page may take."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            if who.of_store:
                depths = tuple(await opened.queue.depth())
                return Waiting(
                    answered=True,
                    oldest_s=max((each.oldest_age_s for each in depths), default=0.0),
                    shards=depths,
                )
            scope = who.in_scope.scope_id
            return Waiting(answered=True, oldest_s=(await opened.queue.scopes_wait_s([scope]))[scope])
    except (Unavailable, TimeoutError):
        return Waiting(answered=False)


async def outcomes_of(opened: Services) -> list[tuple[str, int]]:
    """Return how often the queue answered each word since it began; nothing where it does not answer."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            return sorted((await opened.queue.outcomes()).items())
    except (Unavailable, TimeoutError):
        return []
