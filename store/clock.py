"""The one place where a clock is read; everywhere else `now` is an argument."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Wall-clock time of this process, aware and in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that only go forward, for durations and the age of what is cached."""
    return time.monotonic()
