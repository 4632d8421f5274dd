"""How values are written that msgspec does not know by itself, within the time that their caller has for it."""

from collections.abc import Mapping, Sequence
from threading import local
from time import monotonic
from typing import Any, Final

import msgspec


class Unserialisable(Exception):
    """Content that cannot become bytes; `told` names type and path, never a value."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


class _Budget(local):
    until = float("inf")
    asked = False


budget: Final = _Budget()
"""Until when this thread may go on writing, by the monotonic clock; and whether a value had to be asked what it is."""


def written_as(value: Any) -> Any:
    """Return what stands for a value that msgspec does not know; called by it."""
    if monotonic() > budget.until:
        raise Unserialisable("writing it took too long")
    budget.asked = True
    if hasattr(type(value), "model_dump"):
        return _dumped(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value.items())
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(type(value).__name__)


def _dumped(value: Any) -> Any:
    """Return what a pydantic model says of itself."""
    try:
        return value.model_dump(mode="json", warnings=False)
    except TypeError:
        return value.model_dump(mode="json")


JSON: Final = msgspec.json.Encoder(enc_hook=written_as)
MSGPACK: Final = msgspec.msgpack.Encoder(enc_hook=written_as)
