"""OpenTelemetry's GenAI completion hook: an environment names it, and no code changes.

    OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=custody
    CUSTODY_URL, CUSTODY_KEY or CUSTODY_KEY_FILE
    CUSTODY_RUN=id             the program is (part of) this run; without it each trace is a run
    CUSTODY_CLOSE=exit         and closes it at its end; else it stays open, since other programs may be part of it
    CUSTODY_LOCAL=allow        content may wait in memory for its admission, at most 2 s

It is called on the caller's thread when an instrumentation ends a call, also where spans are not sampled and where
content is kept out of them. It never imports the instrumentation, and never raises.
"""

import atexit
import os
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final

from custody_client.adapters import around, otel_content
from custody_client.adapters.calls import current_call, seen
from custody_client.adapters.faults import harmless, noted
from custody_client.adapters.outputs import Late
from custody_client.attempts import Attempt, Exchange
from custody_client.client import Custody
from custody_client.current import current_run
from custody_client.runs import Run
from custody_client.settings import LocalPolicy
from custody_client.words import LOGICAL_REQUEST, OBSERVABLE_OUTPUT

# Where no run is named each trace is one. Nobody says when a trace is over: beyond these, the oldest is closed.
_TRACES: Final = 1024


Asked = tuple[Sequence[Any], Sequence[Any], Sequence[Any] | None]


class CompletionHook:
    """What `opentelemetry_genai_completion_hook` finds under the name `custody`."""

    def __init__(self, custody: Custody | None = None, *, run: Run | None = None) -> None:
        self._custody = custody or _from_environment()
        self._named = run or _named(self._custody)
        self._traces: OrderedDict[str, Run] = OrderedDict()
        self._lock = Lock()

    def on_completion(
        self,
        *,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        system_instruction: Sequence[Any],
        tool_definitions: Sequence[Any] | None = None,
        span: Any = None,
        log_record: Any = None,
        **_later: object,
    ) -> None:
        """Capture both parts of a call that has ended; agents and what another adapter has are passed by."""
        with harmless("otel"):
            told = _told(span, log_record)
            at = _at(span)
            if not _is_inference(told):
                return
            run = self._run(told, at)
            if run is None:
                noted("otel", "no run is current or named, and there is no trace")
            elif not _seen_elsewhere(run, told, at):
                asked = inputs, system_instruction, tool_definitions
                self._observe(run.exchange(at), span, told, asked, outputs)

    def _observe(
        self, exchange: Exchange, span: Any, told: Mapping[str, Any], asked: Asked, outputs: Sequence[Any]
    ) -> None:
        run, attempt = exchange.run, exchange.attempt()
        admitted = run.admits(LOGICAL_REQUEST), run.admits(OBSERVABLE_OUTPUT)
        attempt.capture_request(lambda: otel_content.request(*asked, told))
        attempt.capture_output(Late(lambda: otel_content.output(outputs, told)))
        _settle(attempt, outputs, told, span)
        place = f"{run.run_id}/exchanges/{exchange.exchange_id}/attempts/{attempt.attempt_id}"
        self._link(span, place, admitted)

    def _run(self, told: Mapping[str, Any], at: str | None) -> Run | None:
        if (current := current_run()) is not None:
            return current
        if run_id := told.get("custody.run.id"):
            return self._custody.run(str(run_id))
        return self._named or (self._of_trace(_trace(at)) if at else None)

    def _of_trace(self, trace: str) -> Run:
        with self._lock:
            run = self._traces.pop(trace, None) or self._custody.run(trace)
            self._traces[trace] = run
            oldest = self._traces.popitem(last=False)[1] if len(self._traces) > _TRACES else None
        if oldest is not None:
            oldest.close()
        return run

    def _link(self, span: Any, attempt: str, admitted: tuple[bool, bool]) -> None:
        """Leave the address of what was captured in the span."""
        if span is None or not span.is_recording():
            return
        parts = f"{self._custody.url}/v1/runs/{attempt}/parts"
        names = ("input", LOGICAL_REQUEST), ("output", OBSERVABLE_OUTPUT)
        for (name, kind), captured in zip(names, admitted, strict=True):
            if captured:
                span.set_attribute(f"gen_ai.{name}.messages_ref", f"{parts}/{kind}")


def _from_environment() -> Custody:
    """Take address, key and local policy from the environment."""
    local = LocalPolicy() if os.environ.get("CUSTODY_LOCAL") == "allow" else None
    return Custody.from_environment(local=local)


def _named(custody: Custody) -> Run | None:
    """Declare the run that the environment names, long before the first call."""
    if not (run_id := os.environ.get("CUSTODY_RUN")):
        return None
    run = custody.run(run_id)
    if os.environ.get("CUSTODY_CLOSE") == "exit":
        # Before the client's own end, which was registered when it was made.
        atexit.register(run.close)
    return run


def _told(span: Any, log_record: Any) -> dict[str, Any]:
    """Gather what span and event say of the call; a span that is not sampled says nothing."""
    told: dict[str, Any] = {}
    for source in (log_record, span):
        told |= getattr(source, "attributes", None) or {}
    return told


def _at(span: Any) -> str | None:
    return None if span is None else around.name_of(span.get_span_context())


def _trace(at: str) -> str:
    return at.partition(":")[0]


def _is_inference(told: Mapping[str, Any]) -> bool:
    operation = told.get("gen_ai.operation.name")
    return _unsampled_inference() if operation is None else operation in otel_content.INFERENCE


def _unsampled_inference() -> bool:
    """Ask the context, where a span says nothing; instrumentations before 1.3 leave nothing there, and are believed."""
    invocation = sys.modules.get("opentelemetry.util.genai.invocation")
    key = getattr(invocation, "CLIENT_INFERENCE_CONTEXT_KEY", None)
    if key is None:
        return True
    from opentelemetry import context  # noqa: PLC0415 - there, since it calls us

    return context.get_value(key) is not None


def _seen_elsewhere(run: Run, told: Mapping[str, Any], at: str | None) -> bool:
    """Whether another adapter has the call: one that is around it, or one that was inside it and nearer to the wire."""
    response_id = told.get("gen_ai.response.id")
    # Asked first, and always: another call may get an answer of the same id.
    captured = bool(response_id) and seen(run, str(response_id), "otel")
    within = at is not None and around.began_within(run.run_id, at)
    return captured or within or current_call() is not None


def _settle(attempt: Attempt, outputs: Sequence[Any], told: Mapping[str, Any], span: Any) -> None:
    response_id, at = told.get("gen_ai.response.id"), _at(span)
    if outputs:
        attempt.dispatched()
    if "error.type" in told:
        attempt.settled("failed")
    elif outputs and all(getattr(each, "finish_reason", None) not in {None, "error"} for each in outputs):
        attempt.settled("completed")
    attempt.refer(
        trace=_trace(at) if at else None, response=None if response_id is None else str(response_id)
    )
