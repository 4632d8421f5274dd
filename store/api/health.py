"""Whether the process lives, whether it can work, and what it counts. No key is asked for: keep it from outside."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from litestar import Request, Response, Router, get
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from store import VERSION, clock
from store.api.identity import services
from store.api.schema import OPERATION, answer
from store.services import key_check
from store.services.duties import counted
from store.services.readiness import Gauges, backlog_age_s, gauges, readiness

AnyRequest = Request[Any, Any, Any]

# The framework adds the charset, which is utf-8.
_EXPOSITION: Final = "text/plain; version=0.0.4"
_UNAVAILABLE: Final = 503
_STARTED_AT: Final = clock.utc_now()


class Life(msgspec.Struct, frozen=True):
    """That the process answers, of which Custody it is; `commit` is `unknown` where nobody named it."""

    status: str
    version: str
    commit: str
    started_at: datetime


class Ready(msgspec.Struct, frozen=True):
    """Whether the process can work; `missing` says in words what it lacks. `canary_age_s` null: none has come back.

    `reads_closed` says why evidence is not shown now, null where it is; captures go on, so it is ready all the same.
    """

    ready: bool
    missing: list[str]
    canary_age_s: float | None
    reads_closed: str | None


@get("/livez", operation_id="livez", summary="Whether the process lives")
async def livez(request: AnyRequest) -> Life:
    """Answer without asking anybody."""
    return Life("alive", VERSION, services(request).settings.build_commit, _STARTED_AT)


@get(
    "/readyz",
    operation_id="readyz",
    summary="Whether the process can work",
    opt={OPERATION: {"responses": {"503": answer("It cannot; `missing` says why", "Ready")}}},
)
async def readyz(request: AnyRequest) -> Response[Ready]:
    """Ask Postgres, Redis and the key directory; 503 with what is missing."""
    opened = services(request)
    lease = opened.settings.reads_lease
    found = await readiness(opened.database, opened.queue, opened.keyring, lease)
    ready = Ready(not found.missing, list(found.missing), found.canary_age_s, found.reads_closed)
    return Response(ready, status_code=200 if ready.ready else _UNAVAILABLE, media_type="application/json")


@get("/metrics", operation_id="metrics", summary="Counts, in Prometheus' text format", media_type=_EXPOSITION)
async def metrics(request: AnyRequest) -> bytes:
    """Return this process's counters, and the whole's gauges as far as they could be had within two seconds."""
    opened = services(request)
    registry = CollectorRegistry()
    lease = opened.settings.reads_lease
    registry.register(_Gathered(await gauges(opened.database, opened.queue, opened.overview, lease)))
    return generate_latest(opened.metrics.registry) + generate_latest(registry)


router = Router("/", route_handlers=[livez, readyz, metrics], tags=["health"], security=[{}])


class _Gathered(Collector):
    """Gauges of one scrape."""

    def __init__(self, found: Gauges) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """Name and explain each."""
        yield from self._queue()
        yield from self._duties()
        yield from self._log()
        yield from self._completeness()
        yield from self._held()
        lag = GaugeMetricFamily(
            "custody_expiry_lag_seconds", "Age of the oldest expired content still on disk"
        )
        if self._found.expiry_lag_s is not None:
            lag.add_metric([], max(0.0, self._found.expiry_lag_s))
        yield lag
        unanswered = GaugeMetricFamily(
            "custody_unanswered", "1 where a question of this scrape got no answer", labels=["what"]
        )
        for what in ("queue", "database", "completeness"):
            unanswered.add_metric([what], float(what in self._found.unanswered))
        yield unanswered

    def _queue(self) -> Iterator[Metric]:
        parts = GaugeMetricFamily("custody_queue_parts", "Parts that wait", labels=["shard"])
        # Rounded: the exact size of what waits would tell something of content.
        sealed = GaugeMetricFamily(
            "custody_queue_bytes", "Sealed bytes that wait, rounded up to a power of two", labels=["shard"]
        )
        notes = GaugeMetricFamily("custody_queue_notes", "States, gaps and facts that wait", labels=["shard"])
        oldest = GaugeMetricFamily(
            "custody_queue_oldest_seconds", "Age of what waits longest", labels=["shard"]
        )
        for depth in self._found.depths:
            shard = [str(depth.shard)]
            parts.add_metric(shard, depth.parts)
            sealed.add_metric(shard, 1 << (depth.bytes - 1).bit_length() if depth.bytes else 0)
            notes.add_metric(shard, depth.notes)
            oldest.add_metric(shard, depth.oldest_age_s)
        yield from (parts, sealed, notes, oldest)
        outcomes = CounterMetricFamily("custody_outcomes", "What became of observations", labels=["outcome"])
        for outcome, count in sorted(self._found.outcomes.items()):
            outcomes.add_metric([outcome], count)
        yield outcomes

    def _duties(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "custody_duty_success_age_seconds", "Since a duty last succeeded", labels=["duty"]
        )
        for row in self._found.duties:
            if row.last_success is not None:
                age.add_metric([row.duty], (row.now - row.last_success).total_seconds())
        yield age
        keys = GaugeMetricFamily(
            "custody_key_faults", "What the last daily look at all keys found to be wrong"
        )
        for row in self._found.duties:
            faults = counted(row.last_outcome, "faults") if row.duty == key_check.DUTY else None
            if faults is not None:
                keys.add_metric([], faults)
        yield keys

    def _held(self) -> Iterator[Metric]:
        holds = GaugeMetricFamily("custody_holds", "Holds that keep something", labels=["scope"])
        for scope, count in self._found.holds.items():
            holds.add_metric([scope], count)
        parts = GaugeMetricFamily(
            "custody_held_parts", "Parts whose bucket is gone and that only a hold keeps", labels=["scope"]
        )
        for scope, count in self._found.held_parts.items():
            parts.add_metric([scope], count)
        yield from (holds, parts)

    def _log(self) -> Iterator[Metric]:
        leaves = GaugeMetricFamily(
            "custody_log_queue_leaves", "Leaves that wait for a place in the proof log, a million at most"
        )
        oldest = GaugeMetricFamily("custody_log_queue_oldest_seconds", "Age of the leaf that waits longest")
        if self._found.log_backlog is not None:
            leaves.add_metric([], self._found.log_backlog.leaves)
            oldest.add_metric([], backlog_age_s(self._found.log_backlog))
        yield from (leaves, oldest)
        yield from self._published()

    def _published(self) -> Iterator[Metric]:
        found = self._found.log
        leaves = GaugeMetricFamily(
            "custody_log_leaves", "Leaves of the proof log, and how many are published", labels=["how"]
        )
        age = GaugeMetricFamily(
            "custody_log_compared_age_seconds", "Since the log was last held against its mirror"
        )
        stopped = GaugeMetricFamily("custody_log_stopped", "1 while the log is stopped", labels=["why"])
        closed = GaugeMetricFamily("custody_reads_closed", "1 while no evidence is shown")
        if found is not None:
            leaves.add_metric(["sequenced"], found.size)
            leaves.add_metric(["published"], found.published_size)
            closed.add_metric([], float(found.closed))
            for why in ("rolled_back", "forked", "restoring"):
                stopped.add_metric([why], float(found.stop == why))
            if found.compared_age_s is not None:
                age.add_metric([], max(0.0, found.compared_age_s))
        yield from (leaves, age, stopped, closed)

    def _completeness(self) -> Iterator[Metric]:
        stored, missing = (
            GaugeMetricFamily(
                f"custody_recent_{what}",
                f"Observations {what} of the runs declared today or yesterday (UTC)",
                labels=["scope"],
            )
            for what in ("stored", "missing")
        )
        for scope in sorted({day.scope for day in self._found.recent}):
            days = [day for day in self._found.recent if day.scope == scope]
            stored.add_metric([scope], sum(day.stored for day in days))
            missing.add_metric([scope], sum(day.missing for day in days))
        yield from (stored, missing)
