"""The arithmetic of the benchmarks: ratios of rounds, medians, percentiles, and the line that a figure becomes."""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

Side = Callable[[int], Awaitable[float]]
"""One side of a comparison: takes the round's number, returns what was measured in it."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure has to reach now, and what it has to reach later."""

    first: float
    then: float
    at_least: bool

    def met(self, value: float) -> bool:
        """Whether the first target is met."""
        return value >= self.first if self.at_least else value <= self.first

    def __str__(self) -> str:
        """Write the first target as the line has it."""
        return f"{'>=' if self.at_least else '<='}{number(self.first)}"


TARGETS: Final = {
    "single_accept": Target(0.45, 0.7, at_least=True),
    "batch_accept": Target(0.4, 0.7, at_least=True),
    "durable": Target(0.35, 0.8, at_least=True),
    "latency_p50": Target(50, 20, at_least=False),
    "latency_p99": Target(250, 100, at_least=False),
    "page_flat": Target(1.5, 1.2, at_least=False),
    "run_page": Target(3, 2, at_least=False),
    "read_content": Target(0.4, 0.7, at_least=True),
    "purge_flat": Target(0.5, 0.1, at_least=False),
    "durable_with_log": Target(0.9, 0.9, at_least=True),
    "sequence": Target(0.3, 0.6, at_least=True),
    "proof_ms": Target(10, 3, at_least=False),
    "memory": Target(3, 2, at_least=False),
    "memory_mib": Target(300, 300, at_least=False),
    "capture_admitted": Target(20, 8, at_least=False),
    "capture_refused": Target(2, 0.7, at_least=False),
    "capture_down": Target(1, 0.3, at_least=False),
    "capture_vs_otel": Target(0.5, 0.2, at_least=False),
    "stream_tap": Target(15, 10, at_least=False),
    "calls_beside_up": Target(1, 0.5, at_least=False),
    "calls_beside_down": Target(1, 0.5, at_least=False),
    "calls_beside_hanging": Target(1, 0.5, at_least=False),
    "beside_exit": Target(2, 2, at_least=False),
    "client_import": Target(60, 40, at_least=False),
    "surface_check": Target(3, 2, at_least=False),
    "lineage_bind": Target(5, 3, at_least=False),
    "intake_flat": Target(1.3, 1.1, at_least=False),
    "intake_ms": Target(100, 50, at_least=False),
    "verify_bundle": Target(1000, 5000, at_least=True),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `told` says in words what it was made of."""

    name: str
    value: float
    told: str

    @property
    def target(self) -> Target:
        """What it has to reach."""
        return TARGETS[self.name]

    def line(self) -> str:
        """Write `name value target`, for programs."""
        return f"{self.name} {number(self.value)} {self.target}"


@dataclass(frozen=True, slots=True)
class Rounds:
    """What both sides measured, round by round."""

    ours: Sequence[float]
    rival: Sequence[float]

    @property
    def ratio(self) -> float:
        """Median of the rounds' own ratios: what slows the machine for a while slows both sides of a round."""
        return statistics.median(ours / rival for ours, rival in zip(self.ours, self.rival, strict=True))

    def told(self, unit: str, rival: str) -> str:
        """Say the medians of both sides, and how far the rounds' ratios lie apart."""
        ratios = sorted(ours / rival for ours, rival in zip(self.ours, self.rival, strict=True))
        return (
            f"{statistics.median(self.ours):,.0f} {unit}; {rival}: {statistics.median(self.rival):,.0f} "
            f"({len(ratios)} rounds, ratios {number(ratios[0])} to {number(ratios[-1])})"
        )


async def alternate(rounds: int, ours: Side, rival: Side) -> Rounds:
    """Measure both sides in turn; who goes first changes with each round."""
    found: tuple[list[float], list[float]] = ([], [])
    sides = (ours, rival)
    for at in range(rounds):
        for side in (0, 1) if at % 2 == 0 else (1, 0):
            found[side].append(await sides[side](at))
    return Rounds(*found)


def percentile(values: Sequence[float], per_cent: float) -> float:
    """Return the least value that `per_cent` of all are not above (nearest rank)."""
    ordered = sorted(values)
    rank = -(-len(ordered) * per_cent // 100)
    return ordered[max(0, int(rank) - 1)]


def number(value: float) -> str:
    """Write a number with three digits that count."""
    return f"{value:,.0f}".replace(",", "") if abs(value) >= 100 else f"{value:.3g}"
