"""What was promised, and what was found of it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from custody_toolchain.delivery.commands import Build, in_order
from custody_toolchain.delivery.files import FileVersion
from custody_toolchain.facts import ItemKind, ItemState
from custody_toolchain.ids import checked_id

_MOST_PARSED = 64 * 1024 * 1024


class Verdict(msgspec.Struct, frozen=True):
    """What a predicate or a parser says that is more than yes or no; `code` is a closed word."""

    state: ItemState
    code: str | None = None


@dataclass(frozen=True)
class FileItem:
    """A file that is to be there, made in this task: an older one of that name is none.

    `parse(bytes)` raises or says False if it is not what it should be, or returns a Verdict; None: it is only opened.
    `made_by`: the command item during whose run it has to have got its bytes, with nobody else known to have written
    it meanwhile, and after which nobody changed it.
    """

    id: str
    path: str
    parse: Callable[[bytes], Any] | None = None
    least_bytes: int = 1
    most_bytes: int = _MOST_PARSED
    made_by: str | None = None

    def __post_init__(self) -> None:
        checked_id(self.id, "an item's id")


@dataclass(frozen=True)
class PredicateItem:
    """Something that is to hold: `check()` says True, False or a Verdict; for `acheck` it may be asynchronous."""

    id: str
    check: Callable[[], Any]

    def __post_init__(self) -> None:
        checked_id(self.id, "an item's id")


@dataclass(frozen=True)
class CommandItem:
    """A command that is to be run, in this task, with this exit code, and its files unchanged since it has ended.

    `build_known`: it has to be known which build ran it.
    """

    id: str
    argv: tuple[str, ...]
    cwd: str = "."
    exit_code: int = 0
    build_known: bool = False

    def __post_init__(self) -> None:
        checked_id(self.id, "an item's id")
        object.__setattr__(self, "argv", in_order(self.argv))


Item: TypeAlias = FileItem | PredicateItem | CommandItem


class Started(msgspec.Struct, frozen=True):
    """What was there when the task began: path -> version, None for no file. A resumed process hands it in again."""

    run: str
    at: datetime
    before: dict[str, FileVersion | None]


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an item's state stands on. `parsed` None: no parser was given."""

    before: FileVersion | None = None
    after: FileVersion | None = None
    opened: bool = False
    parsed: bool | None = None
    exit_code: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    build: Build | None = None


class ItemReport(msgspec.Struct, frozen=True):
    """The state of one item, and `code` why it is not met."""

    item: str
    kind: ItemKind
    state: ItemState
    code: str | None = None
    evidence: Evidence = Evidence()


class Delivered(msgspec.Struct, frozen=True):
    """All items at one time. Only `met` is done."""

    items: tuple[ItemReport, ...]

    @property
    def state(self) -> ItemState:
        """Met if all are; partial if some are, or are in part; else missing, and so is nothing at all."""
        states = {item.state for item in self.items}
        if states == {ItemState.MET}:
            return ItemState.MET
        return ItemState.PARTIAL if states & {ItemState.MET, ItemState.PARTIAL} else ItemState.MISSING

    @property
    def missing(self) -> tuple[ItemReport, ...]:
        """What is not met, in the order in which it was promised: the work of the next turn."""
        return tuple(item for item in self.items if item.state is not ItemState.MET)

    def next_turn(self) -> str:
        """Return what is missing as text for the next turn: one line for each item; empty if nothing is."""
        return "\n".join(f"{item.item}: {item.state}, {item.code or 'not met'}" for item in self.missing)


def as_json(data: bytes) -> None:
    """Parse a file as JSON; raises if it is none."""
    msgspec.json.decode(data)


def as_text(data: bytes) -> None:
    """Parse a file as text: UTF-8 without NUL, and not only space; raises if it is none."""
    text = data.decode("utf-8")
    if "\0" in text or not text.strip():
        raise ValueError("there is no text in it")
