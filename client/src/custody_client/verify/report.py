"""What a verification found, item by item, and what that comes to."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class State(StrEnum):
    """What is known of one item; never a bare yes or no."""

    OK = "ok"
    FAILED = "failed"
    # Not in the bundle, for the reason that the store gave. What of it is proven is said by `not_checked`.
    UNAVAILABLE = "unavailable"
    NOT_CHECKED = "not_checked"


class Exit:
    """What the command answers with."""

    OK: Final = 0
    FAILED: Final = 1
    USAGE: Final = 2
    NOT_CHECKED: Final = 3


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was looked at.

    `reason` is the store's word for what is unavailable; `not_checked` says what could not be looked at; `file` and
    `problem` say where a failed item failed, and never content.
    """

    kind: str
    name: str
    state: State
    reason: str | None = None
    not_checked: tuple[str, ...] = ()
    file: str | None = None
    problem: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the item as it stands in `--json`; what is absent is left out."""
        told = {
            "item": self.kind, "name": self.name, "state": self.state.value, "reason": self.reason,
            "not_checked": list(self.not_checked), "file": self.file, "problem": self.problem,
        }  # fmt: skip
        return {name: value for name, value in told.items() if value or name in ("item", "name", "state")}


@dataclass(slots=True)
class Report:
    """All items, in the order in which they were looked at, and what the bundle says it is."""

    items: list[Item] = field(default_factory=list)
    export: str | None = None
    scope: str | None = None
    origin: str | None = None
    tree_size: int | None = None

    @property
    def exit(self) -> int:
        """0 if all was checked and is right; 1 if something failed; 3 if something, or everything, was not checked."""
        if any(item.state is State.FAILED for item in self.items):
            return Exit.FAILED
        if not self.items or any(item.state is State.NOT_CHECKED or item.not_checked for item in self.items):
            return Exit.NOT_CHECKED
        return Exit.OK

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return {Exit.OK: "ok", Exit.FAILED: "failed", Exit.NOT_CHECKED: "not_checked"}[self.exit]

    def add(self, items: Iterable[Item]) -> None:
        """Take items in."""
        self.items.extend(items)

    def counts(self) -> dict[str, Counter[State]]:
        """Count states by kind of item."""
        found: dict[str, Counter[State]] = {}
        for item in self.items:
            found.setdefault(item.kind, Counter())[item.state] += 1
        return found

    def plain(self) -> dict[str, Any]:
        """Return what `--json` prints; the shape is promised (README)."""
        return {
            "v": 1,
            "verdict": self.verdict,
            "exit": self.exit,
            "bundle": {
                "export": self.export, "scope": self.scope, "origin": self.origin, "tree_size": self.tree_size,
            },
            "counts": {
                kind: {state.value: counts[state] for state in State if counts[state]}
                for kind, counts in self.counts().items()
            },
            "items": [item.plain() for item in self.items],
        }  # fmt: skip
