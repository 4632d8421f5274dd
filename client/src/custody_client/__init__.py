"""The runtime's side of a Custody store: captures that cost nothing, break nothing and count what they lose.

It shares no code with the service. `custody_client.verify` checks bundles offline, and needs `cryptography`.
"""

from typing import TYPE_CHECKING

from custody_client.attempts import Attempt, Exchange
from custody_client.client import Custody
from custody_client.counters import Counters
from custody_client.current import current_run
from custody_client.runs import Run
from custody_client.settings import Bounds, LocalPolicy, Source

if TYPE_CHECKING:
    from custody_client.diagnostics import Report

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
    "doctor",
]


def doctor(url: str | None = None, key: str | None = None, *, timeout: float = 5.0) -> "Report":
    """Say in words whether address, key, clock, admission and delivery work; `print(doctor())`.

    What is not given is taken from the environment. It waits for the service, at most `timeout` seconds an answer.
    """
    from custody_client import diagnostics  # noqa: PLC0415 - a program that is not ill need not load it

    return diagnostics.doctor(url, key, timeout=timeout)
