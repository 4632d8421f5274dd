"""`capture_refused`: what a capture takes where the run is not admitted, small or large content."""

import statistics
from typing import Any, Final

from bench.capturing import NotAsMeant, asked, client, thread_us
from bench.figures import Figure
from bench.setting import Setting
from custody_client import Attempt, Custody

ROUNDS: Final = 9
CAPTURES: Final = 2_000
SIZES: Final = (4 * 1024, 1024 * 1024)


async def measure(setting: Setting) -> list[Figure]:
    """Return the worse of both sizes."""
    contents = {size: asked(setting.contents, size) for size in SIZES}
    async with client(setting) as custody:
        found = {
            size: [_round(custody, content, f"{size}-{at}") for at in range(setting.rounds(ROUNDS))]
            for size, content in contents.items()
        }
    medians = {size: statistics.median(each) for size, each in found.items()}
    told = "; ".join(f"{size // 1024} KiB: {median:.2f} µs" for size, median in medians.items())
    return [Figure("capture_refused", max(medians.values()), f"{told} ({CAPTURES} captures a round)")]


def _round(custody: Custody, content: dict[str, Any], name: str) -> float:
    run = custody.run(f"refused-{name}", content="opt_out", wait=2.0)
    if run.admits("logical-request"):
        raise NotAsMeant("a run that opted out was admitted")
    attempts = [run.exchange().attempt() for _ in range(CAPTURES)]

    def capture(attempt: Attempt) -> None:
        attempt.capture_request(content)

    before = custody.counters().observed
    taken = thread_us(capture, attempts)
    if custody.counters().observed != before + CAPTURES:
        raise NotAsMeant("what was refused was not counted")
    run.close()
    return taken
