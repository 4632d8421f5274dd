"""One JSON line per request and job on standard output, with fields from a closed list and nothing else.

Fails closed: a field that is not on the list is dropped, and of an exception only its class and our own frames stay.
"""

import asyncio
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, TextIO
from uuid import UUID

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from store.clock import monotonic, utc_now

# Ids, closed words, numbers and names that we gave: never text from a caller, never a size beyond its class.
FIELDS: Final = frozenset(
    {
        "age_s",
        "bucket",
        "capture",
        "cause",
        "commit",
        "count",
        "duration_ms",
        "duty",
        "erasure",
        "error",
        "event",
        "evidence",
        "frames",
        "hold",
        "key_id",
        "kind",
        "lag_s",
        "level",
        "logger",
        "method",
        "migration",
        "outcome",
        "process",
        "reason",
        "request_id",
        "role",
        "route",
        "run_uid",
        "scope_id",
        "shard",
        "size_class",
        "span",
        "stage",
        "state",
        "status",
        "table",
        "trace",
        "ts",
        "version",
    }
)

# Libraries that quote what they handle, or say much; through our pipe, and only what is wrong.
_QUIET: Final = ("arq", "httpx", "httpcore", "asyncio", "granian", "_granian", "redis", "litestar", "uvicorn")

# Events have names, not sentences: what was put together from values is no name.
_NAME: Final = re.compile(r"[a-z][a-z0-9_.]{0,63}")

_ROOT: Final = Path(__file__).resolve().parent.parent
_OURS: Final = tuple(str(_ROOT / name) for name in ("policies", "store", "workers", "console"))
_LONGEST: Final = 200

_NUMBERS: Final = (bool, int, float)
_LISTS: Final = (list, tuple)
_UNSAID: Final = (bytes, BaseException)

_bound: FilteringBoundLogger | None = None

# Lines of requests are written together, at the latest after so long; whatever else is written takes them along.
_FLUSH_S: Final = 0.05


class Request(msgspec.Struct, kw_only=True, gc=False):
    """The line of one request, made in a tenth of the time of any other: all that may be said of it are these words.

    They are ours, closed words and ids, so that nothing is left to be dropped, cut short or escaped.
    """

    duration_ms: float
    event: str = "request"
    key_id: str | None
    level: str = "info"
    method: str
    outcome: str
    reason: str | None
    role: str | None
    route: str | None
    scope_id: UUID | None
    status: int | None
    ts: datetime = msgspec.field(default_factory=utc_now)


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logging of this process, ours and libraries', through one pipe."""
    out = stream or sys.stdout
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *_SHARED, _RENDER],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[_of_library, *_SHARED, _RENDER],
            use_get_message=False,  # its message is dropped, so it need not be put together
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Else a line that cannot be formatted is printed with its arguments.
    logging.raiseExceptions = False
    logging.captureWarnings(capture=True)
    _bind(_Requests(out, level))
    for name in _QUIET:
        _quieten(logging.getLogger(name))
    _take_uncaught()


def logger() -> FilteringBoundLogger:
    """Return the logger; what it is given beyond `FIELDS` never appears."""
    return _bound or _bind()


def request(line: Request) -> None:
    """Write the line of a request; it is in the stream within moments, and before any later line."""
    _requests.write(line)


def flush() -> None:
    """Write now what waits to be written; for the end of a process."""
    _requests.flush()


def _bind(requests: "_Requests | None" = None) -> FilteringBoundLogger:
    # Made once, since every request asks for it; what is configured later is taken over by `configure`.
    global _bound, _requests  # noqa: PLW0603 - configuring is for the whole process
    _requests = requests or _requests
    _bound = structlog.get_logger().bind()
    return _bound


def _take_uncaught() -> None:
    """Python prints what nobody caught with its message; log it instead."""
    sys.excepthook = lambda _, error, __: _uncaught(error)
    threading.excepthook = lambda args: _uncaught(args.exc_value)
    sys.unraisablehook = lambda args: _uncaught(args.exc_value)


def _uncaught(error: BaseException | None) -> None:
    if not isinstance(error, KeyboardInterrupt):
        logger().error("uncaught", exc_info=error)


def _quieten(library: logging.Logger) -> None:
    library.handlers.clear()
    library.setLevel(logging.WARNING)
    library.propagate = True


def _of_library(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Keep of a library's line who said it, not what: its message may quote a row, a job or an address."""
    record: logging.LogRecord = event["_record"]
    return {"event": "library", "logger": record.name, "exc_info": event.get("exc_info")}


def _exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    error = _error(event.pop("exc_info", None))
    if error is not None:
        event["error"] = type(error).__name__
        event["trace"] = list(_frames(error.__traceback__))
    return event


def _error(info: object) -> BaseException | None:
    if info is True:
        return sys.exc_info()[1]
    if isinstance(info, tuple):
        info = info[1]
    return info if isinstance(info, BaseException) else None


def _frames(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        frame: FrameType = trace.tb_frame
        if frame.f_code.co_filename.startswith(_OURS):
            yield f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}:{trace.tb_lineno}"
        trace = trace.tb_next


def _listed(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    listed = {name: _plain(value) for name, value in event.items() if name in FIELDS}
    if _NAME.fullmatch(str(event.get("event"))) is None:
        listed["event"] = "unnamed"
    return listed


def _plain(value: Any) -> Any:
    if type(value) is str:
        return value[:_LONGEST]
    if value is None or isinstance(value, _NUMBERS):
        return value
    if isinstance(value, _LISTS):
        return [_plain(item) for item in value[:_LONGEST]]
    # bytes have no place in a line, and the repr of an exception is its message.
    if isinstance(value, _UNSAID):
        return type(value).__name__
    return str(value)[:_LONGEST]


_SHARED: Final[list[Processor]] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    _exception,
    _listed,
]


class _Requests:
    """Lines of requests on their way to the stream, which is told to write them once for all of a moment."""

    def __init__(self, out: TextIO | None, level: str) -> None:
        self._given = out
        self._on = logging.getLevelNamesMapping()[level.upper()] <= logging.INFO
        self._flush_at = 0.0

    def write(self, line: Request) -> None:
        if not self._on:
            return
        self._out.write(_encode_request(line).decode("ascii") + "\n")
        now = monotonic()
        if now >= self._flush_at:
            self._flush_at = now + _FLUSH_S
            asyncio.get_running_loop().call_later(_FLUSH_S, self.flush)

    def flush(self) -> None:
        self._flush_at = 0.0
        self._out.flush()

    @property
    def _out(self) -> TextIO:
        return self._given or sys.stdout


_encode_request: Final = msgspec.json.Encoder().encode
_requests = _Requests(None, "info")

# JSON escapes controls and everything beyond ASCII: no line can forge another, or a terminal's colours.
_encode: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=True).encode
_RENDER: Final = structlog.processors.JSONRenderer(serializer=lambda event, **_: _encode(event))
