"""A restore in a process of its own that is killed at a step: `python -m tests.support.dying_restore MODULE NAME WHEN`.

WHEN is `before` or `after` the call of that function. Settings come from the environment, as for the command.
"""

import asyncio
import importlib
import os
import signal
import sys
from typing import Any

from store.config import from_environment
from store.wiring import open_services, restore_of


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at(module: str, name: str, when: str) -> None:
    owner: Any = importlib.import_module(module)
    *classes, last = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    whole = getattr(owner, last)

    async def dying(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            _kill()
        await whole(*arguments, **named)
        _kill()

    setattr(owner, last, dying)


async def main() -> None:
    _die_at(*sys.argv[1:])
    async with open_services(from_environment({}), duties=True) as services:
        await restore_of(services).run("operator-1", print)


if __name__ == "__main__":
    asyncio.run(main())
