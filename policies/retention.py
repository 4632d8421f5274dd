"""How long content may be read. The shortest of several retentions wins; only a hold keeps longer.

Fails closed: the instant of expiry itself is already expired.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def aware(instant: datetime) -> datetime:
    """Refuse an instant without a zone: comparing it would be a guess."""
    if instant.utcoffset() is None:
        raise ValueError("an instant needs a zone")
    return instant


def retain_until(now: datetime, wished_s: int | None, default_s: int, max_s: int) -> datetime:
    """Fix the end of a retention by database time: the wish or else the default, never over the most."""
    span_s = min(default_s if wished_s is None else wished_s, max_s)
    if span_s <= 0:
        raise ValueError("a retention is longer than nothing")
    return aware(now) + timedelta(seconds=span_s)


def shorter(one: datetime, other: datetime) -> datetime:
    """Choose the earlier of two ends."""
    return min(aware(one), aware(other))


def span_of(instant: datetime, span_s: int) -> tuple[datetime, datetime]:
    """Find the epoch-aligned, half-open span that contains the instant; a bucket expires at its end."""
    if span_s <= 0:
        raise ValueError("a span is longer than nothing")
    span = timedelta(seconds=span_s)
    start = _EPOCH + (aware(instant) - _EPOCH) // span * span
    return start, start + span


def expired(retain_until: datetime, now: datetime) -> bool:
    """Say whether the retention has ended."""
    return aware(now) >= aware(retain_until)
