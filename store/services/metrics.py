"""What one process counts of itself for /metrics. Labels are closed words only: no scope, no run, no key."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from policies.kinds import Kind
from policies.reasons import Reason

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """One registry a process, so that several applications in one interpreter do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # Looking a counter up by its labels costs more than counting.
        self._admitted: dict[Kind | None, Counter] = {}
        self._answered: dict[tuple[str, int], Histogram] = {}
        self.admissions = Counter(
            "custody_admissions",
            "Observations that the api decided on; kind is empty where it was not looked at",
            ("decision", "reason", "kind"),
            registry=self.registry,
        )
        self._requests = Histogram(
            "custody_request_seconds",
            "Time to answer",
            ("method", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )

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
        counter = self._admitted.get(kind)
        if counter is None:
            counter = self._admitted[kind] = self.admissions.labels("admitted", "", kind or "")
        counter.inc()

    def refused(self, kind: Kind | None, reason: Reason) -> None:
        """Count what was not captured, and why."""
        self.admissions.labels("refused", reason.value, kind or "").inc()

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Count an answer by the class of its status."""
        known = (method, status // 100)
        histogram = self._answered.get(known)
        if histogram is None:
            histogram = self._answered[known] = self._requests.labels(method, f"{known[1]}xx")
        histogram.observe(seconds)
