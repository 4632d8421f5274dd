"""Whether somebody has lately held this very database against the log's mirror: asked before what cannot be undone.

A leaf that gets its place in a database that went back, before anybody compares it, makes a fork of what was only
rolled back; and what is destroyed there may be held by a hold that the database has lost. So sequencing and destroying
trust a comparison for some rounds of the publisher only, and only of the server and table that they ask: after a
failover, a recovery or a restore it is another one, however young what it brought back is.

A log that was never compared is trusted: nothing that the database knows of was published.
"""

from datetime import timedelta
from typing import Final

from store.tables.log import State

# Some rounds of a publisher that has a backlog; and readers are not let go on for longer than anybody else.
_LATELY: Final = timedelta(seconds=10)


def trusted(state: State, lease: timedelta) -> bool:
    """Say whether the log may grow, and what is due be destroyed; `lease` is how long readers trust a comparison."""
    if state.stop is not None:
        return False
    if state.compared_at is None:
        return True
    here = state.compared_on is None or state.compared_on == state.here
    return here and state.now - state.compared_at <= min(lease, _LATELY)
