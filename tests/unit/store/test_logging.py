"""Only listed fields are logged, and of an exception its class and our frames: never what somebody put into it."""

import ast
import asyncio
import io
import json
import logging as standard
import sys
import threading
import warnings
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog

from store import errors, logging

ROOT = Path(__file__).parents[3]
CANARY = "CANARY-7f3a"


class Lines(io.StringIO):
    """Captured output, by line."""

    def read_all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def last(self) -> dict[str, Any]:
        return self.read_all()[-1]


@pytest.fixture
def lines():
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    root = standard.getLogger()
    before = root.handlers[:], root.level, standard.raiseExceptions
    stream = Lines()
    logging.configure("info", stream)
    yield stream
    assert CANARY not in stream.getvalue()
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:], root.level, standard.raiseExceptions = before
    standard.captureWarnings(capture=False)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


def fail() -> None:
    raise ValueError(f"bad row: {CANARY}")


def test_a_line_has_its_fields_a_level_and_a_time(lines):
    logging.logger().info("part_read", evidence="e1", status=200, duration_ms=1.5, reason=None)
    found = lines.last()
    assert found.pop("ts").endswith("Z")
    assert found == {
        "event": "part_read",
        "level": "info",
        "evidence": "e1",
        "status": 200,
        "duration_ms": 1.5,
        "reason": None,
    }


def test_a_field_that_is_not_listed_is_dropped(lines):
    structlog.contextvars.bind_contextvars(body=CANARY, request_id="r1")
    logging.logger().bind(query=CANARY).info("part_read", content=CANARY, size=17, exchange=CANARY)
    assert lines.last().keys() == {"event", "level", "ts", "request_id"}


def test_an_event_put_together_from_values_has_no_name(lines):
    logging.logger().warning(f"could not read {CANARY}")
    assert lines.last()["event"] == "unnamed"


@pytest.mark.parametrize("value", [CANARY.encode(), ValueError(CANARY), errors.Malformed(detail=CANARY)])
def test_bytes_and_exceptions_as_values_show_their_class_only(lines, value):
    logging.logger().info("part_read", cause=value, error=[value])
    assert lines.last()["cause"] == type(value).__name__
    assert lines.last()["error"] == [type(value).__name__]


def test_an_exception_leaves_its_class_and_our_frames(lines):
    try:
        fail()
    except ValueError:
        logging.logger().exception("write_failed", shard=3)
    found = lines.last()
    assert found["error"] == "ValueError"
    assert (found["event"], found["level"], found["shard"]) == ("write_failed", "error", 3)


def test_frames_of_ours_are_named_with_their_line_and_others_are_not(lines):
    from store import frames  # noqa: PLC0415

    try:
        frames.frame_decode(CANARY.encode(), 10)
    except errors.Corrupt:
        logging.logger().exception("part_corrupt")
    found = lines.last()
    assert found["error"] == "Corrupt"
    assert len(found["trace"]) == 1
    assert found["trace"][0].startswith("frames.frame_decode:")


@pytest.mark.parametrize("name", ["arq.worker", "httpx", "asyncio", "some.library"])
def test_a_library_shows_who_and_how_bad_but_not_what(lines, name):
    library = standard.getLogger(name)
    library.info("1.23s → write(%s)", CANARY)
    assert lines.read_all() == []
    library.warning("job %s failed", CANARY, extra={"reason": CANARY})
    try:
        fail()
    except ValueError:
        library.exception("failed with %s", CANARY)
    # A line that cannot even be put together must not be printed with its arguments.
    library.error("%d", CANARY)
    first, second, third = lines.read_all()
    assert third["event"] == "library"
    assert (first["event"], first["logger"], first["level"]) == ("library", name, "warning")
    assert (second["error"], second["level"]) == ("ValueError", "error")


def test_a_library_that_brought_its_own_handler_goes_through_the_pipe(lines):
    own = io.StringIO()
    library = standard.getLogger("arq")
    library.addHandler(standard.StreamHandler(own))
    logging.configure("info", lines)
    library.warning(CANARY)
    assert own.getvalue() == ""
    assert lines.last()["logger"] == "arq"


def test_what_nobody_caught_is_logged_without_its_message(lines, capsys):
    try:
        fail()
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert lines.last()["event"] == "uncaught"
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert len(lines.read_all()) == 2
    captured = capsys.readouterr()
    assert CANARY not in captured.out + captured.err


def test_a_task_that_nobody_awaited_is_logged_without_its_message(lines):
    async def forget() -> None:
        async def failing() -> None:
            fail()

        task = asyncio.ensure_future(failing())
        await asyncio.sleep(0)
        del task

    asyncio.run(forget())
    found = lines.last()
    assert (found["logger"], found["error"]) == ("asyncio", "ValueError")


def test_a_warning_is_logged_without_its_text(lines):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        standard.captureWarnings(capture=True)
        warnings.warn(CANARY, stacklevel=1)
    assert lines.last()["logger"] == "py.warnings"


def test_a_line_cannot_forge_another_or_colour_a_terminal(lines):
    logging.logger().info("part_read", route="/a\n{}\x1b[31m\u202e", reason="x" * 500)
    assert len(lines.getvalue().splitlines()) == 1
    assert lines.getvalue().isascii()
    assert "\x1b" not in lines.getvalue()
    assert len(lines.last()["reason"]) == 200


def test_a_level_below_the_least_is_not_logged(lines):
    logging.configure("warning", lines)
    logging.logger().info("part_read")
    assert lines.getvalue() == ""
    logging.logger().warning("part_corrupt")
    assert lines.last()["event"] == "part_corrupt"


REQUEST: dict[str, Any] = {
    "method": "PUT",
    "route": "/v1/runs/{run}",
    "status": 202,
    "outcome": "answered",
    "duration_ms": 1.5,
    "key_id": "0123456789abcdef",
    "role": "runtime",
    "scope_id": UUID(int=7),
    "reason": None,
}


async def test_the_line_of_a_request_is_as_any_other_would_be(lines):
    logging.logger().info("request", **REQUEST)
    logging.request(logging.Request(**REQUEST))
    usual, short = lines.read_all()
    assert usual.pop("ts")[:-7] == short.pop("ts")[:-7]
    assert usual == short
    assert list(short) == sorted(short)
    assert set(logging.Request.__struct_fields__) <= logging.FIELDS


class Held(Lines):
    """A stream that shows nothing before it is told to."""

    def __init__(self):
        super().__init__()
        self.shown = 0
        self.told = asyncio.Event()

    def flush(self):
        self.shown = len(self.getvalue())
        self.told.set()


async def test_lines_of_requests_are_shown_together_within_moments_and_at_the_end(lines):
    held = Held()
    logging.configure("info", held)
    for _ in range(3):
        logging.request(logging.Request(**REQUEST))
    assert held.shown == 0
    async with asyncio.timeout(5):
        await held.told.wait()
    assert len(held.read_all()) == 3
    logging.request(logging.Request(**REQUEST))
    logging.flush()
    assert held.shown == len(held.getvalue())
    logging.request(logging.Request(**REQUEST))
    logging.logger().info("part_read")
    assert held.shown == len(held.getvalue())
    assert [line["event"] for line in held.read_all()[-2:]] == ["request", "part_read"]


async def test_lines_of_requests_heed_the_level(lines):
    logging.configure("warning", lines)
    logging.request(logging.Request(**REQUEST))
    assert lines.getvalue() == ""


def logging_calls() -> list[tuple[str, ast.Call]]:
    """Every call like `logger().info(…)` in the service."""
    found = []
    for path in sorted(path for name in ("store", "workers") for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                source = node.func.value
                if isinstance(source, ast.Call) and ast.unparse(source.func) in {"logger", "logging.logger"}:
                    found.append((f"{path.relative_to(ROOT)}:{node.lineno}", node))
    return found


def test_what_the_service_logs_is_named_and_listed():
    calls = logging_calls()
    assert calls
    unlisted = [
        (place, word.arg)
        for place, call in calls
        for word in call.keywords
        if word.arg not in logging.FIELDS | {"exc_info"}
    ]
    assert unlisted == [], "these fields would be dropped: use a listed one, or list it in store/logging.py"
    literal = [
        (place, call.args[0].value)
        for place, call in calls
        if call.args and isinstance(call.args[0], ast.Constant)
    ]
    assert [found for found in literal if not logging._NAME.fullmatch(str(found[1]))] == []
    composed = [place for place, call in calls if call.args and isinstance(call.args[0], ast.JoinedStr)]
    assert composed == []
