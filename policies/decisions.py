"""The shape of every decision. A policy returns one; it never raises for a refusal."""

from dataclasses import dataclass
from typing import TypeAlias

from policies.reasons import Reason


@dataclass(frozen=True, slots=True)
class Allow:
    """Nothing stands against it, as far as this policy looks."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """No, for exactly one reason."""

    reason: Reason


Decision: TypeAlias = Allow | Refuse

ALLOW = Allow()
