"""Work that must not keep others from their turn: what is short is done in place, what is long in a thread.

Many short things in a thread would hold the interpreter as long as here, and be harder to interrupt.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

Answer = TypeVar("Answer")

# Opening or deflating so much takes about a millisecond, most of which other threads may run in.
_LONG_BYTES: Final = 32 << 10


async def in_turn(size: int, work: Callable[[], Answer]) -> Answer:
    """Do what is about `size` bytes of content, and then let others have their turn."""
    if size > _LONG_BYTES:
        return await asyncio.to_thread(work)
    done = work()
    await asyncio.sleep(0)
    return done
