"""`python -m bench [name …]`: measure, print `name value target` a line, and keep docs/performance.md."""

import argparse
import asyncio
import importlib
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import uvloop

from bench import content, report, stack
from bench.figures import Figure
from bench.setting import Setting
from store import logging
from store.clock import monotonic

Measure = Callable[[Setting], Awaitable[list[Figure]]]

# In the order in which they run: the ones whose figures a busy database would disturb come first.
BENCHMARKS: Final = (
    "single_accept", "batch_accept", "durable", "durable_with_log", "sequence", "proof", "latency", "read_content",
    "capture_admitted", "capture_refused", "capture_down", "capture_vs_otel", "stream_tap", "calls_beside",
    "client_import", "surface_check", "lineage_bind", "intake_flat", "memory", "page_flat", "run_page", "purge_flat",
    "verify_bundle",
)  # fmt: skip
_SEED: Final = 20_240_131


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 if a first target was missed."""
    wanted = _parser().parse_args(arguments)
    logging.configure("error")
    names = wanted.names or list(BENCHMARKS)
    figures = uvloop.run(_measured(names, wanted))
    if wanted.write or not wanted.names:
        report.write(figures)
    missed = [figure.name for figure in figures if not figure.target.met(figure.value)]
    if missed:
        print(f"# below the first target: {' '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


async def _measured(names: Sequence[str], wanted: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    _stop_in_order()
    contents = content.supply(wanted.corpus, _SEED)
    async with stack.running() as servers, AsyncExitStack() as exits:
        setting = Setting(servers, contents, exits, wanted.rounds)
        for name in names:
            measure: Measure = importlib.import_module(f"bench.{name}").measure
            began = monotonic()
            found = await measure(setting)
            print(f"# {name} took {monotonic() - began:.0f} s", flush=True)
            for figure in found:
                print(f"# {figure.told}\n{figure.line()}", flush=True)
            figures += found
    return figures


def _stop_in_order() -> None:
    """Told to end, take the servers and processes down too, as at Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {' '.join(BENCHMARKS)} (all)")
    parser.add_argument(
        "--corpus", type=Path, help="gzipped JSON lines of recorded calls, instead of made contents"
    )
    parser.add_argument("--rounds", type=int, help="at most so many rounds, for a quick look")
    parser.add_argument(
        "--write", action="store_true", help="put the figures into docs/performance.md, as a whole run does"
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
