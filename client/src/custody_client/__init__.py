"""The runtime's side of a Custody store: captures that cost nothing, break nothing and count what they lose.

It shares no code with the service. `custody_client.verify` checks bundles offline, and needs `cryptography`.
"""

from custody_client.attempts import Attempt, Exchange
from custody_client.client import Custody
from custody_client.counters import Counters
from custody_client.current import current_run
from custody_client.runs import Run
from custody_client.settings import Bounds, LocalPolicy, Source

__all__ = [
    "Attempt",
    "Bounds",
    "Counters",
    "Custody",
    "Exchange",
    "LocalPolicy",
    "Run",
    "Source",
    "current_run",
]
