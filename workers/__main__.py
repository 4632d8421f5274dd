"""`python -m workers write` and `python -m workers publish`: one process of ours, until it is told to stop."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import uvloop

from store import logging
from store.config import Settings, from_environment
from store.errors import ConfigFaults
from store.wiring import open_publishing, open_services
from workers.publisher import Publisher
from workers.writer import Writer

# Where both want the same core, captures go first: the queue is there to absorb, and batches that grow meanwhile cost
# less a part. Still a tenth of a full share, so that a busy host does not keep writers from what waits.
_BEHIND_CAPTURES: Final = 10


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    what = "write: take from the queue, store, settle; publish: sign the log, and write its mirror"
    parser.add_argument("what", choices=list(_WORK), help=what)
    said = parser.parse_args()
    try:
        settings = from_environment()
        logging.configure(settings.log_level)
        uvloop.run(_WORK[said.what](settings))
    except ConfigFaults as faults:
        print(*faults.faults, sep="\n", file=sys.stderr)
        return os.EX_CONFIG
    return os.EX_OK


async def write(settings: Settings) -> None:
    """Write until SIGTERM or SIGINT; what is under way then is finished, the rest stays queued."""
    stop = _told_to_stop()
    os.nice(_BEHIND_CAPTURES)
    async with open_services(settings) as services:
        _collect_seldom()
        await Writer.of(services.settings, services.database, services.keyring, services.queue).run(stop)


async def publish(settings: Settings) -> None:
    """Publish until SIGTERM or SIGINT; a round that is under way is finished."""
    stop = _told_to_stop()
    async with open_publishing(settings) as (database, publishing):
        await Publisher(database, publishing).run(stop)


def _collect_seldom() -> None:
    """Look for circles of garbage once in many batches: a batch makes none, but as many objects as call for a look."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def _told_to_stop() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    return stop


_WORK: Final[Mapping[str, Callable[[Settings], Coroutine[Any, Any, None]]]] = {
    "write": write,
    "publish": publish,
}

if __name__ == "__main__":
    sys.exit(main())
