"""What requests count is told as the library would tell it."""

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from policies.kinds import Kind
from policies.reasons import Reason
from store.services.metrics import _SECONDS, Metrics

TIMES = (0.0, 0.001, 0.0011, 0.3, 5.0, 7.5)


def told(registry: CollectorRegistry) -> set[str]:
    lines = generate_latest(registry).decode().splitlines()
    return {line for line in lines if line.startswith("custody_request_seconds_") and "_created" not in line}


def test_times_fall_into_the_library_s_buckets():
    metrics, usual = Metrics(), CollectorRegistry()
    histogram = Histogram(
        "custody_request_seconds", "", ("method", "status"), buckets=_SECONDS, registry=usual
    )
    for seconds in TIMES:
        metrics.answered("PUT", 202, seconds)
        histogram.labels("PUT", "2xx").observe(seconds)
    assert told(metrics.registry) == told(usual)
    assert len(told(usual)) == len(_SECONDS) + 3


def test_admissions_are_counted_by_closed_words():
    metrics = Metrics()
    metrics.admitted(Kind.LOGICAL_REQUEST)
    metrics.admitted(Kind.LOGICAL_REQUEST)
    metrics.refused(None, Reason.CAPACITY_EXCEEDED)
    labels = {"decision": "admitted", "reason": "", "kind": "logical-request"}
    assert metrics.registry.get_sample_value("custody_admissions_total", labels) == 2
    labels = {"decision": "refused", "reason": "capacity_exceeded", "kind": ""}
    assert metrics.registry.get_sample_value("custody_admissions_total", labels) == 1
