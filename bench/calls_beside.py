"""`calls_beside`: what Custody adds to each of a program's fifty calls, up, away or hanging, and to the program's end.

Each program is a process of its own and calls a provider of this machine over sockets; its answers are compared. The
wall clock counts, as its owner would see it, and a round's programs run one after another.
"""

import asyncio
import json
import socket
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.capturing import NotAsMeant
from bench.figures import Figure
from bench.setting import Setting
from client.tests.providers.fake_provider import Provider, serving
from store import clock

ROUNDS: Final = 5
WAYS: Final = ("up", "down", "hanging")
_PROGRAM: Final = Path(__file__).with_name("beside_program.py")
_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What one program told: the median of its calls, its answers, and how long it took to end after the last."""

    call_ms: float
    answers: str
    exit_s: float
    observed: int


async def measure(setting: Setting) -> list[Figure]:
    """Return for each way the median of what a call took longer than without Custody, and the slowest end."""
    store = await setting.store()
    found: dict[str, list[Ran]] = {way: [] for way in ("without", *WAYS)}
    with _provider() as provider, _hanging() as hanging:
        async with store.api() as api, store.writers():
            up = f"http://127.0.0.1:{api.port}"
            for at in range(setting.rounds(ROUNDS)):
                urls = {"without": "", "up": up, "down": _nowhere(), "hanging": hanging}
                for way, url in urls.items():
                    found[way].append(await _ran(provider.url, url, store.runtimes[0], f"beside-{way}-{at}"))
            await store.written()
    _as_meant(found)
    return [*(_added(found, way) for way in WAYS), _ends(found)]


def _as_meant(found: dict[str, list[Ran]]) -> None:
    if len({ran.answers for each in found.values() for ran in each}) != 1:
        raise NotAsMeant("the programs did not all get the same answers")
    if any(ran.observed != 2 * 50 for way in WAYS for ran in found[way]):
        raise NotAsMeant("not every call was observed")


def _added(found: dict[str, list[Ran]], way: str) -> Figure:
    added = [ours.call_ms - alone.call_ms for ours, alone in zip(found[way], found["without"], strict=True)]
    told = (
        f"a call takes {statistics.median(ran.call_ms for ran in found[way]):.2f} ms, without Custody "
        f"{statistics.median(ran.call_ms for ran in found['without']):.2f}; {len(added)} rounds, "
        f"{min(added):.2f} to {max(added):.2f}"
    )
    return Figure(f"calls_beside_{way}", max(0.0, statistics.median(added)), told)


def _ends(found: dict[str, list[Ran]]) -> Figure:
    slowest = {way: max(ran.exit_s for ran in each) for way, each in found.items()}
    told = ", ".join(f"{way} {seconds:.2f} s" for way, seconds in slowest.items())
    return Figure(
        "beside_exit", max(slowest[way] for way in WAYS), f"from the last answer to the end: {told}"
    )


async def _ran(provider: str, custody: str, key: str, run_id: str) -> Ran:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_PROGRAM), provider, custody, key, run_id, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(_WITHIN_S):
        line = await process.stdout.readline()
        answered = clock.monotonic()
        await process.wait()
    ended_s = clock.monotonic() - answered
    told = json.loads(line)
    return Ran(statistics.median(told["taken_ms"]), told["answers"], ended_s, told.get("observed", 0))


@contextmanager
def _provider() -> Iterator[Provider]:
    served = serving()
    try:
        yield next(served)
    finally:
        next(served, None)


@contextmanager
def _hanging() -> Iterator[str]:
    """Listen, and never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _nowhere() -> str:
    """Name an address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
