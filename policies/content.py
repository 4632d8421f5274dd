"""Which content may be captured, and what a caller's word about it means.

Fails closed: a word that is unclear, repeated or unknown means the stricter policy.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import TypeVar

from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import Content, Kind
from policies.reasons import Reason

Word = TypeVar("Word", bound=StrEnum)


def admit_kind(kinds: Collection[Kind], kind: Kind) -> Decision:
    """Decide whether parts of this kind may be captured."""
    return ALLOW if kind in kinds else Refuse(Reason.KIND_NOT_ADMITTED)


def clear_word(values: Sequence[str], words: type[Word], otherwise: Word) -> Word:
    """Read a word that was said exactly once and exactly right; else it means `otherwise`."""
    if len(values) != 1:
        return otherwise
    # Byte for byte: "ALLOW", "allow " and "true" are somebody's guess at the interface.
    return next((word for word in words if word.value == values[0]), otherwise)


def clear_content(values: Sequence[str]) -> Content:
    """Read what was said about content; whoever said nothing has no values to ask with."""
    return clear_word(values, Content, Content.OPT_OUT)
