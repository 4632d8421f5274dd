"""Texts that come in pieces, kept within bounds: beyond them only the length and a running SHA-256 go on."""

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, UnsetType

from custody_client.streams.output import Cut

if TYPE_CHECKING:
    from hashlib import _Hash as HASH


_json: Final = msgspec.json.Encoder()
_LONGEST: Final = 12  # a character beyond the first plane, as two escapes


class Budget:
    """Bytes of content that one output may still keep."""

    __slots__ = ("left", "overdrawn")

    def __init__(self, total_bytes: int) -> None:
        self.left = total_bytes
        self.overdrawn = False


def encoded(text: str) -> bytes:
    """Return UTF-8; halves of surrogate pairs, which JSON can spell, pass as they are."""
    return text.encode("utf-8", "surrogatepass")


def cost_of(text: str) -> int:
    """Return the bytes that a text takes in JSON, where a control character takes six."""
    try:
        return len(_json.encode(text)) - 2
    except UnicodeEncodeError:
        return _LONGEST * len(text)


def whole(text: str) -> str:
    """Return the text with halves that came in two pieces put together; a half alone stays one."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


class Words:
    """One text. Adding a piece costs the same however much is there already."""

    __slots__ = ("_budget", "_hash", "_limit", "_parts", "size")

    def __init__(self, limit_bytes: int, budget: Budget) -> None:
        self._limit, self._budget = limit_bytes, budget
        self._parts: list[str] = []
        self._hash: HASH | None = None
        self.size = 0

    def add(self, piece: str) -> None:
        """Append, as far as there is room."""
        size = len(piece) if piece.isascii() else len(encoded(piece))
        self.size += size
        if self._hash is not None:
            self._hash.update(encoded(piece))
            return
        cost = cost_of(piece)
        if self.size <= self._limit and cost <= self._budget.left:
            self._budget.left -= cost
            self._parts.append(piece)
        else:
            self._overflow(piece, size)

    def text(self) -> str:
        """Return what is kept."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return whole(self._parts[0]) if self._parts else ""

    @property
    def is_cut(self) -> bool:
        """Tell whether there was more than is kept."""
        return self._hash is not None

    def cut(self) -> Cut | UnsetType:
        """Say how much there was in all, if that is more than is kept."""
        return UNSET if self._hash is None else Cut(self.size, self._hash.copy().hexdigest())

    def _overflow(self, piece: str, size: int) -> None:
        data = encoded(piece)
        self._hash = sha256(encoded("".join(self._parts)) + data)
        room = max(0, min(self._limit - (self.size - size), self._budget.left))
        # A character is kept whole or not at all.
        kept = data[:room].decode("utf-8", "ignore")
        if cost_of(kept) > self._budget.left:
            kept = kept[: self._budget.left // _LONGEST]
        self._parts.append(kept)
        self._budget.left -= cost_of(kept)
        self._budget.overdrawn = True
