"""Faults of adapters themselves: counted, logged once in a while, and never the caller's."""

from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from custody_client.trouble import Trouble

_seen: Final[Counter[str]] = Counter()
# Where no run is known whose client could say it on its own thread.
_trouble: Final = Trouble()


def faults() -> Mapping[str, int]:
    """Return how often something of ours failed in this process, by place."""
    return dict(_seen)


def noted(where: str, kind: str, run: Any = None) -> None:
    """Count a fault; a run's client also counts and says it. `kind` names it, and holds nothing of what was called."""
    _seen[where] += 1
    text = f"{where} failed ({kind}): the call went on, what it would have seen is not captured"
    account = getattr(run, "_account", None)
    if account is not None:
        account.office.trouble.note("adapters", text)
        return
    _trouble.note("adapters", text)
    _trouble.say()


class harmless:  # noqa: N801 -- read as a word: `with harmless("tap"):`
    """What fails inside does not fail the caller; being cancelled or interrupted is no fault, and passes."""

    __slots__ = ("_run", "_where")

    def __init__(self, where: str, run: Any = None) -> None:
        self._where = where
        self._run = run

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        noted(self._where, kind.__name__, self._run)
        return True
