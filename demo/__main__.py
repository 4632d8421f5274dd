"""`python -m demo`: bring the service up, play, read back, and say what became of every observation."""

import argparse
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
from rich.console import Console

from demo import corpus, report
from demo.agent import Story, play
from demo.api import Api
from demo.reviewer import Finding, review
from demo.stack import NotUp, Stack, running

# An operator keeps the demonstration honest: the part must really have expired before it is read back.
_EXPIRES_AFTER_S = 10.5
_LOG_WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; 0 when everything is accounted for, 1 when something is not, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    if options.corpus is not None and not options.corpus.is_file():
        _parser().error(f"there is no corpus at {options.corpus}")
    return asyncio.run(_run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave everything running, and say where, with keys"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument(
        "--corpus", type=Path, help="post all calls of this .jsonl.gz instead of playing the agent"
    )
    return parser


async def _run(options: argparse.Namespace) -> int:
    console = Console(highlight=False)
    if not console.is_terminal:
        # A log has no width of its own; the tables need this much.
        console.width = _LOG_WIDTH
    console.print(
        "[bold]Custody, the demonstration.[/] Real PostgreSQL and Valkey come up in a directory of their own."
    )
    try:
        async with running(console, keep=options.keep) as stack:
            started = time.monotonic()
            story, findings = await _journey(stack, options.corpus)
            seconds = time.monotonic() - started
            report.show(console, story, findings)
            faults = report.faults(findings)
            for fault in faults:
                console.print(f"[bold red]does not add up:[/] {fault}")
            if options.keep:
                _say_where(console, stack)
            if options.json:
                print(report.summary(findings, seconds), flush=True)
            return 1 if faults else 0
    except NotUp:
        console.print("[bold red]The service did not come up;[/] its own words are above.")
        return 1


async def _journey(stack: Stack, path: Path | None) -> tuple[Story, list[Finding]]:
    limits = httpx.Limits(max_connections=16)
    async with httpx.AsyncClient(base_url=stack.url, timeout=30, limits=limits) as http:
        roles = {role: Api(http, key) for role, key in stack.keys.items()}
        began = time.monotonic()
        if path is None:
            story = await play(roles["runtime"], roles["operator"])
            # The first scene declared a run that keeps its content for ten seconds.
            await asyncio.sleep(max(0.0, _EXPIRES_AFTER_S - (time.monotonic() - began)))
        else:
            story = await corpus.post(roles["runtime"], path)
        return story, await review(roles["reviewer"], story)


def _say_where(console: Console, stack: Stack) -> None:
    console.print(
        f"\nStill running at [bold]{stack.url}[/] (process {stack.pid}); stop it with: kill {stack.pid}"
    )
    console.print(f"It keeps its data in {stack.directory}", markup=False)
    console.print(f"  export URL={stack.url}", markup=False)
    for role, key in stack.keys.items():
        console.print(f"  export {role.upper()}_KEY={key}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
