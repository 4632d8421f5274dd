"""`lineage_bind`: what a representation of a result takes from its binding to the submission that carries it, µs.

Processor time for a text of 4 KiB: bound, found in its message of a request of 200, and submitted. The least of the
rounds: it is always the same work, and whatever else the machine does only adds to it.
"""

import asyncio
import statistics
import time
from typing import Final

from bench.capturing import SIZE, NotAsMeant
from bench.figures import Figure
from bench.setting import Setting
from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage import Lineage

ROUNDS: Final = 51
TIMES: Final = 20
BETWEEN_S: Final = 0.25
MESSAGES: Final = 200


async def measure(setting: Setting) -> list[Figure]:
    """Return the least of the rounds, with what each step takes of it."""
    results = [ResultRef("bench", f"action-{at}") for at in range(MESSAGES)]
    texts = [setting.contents.one(SIZE).decode("utf-8", "replace") for _ in range(MESSAGES)]
    rounds = []
    for _ in range(TIMES):
        rounds += [_round(results, texts) for _ in range(setting.rounds(ROUNDS))]
        # A slow moment of the machine lasts for seconds: some rounds are to lie outside of it.
        await asyncio.sleep(BETWEEN_S)
    bind, prepare, submit = min(rounds, key=sum)
    median = statistics.median(map(sum, rounds))
    told = (
        f"bound {bind:.1f} µs, found {prepare:.1f}, submitted {submit:.1f}; {len(rounds)} rounds of {MESSAGES}, "
        f"median {median:.1f}"
    )
    return [Figure("lineage_bind", bind + prepare + submit, told)]


def _round(results: list[ResultRef], texts: list[str]) -> tuple[float, float, float]:
    with Lineage("bench") as lineage:
        began = time.thread_time_ns()
        bound = [lineage.bind(text, result) for text, result in zip(texts, results, strict=True)]
        marks = [began, time.thread_time_ns()]
        messages = [{"role": "tool", "tool_call_id": "c1", "content": text} for text in bound]
        began = time.thread_time_ns()
        prepared = lineage.prepare("exchange", messages)
        marks += (began, time.thread_time_ns())
        began = time.thread_time_ns()
        prepared.submitted("attempt")
        marks += (began, time.thread_time_ns())
        if not all(len(lineage.occurrences(result.action)) == 1 for result in results[::50]):
            raise NotAsMeant("not every representation was found")
    bind, prepare, submit = ((marks[at + 1] - marks[at]) / len(texts) / 1000 for at in (0, 2, 4))
    return bind, prepare, submit
