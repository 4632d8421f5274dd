"""How far time has passed for a duty that destroys what time alone makes due.

A clock that went back is not believed. One that is suddenly far ahead makes very much due at once: then time passes by
a span a minute, with an alarm, until somebody has looked or it has caught up. A duty that stood still for long looks
the same.
"""

from datetime import datetime, timedelta
from typing import Final

from store.db import Database
from store.logging import logger
from store.tables import pacing

DAY_S: Final = 86_400
# A clock that is set in small steps is not one that jumps; nor is a duty late that runs each minute.
_BACK: Final = timedelta(seconds=1)
_USUAL: Final = timedelta(minutes=5)
_PACE_S: Final = 60.0


async def horizon(database: Database, duty: str, span_s: int) -> datetime | None:
    """Return up to when what is due may be destroyed now; None while the clock is behind what was seen before."""
    async with database.transaction() as connection:
        stands = await pacing.stands(connection, duty)
        now, before = stands.now, stands.until
        if before is None or stands.moved_at is None or timedelta(0) <= now - before <= _USUAL:
            until = now
        elif now < before - _BACK:
            logger().error("clock_went_back", duty=duty, lag_s=round((before - now).total_seconds()))
            return None
        elif now - stands.moved_at < timedelta(seconds=min(_PACE_S, span_s / 2)):
            return min(before, now)
        else:
            logger().error("clock_ahead", duty=duty, lag_s=round((now - before).total_seconds()))
            until = min(now, before + timedelta(seconds=span_s))
        await pacing.go(connection, duty, max(until, before or until), now)
    return until
