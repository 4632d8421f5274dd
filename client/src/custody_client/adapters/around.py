"""What was around a call as an adapter saw it begin, for those who hear of it afterwards and without its answer's id.

A completion hook knows the span of its instrumentation, sampled or not; LiteLLM knows when it asked for a call.
"""

import sys
import threading
from collections import OrderedDict
from contextvars import ContextVar
from typing import Any, Final

_REMEMBERED: Final = 4096
_spans: Final[OrderedDict[tuple[str, str], None]] = OrderedDict()
_lock: Final = threading.Lock()


class Witness:
    """Stands in a context, and knows whether an adapter saw a call begin there; copies of the context share it."""

    __slots__ = ("saw",)

    def __init__(self) -> None:
        self.saw = False


_witness: Final[ContextVar[Witness | None]] = ContextVar("custody_witness", default=None)


def witness() -> Witness:
    """Put a new witness into this context, in the place of the one before."""
    standing = Witness()
    _witness.set(standing)
    return standing


def began(run_id: str) -> None:
    """Note that an adapter saw a call begin here."""
    if (standing := _witness.get()) is not None:
        standing.saw = True
    if (span := _span_here()) is not None:
        with _lock:
            _spans[run_id, span] = None
            if len(_spans) > _REMEMBERED:
                _spans.popitem(last=False)


def began_within(run_id: str, span: str) -> bool:
    """Say whether an adapter saw a call begin while this span (trace and span id) was the current one."""
    with _lock:
        return (run_id, span) in _spans


def name_of(context: Any) -> str | None:
    """Name a span by its context: trace id and span id; None where it has none."""
    return f"{context.trace_id:032x}:{context.span_id:016x}" if context.is_valid else None


def _span_here() -> str | None:
    """Name the current span, where the program has OpenTelemetry at all."""
    trace = sys.modules.get("opentelemetry.trace")
    current = getattr(trace, "get_current_span", None)
    return None if current is None else name_of(current().get_span_context())
