"""`memory`: the api's peak under 2,000 connections that all send 256 KiB, against what it holds after ordinary parts.

Most of those parts are refused for want of room, which is the point: refusing must not need memory either.
"""

import resource
from pathlib import Path
from typing import Final

import psutil

from bench.figures import Figure
from bench.load import Job, Sent, drive
from bench.runs import declare, in_turn
from bench.setting import Setting
from bench.stack import Process
from bench.wire import put_part, write_requests

CONNECTIONS: Final = 2_000
PART_BYTES: Final = 256 * 1024
SECONDS: Final = 60.0
ORDINARY: Final = 2_000
RUNS: Final = 600
# Within what a run may hold in all: 16 MiB.
PARTS_A_RUN: Final = 64

_FILES: Final = 8_192
_MIB: Final = 1024 * 1024


async def measure(setting: Setting) -> list[Figure]:
    """Return the peak as a multiple of the ordinary, and in MiB."""
    _allow_files()
    store = await setting.store()
    async with store.api() as api, store.writers():
        runs = await declare(store, api, RUNS, "memory")
        usual = [run for at, run in enumerate(runs) if at % 10 == 0]
        requests = map(put_part, in_turn(usual, ORDINARY), setting.contents.some(ORDINARY))
        file = write_requests(setting.file("ordinary"), requests)
        (await drive(Job(api.port, str(file), 16))).rate(202, 429)
        worker = _worker(api)
        ordinary = worker.memory_info().rss
        _forget_peak(worker)
        sent = await drive(
            _flood(setting, api, [put_part(run, PART_BYTES) for run in in_turn(runs, RUNS * PARTS_A_RUN)])
        )
        peak = _peak(worker)
    return [
        Figure(
            "memory",
            peak / ordinary,
            f"{ordinary / _MIB:.0f} MiB after {ORDINARY} ordinary parts; {_told(sent)}",
        ),
        Figure("memory_mib", peak / _MIB, f"peak of the api's process under {CONNECTIONS} connections"),
    ]


def _flood(setting: Setting, api: Process, heads: list[bytes]) -> Job:
    filling = setting.file("filling")
    filling.write_bytes(setting.contents.one(8 * _MIB))
    file = write_requests(setting.file("memory"), heads)
    return Job(api.port, str(file), CONNECTIONS, seconds=SECONDS, fill=PART_BYTES, filling=str(filling))


def _told(sent: Sent) -> str:
    answers = ", ".join(f"{count} of {status}" for status, count in sorted(sent.statuses.items()))
    return f"answers in {sent.elapsed_s:.0f} s: {answers}; connections closed before an answer: {sent.broken}"


def _worker(api: Process) -> psutil.Process:
    """Return the process that serves; granian's first one only watches it."""
    return max(
        psutil.Process(api.pid).children(recursive=True), key=lambda process: process.memory_info().rss
    )


def _forget_peak(process: psutil.Process) -> None:
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def _peak(process: psutil.Process) -> int:
    """Return the most memory that a process had in use, in bytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _allow_files() -> None:
    """Let this process and those that it starts have that many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))
