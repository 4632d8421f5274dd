"""Texts become actions: plain JSON plans, and markup; whole, or fed as they arrive."""

from typing import Final

from custody_toolchain.intake.bounds import joined, text_of
from custody_toolchain.intake.deciding import Options
from custody_toolchain.intake.markup import batch_in
from custody_toolchain.intake.plans import actions_of
from custody_toolchain.intake.results import Native, Refused, Result
from custody_toolchain.intake.words import Boundary, Source, Why

_DEFAULT: Final = Options()


def read_plan(text: str | bytes, options: Options | None = None, *, complete: bool = True) -> Result:
    """Read a text that is a plan and nothing else: an action, a list of them, or an object with a list `actions`.

    An action is `{"name", "arguments"}`; `tool`, `parameters`, `args`, `input`, `id` and `call_id` are understood. What
    was cut is refused, or salvaged where the options say so; `complete` is False where the caller knows of a cut.
    """
    options = options or _DEFAULT
    try:
        checked = text_of(text, options.limits)
        plan = actions_of(checked, options.limits, options.truncated, complete=complete)
    except Refused as why:
        return _refused(why, options, text, Source.PLAN)
    return Result(
        source=Source.PLAN,
        actions=tuple(plan.actions),
        salvaged=plan.salvaged,
        native=_native(text, [action.call_id for action in plan.actions]),
    )


def read_markup(text: str | bytes, options: Options, *, complete: bool = True) -> Result:
    """Read the batch with which a text ends, in one of the permitted dialects: all of it, or a refusal.

    A batch begins at the beginning of a line, outside of code blocks and quotations, and nothing follows it. Other
    markup is text. Where `complete` is False, a text in which a batch begins is refused.
    """
    try:
        checked = text_of(text, options.limits)
        found = batch_in(
            checked, options.dialects, options.limits, options.types, complete=complete, alone=options.alone
        )
    except Refused as why:
        return _refused(why, options, text, Source.MARKUP)
    return Result(
        source=Source.MARKUP if found.actions else None,
        dialect=found.actions[0].dialect if found.actions else None,
        actions=found.actions,
        native=_native(text, [action.call_id for action in found.actions]),
        notes=found.notes,
    )


class TextReader:
    """Takes a text in pieces, cut anywhere, in characters too. `feed` never raises and holds no more than the limit.

    Nothing is given before `end`: of a batch there is no part.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bytes: list[bytes] = []
        self._texts: list[str] = []
        self._size = 0

    def feed(self, piece: str | bytes) -> None:
        """Take the next piece."""
        if not piece:
            return
        self._size += len(piece)
        if self._size > self._options.limits.text_bytes:
            return
        if isinstance(piece, bytes):
            self._bytes.append(piece)
        else:
            self._texts.append(piece)

    def markup(self, *, complete: bool = True) -> Result:
        """Return what `read_markup` makes of it."""
        text = self._text()
        if isinstance(text, Refused):
            return _refused(text, self._options, None, Source.MARKUP)
        return read_markup(text, self._options, complete=complete)

    def plan(self, *, complete: bool = True) -> Result:
        """Return what `read_plan` makes of it."""
        text = self._text()
        if isinstance(text, Refused):
            return _refused(text, self._options, None, Source.PLAN)
        return read_plan(text, self._options, complete=complete)

    def _text(self) -> str | bytes | Refused:
        if self._size > self._options.limits.text_bytes:
            return Refused(Why.TOO_MANY_BYTES, Boundary.TEXT, length=self._size)
        if self._bytes and self._texts:
            return Refused(Why.WRONG_TYPE, Boundary.TEXT)
        return b"".join(self._bytes) if self._bytes else joined(self._texts)


def _native(text: object, call_ids: list[str | None]) -> Native:
    return Native(response=text, call_ids=tuple(call_ids))


def _refused(why: Refused, options: Options, text: object, source: Source) -> Result:
    refusal = why.within(Boundary.TEXT).refusal(options.echo)
    return Result(source=source, refusal=refusal, native=Native(response=text))
