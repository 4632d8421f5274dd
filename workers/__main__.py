"""`python -m workers write`: one writer process, until it is told to stop."""

import argparse
import asyncio
import os
import signal
import sys

import uvloop

from store import logging
from store.config import Settings, from_environment
from store.errors import ConfigFaults
from store.wiring import open_services
from workers.writer import Writer


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("what", choices=["write"], help="write: take from the queue, store, settle")
    parser.parse_args()
    try:
        settings = from_environment()
        logging.configure(settings.log_level)
        uvloop.run(write(settings))
    except ConfigFaults as faults:
        print(*faults.faults, sep="\n", file=sys.stderr)
        return os.EX_CONFIG
    return os.EX_OK


async def write(settings: Settings) -> None:
    """Write until SIGTERM or SIGINT; what is under way then is finished, the rest stays queued."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    async with open_services(settings) as services:
        await Writer.of(services.settings, services.database, services.keyring, services.queue).run(stop)


if __name__ == "__main__":
    sys.exit(main())
