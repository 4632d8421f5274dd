"""Faults of adapters themselves: counted, logged once for each place, and never the caller's."""

import logging
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Final

_log: Final = logging.getLogger("custody_client")
_seen: Final[Counter[str]] = Counter()


def faults() -> Mapping[str, int]:
    """Return how often something of ours failed, by place."""
    return dict(_seen)


def noted(where: str, kind: str) -> None:
    """Count a fault, and log the first one of its place; `kind` names it and holds nothing of what was called."""
    _seen[where] += 1
    if _seen[where] == 1:
        _log.warning(
            "custody: %s failed (%s); calls go on unchanged, what it would have seen is not captured",
            where,
            kind,
        )


class harmless:  # noqa: N801 -- read as a word: `with harmless("tap"):`
    """What fails inside does not fail the caller; being cancelled or interrupted is no fault, and passes."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        noted(self._where, kind.__name__)
        return True
