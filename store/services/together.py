"""What several ask at once is done once for all of them: fewer statements and commits, and nobody waits to be joined.

Whoever comes while nothing is under way is served at once; those who come meanwhile are served together, next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Together(Generic[Item, Answer]):
    """Gathers items for `act`, which answers them in their order; what it raises is raised for each of them.

    At most `most` items go together, in at most `lanes` groups at a time. Where groups follow one another, the next one
    is gathered for `gather_s`.
    """

    def __init__(
        self,
        act: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int,
        lanes: int = 1,
        gather_s: float = 0.0,
    ) -> None:
        self._act = act
        self._most = most
        self._free_lanes = lanes
        self._gather_s = gather_s
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._working: set[asyncio.Task[None]] = set()

    async def ask(self, item: Item) -> Answer:
        """Return the answer to one item; who stops waiting takes nothing from the others."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._free_lanes > 0:
            self._free_lanes -= 1
            task = asyncio.create_task(self._work())
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        return await answer

    async def close(self) -> None:
        """Wait for what is under way."""
        if self._working:
            await asyncio.wait(self._working)

    async def _work(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(group)
                if self._waiting and self._gather_s:
                    await asyncio.sleep(self._gather_s)
        finally:
            # Nothing is awaited between the last look at who waits and this: nobody is overlooked.
            self._free_lanes += 1

    async def _answer(self, group: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._act([item for item, _ in group])
        except asyncio.CancelledError:
            for _, future in group:
                future.cancel()
            raise
        except Exception as fault:  # noqa: BLE001 - it is raised by everybody who waits for it
            for _, future in group:
                if not future.done():
                    future.set_exception(fault)
            return
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():
                future.set_result(answer)
