"""The lineage of one run: what is bound, what a prepared request holds of it, and what was submitted."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast
from weakref import finalize

import msgspec

from custody_toolchain.facts import Fact, Form, Link, OccurrenceFact, Unit, View, call_id_of, fact_id, now
from custody_toolchain.ids import ResultRef, checked_id
from custody_toolchain.lineage.answers import Answer, answer
from custody_toolchain.lineage.binding import Book, Carried, Pins, bind_weakly, carried_by, lock, record_of
from custody_toolchain.lineage.cutting import at_characters, part_of, within
from custody_toolchain.lineage.finding import Found, find
from custody_toolchain.lineage.memory import NOTHING_KNOWN, Memory, Occurrence, Sent
from custody_toolchain.observing import Guarded, Report

Thing = TypeVar("Thing")

MOST_TEXTS: Final = 16_384
MOST_TEXT_BYTES: Final = 64 * 2**20
MOST_ACTIONS: Final = 65_536
MOST_OCCURRENCES: Final = 16_384

_WHOLE: Final = View(Form.FULL)


class Prepared:
    """A request as it was when it was prepared: places and results, none of its content."""

    __slots__ = ("_submit", "attempts", "exchange", "found", "request")

    def __init__(
        self, exchange: str, found: Sequence[Found], submit: "Callable[[Prepared, str | None], int]"
    ) -> None:
        self._submit = submit
        self.exchange = exchange
        self.found = found
        self.request: int | None = None
        self.attempts: set[str | None] = set()

    def submitted(self, attempt: str | None = None) -> int:
        """Say that the request was sent, and return its number in the run.

        A retry is another `attempt` of the same occurrences; the same attempt said twice is one. Whether what it
        carries is the run's, single and newest is looked at for each attempt, when it is sent.
        """
        return self._submit(self, attempt)

    def dropped(self) -> None:
        """Say that the request will not be sent: it makes no occurrence and takes no number.

        What was sent before stays; and should it be sent after all, `submitted` stands, for it says what happened.
        """


class Lineage:
    """Binds representations to results, and says which submitted request carried which.

    Promised: nothing is linked but what was bound here, or was made by these functions from what was; nothing is added
    to a message. `bind` and what makes something of it *return* the object to use: of a dict, a list or a text it is an
    equal copy (a dict and a list of a class of their own, a text a plain one). What cannot be bound (a tuple, a number,
    a text of less than two characters, one too large, one of too many actions) is returned as it is, counted in
    `unbound`, and unknown.

    Not promised: that a change is always seen. Of a bound object that can change, the first 256 values are compared; a
    changed one is unknown. Texts are held, at most `most_texts` and `most_text_bytes` (of memory; with the UTF-8 that
    CPython may keep beside a text that is not ASCII); those that no prepared request had for longest are let go first
    and are unknown from then on. Everything else lives only as long as the runtime's own objects. Copies by
    `copy.deepcopy`, pickles and JSON are unknown, but for the texts in them that are still the same objects. One run
    has one Lineage in a process; a forked process that submits requests of the run numbers them by `request`.
    """

    def __init__(
        self,
        run: str,
        report: Report | None = None,
        *,
        first_request: int = 1,
        most_texts: int = MOST_TEXTS,
        most_text_bytes: int = MOST_TEXT_BYTES,
        most_actions: int = MOST_ACTIONS,
        most_occurrences: int = MOST_OCCURRENCES,
    ) -> None:
        self.run = checked_id(run, "a run's id")
        self._guarded = Guarded(report)
        self._next_request = _numbered(first_request)
        self._book = Book(most_actions)
        self._pins = Pins(most_texts, most_text_bytes)
        self._memory = Memory(most_occurrences)
        self._end = finalize(self, self._pins.clear)
        self._end.atexit = False
        self.unbound = 0

    @property
    def reports_failed(self) -> int:
        """How many times the report raised; no link is another for it."""
        return self._guarded.failed

    def made(self, result: ResultRef, mark: object = None) -> None:
        """Say that a result was made; of older versions of it nothing is linked from now on.

        `mark`, anything that compares equal for the same result (a digest, a receipt's id), tells two results under one
        identity apart; of such nothing is linked at all.
        """
        if result.run == self.run and not self._book.note(result, mark):
            self.unbound += 1

    def bind(self, thing: Thing, result: ResultRef, view: View = _WHOLE, *, mark: object = None) -> Thing:
        """Return an object that represents a result, in the form that `view` says."""
        if result.run == self.run and not self._book.note(result, mark):
            self.unbound += 1
            return thing
        return self._bound(thing, (Carried(result, view, self._book),))

    def inherit(self, thing: Thing, of: object) -> Thing:
        """Return `thing`, bound to all that `of` represents, in the same forms: a rendering, or a copy for an SDK.

        `of` is a bound object, or one that holds bound objects, a list of messages say.
        """
        return self._bound(thing, self._carried(of))

    def reference(self, thing: Thing, of: object) -> Thing:
        """Return `thing`, which stands for what `of` represents without holding any of it."""
        return self._bound(thing, _seen_as(Form.REFERENCE, self._carried(of)))

    def omit(self, thing: Thing, of: object) -> Thing:
        """Return `thing`, which says that what `of` represents was left out."""
        return self._bound(thing, _seen_as(Form.OMITTED, self._carried(of)))

    def cut_rows(self, whole: Any, start: int = 0, stop: int | None = None) -> Any:
        """Return `whole[start:stop]`, bound to that part; `whole` is a list, or what is cut and counted as one."""
        if isinstance(whole, str | bytes | dict):
            raise TypeError("rows are cut of a list, or of what is cut as one")
        total = len(whole)
        start, stop = within(start, stop, total)
        return self._part(whole[start:stop], whole, Unit.ROWS, (start, stop, total))

    def cut_bytes(self, whole: str, start: int = 0, stop: int | None = None) -> str:
        """Return the bytes of a text's UTF-8 from `start` to before `stop`, bound to that part.

        Both ends move back to where a character begins; the part's view says where they really are.
        """
        encoded = whole.encode("utf-8", "surrogatepass")
        start, stop = at_characters(encoded, *within(start, stop, len(encoded)))
        part = encoded[start:stop].decode("utf-8", "surrogatepass")
        return self._part(part, whole, Unit.BYTES, (start, stop, len(encoded)))

    def prepare(self, exchange: str, messages: Sequence[Any], *, request: int | None = None) -> Prepared:
        """Note what stands where in a request's messages now; nothing is an occurrence until it is submitted.

        `messages` are what is handed to the SDK: messages, items or contents, as dicts or as the SDK's objects.
        `request` is the runtime's own number of this request, from 1; without it, the run's submitted requests are
        counted.
        """
        checked_id(exchange, "an exchange's id")
        if request is not None:
            _numbered(request)
        if isinstance(messages, str):
            messages = (messages,)
        if isinstance(messages, bytes) or not isinstance(messages, Sequence):
            raise TypeError("messages are a list of them")
        found, texts = find(messages)
        self._pins.seen(texts)
        return Prepared(exchange, found, partial(self._submit, request))

    def occurrences(self, action: str) -> tuple[Occurrence, ...]:
        """Return in which submitted requests an action's result stood, as far as it is not `forgotten`."""
        return self._memory.occurrences(action)

    def unlinked(self) -> tuple[Occurrence, ...]:
        """Return what stood in submitted requests as a tool's result and is linked to none, with the reason."""
        return self._memory.occurrences(None)

    @property
    def forgotten(self) -> int:
        """How many occurrences, of whatever action, are too long ago to be remembered."""
        return self._memory.forgotten

    def answer(self, action: str, stages: Iterable[Fact] = ()) -> Answer:
        """Join an action's occurrences with how it was executed, of which only facts that are given tell."""
        return answer(action, stages, self.occurrences(action))

    def close(self) -> None:
        """Let the texts go; what is still prepared and submitted later is an occurrence all the same."""
        self._pins.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _carried(self, of: object) -> tuple[Carried, ...]:
        if record_of(of) is not None:
            return carried_by(of)
        found, _ = find(of if isinstance(of, list | tuple) else (of,))
        return tuple(
            dict.fromkeys(each.carried for each in found if each.carried is not None and not each.clash)
        )

    def _part(self, part: Thing, whole: object, unit: Unit, cut: tuple[int, int, int]) -> Thing:
        carried = carried_by(whole)
        if len(carried) > 1:
            # Of which of them this is a part, nobody can say.
            self.unbound += 1
            return part
        return self._bound(
            part,
            tuple(msgspec.structs.replace(each, view=part_of(each.view, unit, *cut)) for each in carried),
        )

    def _bound(self, thing: Thing, carried: tuple[Carried, ...]) -> Thing:
        if not carried:
            return thing
        bound: Thing | None
        if isinstance(thing, str):
            bound = cast("Thing | None", self._pins.hold(thing, carried))
        else:
            bound = cast("Thing | None", bind_weakly(thing, carried))
        if bound is None:
            self.unbound += 1
            return thing
        return bound

    def _submit(self, wanted: int | None, prepared: Prepared, attempt: str | None) -> int:
        if attempt is not None:
            checked_id(attempt, "an attempt's id")
        with lock:
            if prepared.request is None:
                prepared.request = self._next_request if wanted is None else wanted
                self._next_request = max(self._next_request, prepared.request + 1)
            known = attempt in prepared.attempts
            prepared.attempts.add(attempt)
        if not known:
            links = [self._link(found) for found in prepared.found]
            self._note(Sent(prepared.exchange, prepared.request, attempt, prepared.found, links))
        return prepared.request

    def _link(self, found: Found) -> Link:
        """Check run, action and version of what was found, as they are now."""
        carried, book = found.carried, self._book
        if carried is None:
            return Link.UNKNOWN
        result = carried.result
        if result.run != self.run:
            return Link.OTHER_RUN
        # Another Lineage of the same run may know what this one does not.
        other = None if carried.book is book else carried.book
        if found.clash or book.several(result) or (other is not None and other.several(result)):
            return Link.DUPLICATE
        replaced = book.replaced(result) or (other is not None and other.replaced(result))
        return Link.REPLACED if replaced else Link.BOUND

    def _note(self, sent: Sent) -> None:
        self._memory.add(sent)
        at = now()
        for place in range(len(sent.found)):
            self._guarded.tell(partial(_fact, sent, place, at))


def _fact(sent: Sent, place: int, at: datetime) -> OccurrenceFact:
    found, link = sent.found[place], sent.links[place]
    bound = found.carried if link is Link.BOUND else None
    return OccurrenceFact(
        fact=fact_id("occurrence", sent.request, place, sent.exchange, *_named(sent.attempt)),
        at=at,
        exchange=sent.exchange,
        request=sent.request,
        position=found.position,
        link=link,
        view=NOTHING_KNOWN if found.carried is None else found.carried.view,
        attempt=sent.attempt,
        action=None if bound is None else bound.result.action,
        result_version=None if bound is None else bound.result.version,
        call_id=call_id_of(found.call_id),
    )


def _seen_as(form: Form, carried: tuple[Carried, ...]) -> tuple[Carried, ...]:
    return tuple(
        msgspec.structs.replace(each, view=View(form, source_whole=each.view.source_whole))
        for each in carried
    )


def _numbered(request: int) -> int:
    """Return a number of a request; no fact could name another."""
    if request < 1:
        raise ValueError("requests of a run count from 1")
    return request


def _named(attempt: str | None) -> tuple[str, ...]:
    return () if attempt is None else (attempt,)
