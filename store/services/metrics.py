"""What one process counts of itself for /metrics. Labels are closed words only: no scope, no run, no key."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from policies.kinds import Kind
from policies.reasons import Reason

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """One registry a process, so that several applications in one interpreter do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = _Requests()
        self.registry.register(self._requests)
        self._unusual_reads = Counter(
            "custody_unusual_reads",
            "Hours in which a key read over three times as much as usual",
            registry=self.registry,
        )
        self._integrity = Counter(
            "custody_integrity_failures",
            "Reads that found a key lost, or something else than what was committed to",
            ("reason",),
            registry=self.registry,
        )
        for reason in (Reason.KEY_LOST, Reason.INTEGRITY_MISMATCH):
            # There from the start, so that the first one is seen as a change.
            self._integrity.labels(reason.value)

    def unusual_reads(self) -> None:
        """Count a key that read much more in an hour than it usually does."""
        self._unusual_reads.inc()

    def corrupt(self, reason: Reason) -> None:
        """Count what was not given out because it is not what it was."""
        self._integrity.labels(reason.value).inc()

    def admitted(self, kind: Kind | None) -> None:
        """Count what the guard let pass; what the queue then refuses is counted as refused too."""
        self._requests.admissions["admitted", None, kind] += 1

    def refused(self, kind: Kind | None, reason: Reason) -> None:
        """Count what was not captured, and why."""
        self._requests.admissions["refused", reason, kind] += 1

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Count an answer by the class of its status."""
        self._requests.answers[method, status // 100].add(seconds)


class _Times:
    """How many answers took how long, by the first of `_SECONDS` that is no shorter, and all together."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_SECONDS, seconds)] += 1
        self.seconds += seconds


class _Requests(Collector):
    """What every request counts: plain numbers of one loop, since the library's take a lock for each step."""

    def __init__(self) -> None:
        self.admissions: dict[tuple[str, Reason | None, Kind | None], int] = defaultdict(int)
        self.answers: dict[tuple[str, int], _Times] = defaultdict(_Times)

    def collect(self) -> Iterator[Metric]:
        """Name and explain them."""
        admissions = CounterMetricFamily(
            "custody_admissions",
            "Observations that the api decided on; kind is empty where it was not looked at",
            labels=("decision", "reason", "kind"),
        )
        for (decision, reason, kind), count in self.admissions.items():
            admissions.add_metric(
                [decision, reason.value if reason else "", kind.value if kind else ""], count
            )
        yield admissions
        requests = HistogramMetricFamily(
            "custody_request_seconds", "Time to answer", labels=("method", "status")
        )
        for (method, family), times in self.answers.items():
            bounds = [*map(str, _SECONDS), "+Inf"]
            buckets = list(zip(bounds, accumulate(times.counts), strict=True))
            requests.add_metric([method, f"{family}xx"], buckets, times.seconds)
        yield requests
