"""`client_import`: processor time that `import custody_client` takes from a program's start, ms.

The least of the rounds: it is always the same work, and whatever else the machine does only adds to it.
"""

import asyncio
import statistics
import sys
from typing import Final

from bench.figures import Figure
from bench.setting import Setting

ROUNDS: Final = 15
_PROGRAM: Final = """\
import time
began = time.process_time_ns()
import {name}
print(time.process_time_ns() - began)
"""


async def measure(setting: Setting) -> list[Figure]:
    """Return the least of the rounds, compiled files at hand."""
    await _import_ms("custody_client")
    found = [await _import_ms("custody_client") for _ in range(setting.rounds(ROUNDS))]
    alone = min([await _import_ms("msgspec") for _ in range(setting.rounds(ROUNDS))])
    told = f"{len(found)} starts, median {statistics.median(found):.0f} ms; msgspec's own part {alone:.0f}"
    return [Figure("client_import", min(found), told)]


async def _import_ms(name: str) -> float:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM.format(name=name), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return int(said) / 1e6
