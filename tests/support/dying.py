"""For programs that are killed at a step: before it, or as soon as it has happened."""

import asyncio
import importlib
import os
import signal
from typing import Any


def die_at(step: str, when: str) -> None:
    """Have this process killed where `step` (`module:name` or `module:Class.name`) is called; `when`: before, after."""
    module, _, path = step.partition(":")
    *owners, name = path.split(".")
    place: Any = importlib.import_module(module)
    for owner in owners:
        place = getattr(place, owner)
    setattr(place, name, _killing(getattr(place, name), when))


def _killing(real: Any, when: str) -> Any:
    if asyncio.iscoroutinefunction(real):

        async def awaited(*arguments: Any, **named: Any) -> None:
            if when == "before":
                _die()
            # Within a transaction, what was done is not committed yet: that is as good a moment to die as any.
            await real(*arguments, **named)
            _die()

        return awaited

    def called(*arguments: Any, **named: Any) -> None:
        if when == "before":
            _die()
        real(*arguments, **named)
        _die()

    return called


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
