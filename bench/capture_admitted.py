"""`capture_admitted`: what a capture of 4 KiB in an admitted run takes from its caller, less the one JSON encoding."""

import statistics
from typing import Any, Final

import msgspec

from bench.capturing import A_RUN, admitted, asked, client, delivered, thread_us
from bench.figures import Figure
from bench.setting import Setting
from custody_client import Attempt, Custody

ROUNDS: Final = 31


async def measure(setting: Setting) -> list[Figure]:
    """Return the median of the rounds."""
    async with client(setting) as custody:
        rounds = [_round(setting, custody, at) for at in range(setting.rounds(ROUNDS))]
    captures, encodings = zip(*rounds, strict=True)
    value = statistics.median(capture - encoding for capture, encoding in rounds)
    told = (
        f"{statistics.median(captures):.1f} µs, of which {statistics.median(encodings):.1f} encode; "
        f"{len(rounds)} rounds of {A_RUN}, {min(captures):.1f} to {max(captures):.1f}"
    )
    return [Figure("capture_admitted", value, told)]


def _round(setting: Setting, custody: Custody, at: int) -> tuple[float, float]:
    run = admitted(custody, f"admitted-{at}")
    contents = [asked(setting.contents) for _ in range(A_RUN)]
    pairs = [(run.exchange().attempt(), content) for content in contents]
    before = custody.counters().delivered
    capturing = thread_us(_capture, pairs)
    encoding = thread_us(msgspec.json.encode, contents)
    delivered(custody, before, A_RUN)
    run.close()
    return capturing, encoding


def _capture(pair: tuple[Attempt, dict[str, Any]]) -> None:
    attempt, content = pair
    attempt.capture_request(content)
