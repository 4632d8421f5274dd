"""`capture_down`: the worst captures of ten thousand while the service is gone, ms as the caller sees them pass.

The runs are admitted before it goes, so contents are encoded until no more may wait; then newcomers are refused.
"""

import time
from typing import Final

from bench.capturing import NotAsMeant, admitted, asked
from bench.figures import Figure, percentile
from bench.setting import Setting
from custody_client import Attempt, Custody

RUNS: Final = 100
CAPTURES: Final = 10_000


async def measure(setting: Setting) -> list[Figure]:
    """Return the 99.9th percentile."""
    store = await setting.store()
    contents = [asked(setting.contents) for _ in range(100)]
    async with store.api() as api:
        custody = Custody(f"http://127.0.0.1:{api.port}", store.runtimes[0])
        runs = [admitted(custody, f"down-{at}") for at in range(RUNS)]
    try:
        attempts = [runs[at % RUNS].exchange().attempt() for at in range(CAPTURES)]
        taken = [_ms(attempt, contents[at % 100]) for at, attempt in enumerate(attempts)]
        counted = custody.counters()
    finally:
        custody.close()
    if counted.observed < CAPTURES or counted.delivered:
        raise NotAsMeant(f"not every capture was counted, or one was delivered: {counted}")
    worst = percentile(taken, 99.9)
    told = (
        f"{CAPTURES} captures of 4 KiB: median {percentile(taken, 50) * 1000:.1f} µs, 99.9 % {worst:.3f} ms, "
        f"worst {max(taken):.2f} ms; {counted.waiting} waited"
    )
    return [Figure("capture_down", worst, told)]


def _ms(attempt: Attempt, content: object) -> float:
    began = time.perf_counter_ns()
    attempt.capture_request(content)
    return (time.perf_counter_ns() - began) / 1e6
