"""The names that all parts share: ids of callers, and which version of which action's result is meant."""

import re
from typing import Final

import msgspec

_CALLER_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def is_id(text: object) -> bool:
    """Say whether this may name a run, action, exchange, attempt, file or item, here and in a Custody store."""
    return isinstance(text, str) and _CALLER_ID.fullmatch(text) is not None


def checked_id(text: str, what: str) -> str:
    """Return `text` if it may be an id; ValueError, which names `what` and never quotes the text."""
    if not is_id(text):
        raise ValueError(f"{what} is 1 to 128 of A-Z a-z 0-9 . _ : - and begins with a letter or digit")
    return text


class ResultRef(msgspec.Struct, frozen=True):
    """One version of one action's result; an action that is executed anew gives a new version, from 1."""

    run: str
    action: str
    version: int = 1

    def __post_init__(self) -> None:
        checked_id(self.run, "a run's id")
        checked_id(self.action, "an action's id")
        if self.version < 1:
            raise ValueError("versions of a result count from 1")
