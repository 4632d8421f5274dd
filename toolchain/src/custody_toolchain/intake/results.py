"""What intake gives: all actions in order, or one refusal, and beside both what the provider said."""

from typing import Any, Final

from msgspec import Struct

from custody_toolchain.intake.words import Boundary, Dialect, Source, Why

_LONGEST_ECHO: Final = 128


class Action(Struct, frozen=True, kw_only=True, gc=False):
    """One call that a model asks for, normalised; it is neither allowed nor executed.

    `ordinal` counts from 0. `call_id` is the provider's or the model's own, and None where neither gave one: none is
    ever made up. `arguments` are decoded; `text` is the input of a tool that takes free text, which has none.
    `span` is where the action stands in the text, in code points. `opaque` is what came along and is wanted back
    unread. `untyped` names parameters whose dialect has no types and for which none was declared: they are text.
    """

    ordinal: int
    name: str
    arguments: dict[str, Any]
    source: Source
    call_id: str | None = None
    item_id: str | None = None
    dialect: Dialect | None = None
    raw: str | None = None
    text: str | None = None
    span: tuple[int, int] | None = None
    opaque: dict[str, Any] = {}
    untyped: tuple[str, ...] = ()
    salvaged: bool = False


class Refusal(Struct, frozen=True, kw_only=True):
    """Why nothing is done. Numbers and closed words; a name only where the caller said that it is no secret.

    `call` and `parameter` count from 0; `at` is a place in the text in code points, `chunk` the number of a chunk,
    `length` that of the offending piece in characters, `name` a name out of the caller's `echo`.
    """

    why: Why
    boundary: Boundary
    call: int | None = None
    parameter: int | None = None
    at: int | None = None
    chunk: int | None = None
    length: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        """Say it in one line of at most a few words and numbers."""
        said = [f"{self.why} in {self.boundary}"]
        for word in ("call", "parameter", "at", "chunk", "length", "name"):
            value = getattr(self, word)
            if value is not None:
                said.append(f"{word} {value}")
        return ", ".join(said)


class Native(Struct, frozen=True, kw_only=True):
    """What the provider said, as it said it. `response` is the very object that was handed in, not a copy.

    `finish` is the provider's word, `finish_class` ours for it; `stream` is `completed`, `finished-no-terminal`,
    `interrupted`, `cancelled`, `error`, or None for a text alone.
    """

    api: str | None = None
    response: Any = None
    response_id: str | None = None
    model: str | None = None
    finish: str | None = None
    finish_class: str | None = None
    stream: str | None = None
    call_ids: tuple[str | None, ...] = ()


class Result(Struct, frozen=True, kw_only=True):
    """All actions in their order, or a refusal and no action. Neither: there was no plan.

    `salvaged` says that actions are missing behind these, by the caller's own policy. `notes` are closed words.
    """

    source: Source | None = None
    dialect: Dialect | None = None
    actions: tuple[Action, ...] = ()
    refusal: Refusal | None = None
    salvaged: bool = False
    native: Native = Native()
    notes: tuple[str, ...] = ()


class Refused(Exception):
    """A refusal on its way out; what is known further out is filled in there. It never leaves intake."""

    def __init__(
        self,
        why: Why,
        boundary: Boundary | None = None,
        *,
        at: int | None = None,
        parameter: int | None = None,
        length: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(why)
        self.why, self.boundary = why, boundary
        self.at, self.parameter, self.length, self.name = at, parameter, length, name
        self.call: int | None = None
        self.chunk: int | None = None

    def within(
        self, boundary: Boundary, *, call: int | None = None, chunk: int | None = None, offset: int = 0
    ) -> "Refused":
        """Fill in what is not known yet; `offset` is where the text began in which `at` counts."""
        self.boundary = self.boundary or boundary
        self.call = call if self.call is None else self.call
        self.chunk = chunk if self.chunk is None else self.chunk
        if offset and self.at is not None:
            self.at += offset
        return self

    def refusal(self, echo: frozenset[str]) -> Refusal:
        """Return it as a value; a name is kept only if it is in `echo`."""
        name = self.name if self.name in echo else None
        length = len(self.name) if self.length is None and self.name is not None else self.length
        return Refusal(
            why=self.why,
            boundary=self.boundary or Boundary.ANSWER,
            call=self.call,
            parameter=self.parameter,
            at=self.at,
            chunk=self.chunk,
            length=length,
            name=name and name[:_LONGEST_ECHO],
        )
