"""An output while it grows: what every wire format writes into."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

from msgspec import UNSET

from custody_client.streams.exact import Path, exact
from custody_client.streams.finishes import class_of
from custody_client.streams.items import (
    ArgumentsDraft,
    CallDraft,
    Form,
    ItemDraft,
    MediaDraft,
    Opaque,
    RawDraft,
    ReasoningDraft,
    ServerToolDraft,
    TextDraft,
    TextKind,
    unrecognised,
)
from custody_client.streams.limits import Limits
from custody_client.streams.output import Choice, Finish, Fragment, StreamError, Unknown, Unrecognised
from custody_client.streams.usage import Counts
from custody_client.streams.words import Budget, Words

Key = tuple[Any, ...]
Source = Literal["stream", "transport"]
_D = TypeVar("_D", TextDraft, ReasoningDraft, CallDraft, ServerToolDraft, MediaDraft)

# Bytes that an item takes beside its content, so that many small ones are bounded as well.
_ITEM_BYTES: Final = 128
_FRAGMENT_BYTES: Final = 24


class ChoiceDraft:
    """One answer: its items in order, and by the keys under which its wire format speaks of them."""

    __slots__ = (
        "_keyed",
        "_marks",
        "calls",
        "draft",
        "facts",
        "finish",
        "finish_details",
        "index",
        "items",
        "role",
    )

    def __init__(self, draft: "Draft", index: int) -> None:
        self.draft, self.index = draft, index
        self.role: str | None = None
        self.items: list[ItemDraft] = []
        self.calls: list[CallDraft] = []
        self._keyed: dict[Key, Any] = {}
        self._marks: set[Key] = set()
        self.finish: tuple[str | None, str] | None = None
        self.finish_details: dict[str, Any] = {}
        self.facts = draft.opaque()

    def text(self, key: Key, kind: TextKind = "text") -> TextDraft:
        """Return the text under this key, a new one if there is none."""
        item = self._keyed.get(key)
        if type(item) is TextDraft:
            return item
        draft = self.draft
        return self.under(key, TextDraft, lambda: TextDraft(kind, draft.words(), draft.opaque()))

    def reasoning(self, key: Key, form: Form = "text") -> ReasoningDraft:
        """Return the reasoning under this key, a new one if there is none."""
        item = self._keyed.get(key)
        if type(item) is ReasoningDraft:
            return item
        draft = self.draft
        return self.under(key, ReasoningDraft, lambda: ReasoningDraft(form, draft.words(), draft.opaque()))

    def call(self, key: Key) -> CallDraft:
        """Return the call under this key, a new one if there is none."""
        return self.under(key, CallDraft, self._new_call)

    def server_tool(self, key: Key, name: str | None) -> ServerToolDraft:
        """Return the provider's tool under this key, a new one if there is none."""
        return self.under(key, ServerToolDraft, lambda: ServerToolDraft(name, self.draft.arguments()))

    def media(self, key: Key, media_type: str | None) -> MediaDraft:
        """Return the picture or sound under this key, a new one if there is none."""
        return self.under(key, MediaDraft, lambda: MediaDraft(media_type))

    def raw(self, name: str | None, path: Path, value: object) -> None:
        """Keep an item that nothing here knows as it came."""
        draft = self.draft
        item = RawDraft(draft.as_it_came(name, draft.exact(path, value)))
        self._append(item)

    def known(self, key: Key) -> Any:
        """Return the item under this key, or None."""
        return self._keyed.get(key)

    def name(self, key: Key, item: ItemDraft) -> None:
        """Let an item be found under one more key."""
        self._keyed[key] = item

    def under(self, key: Key, kind: type[_D], make: Callable[[], _D]) -> _D:
        """Return the item of this kind under this key; one that is not there is made, and appended if there is room."""
        item = self._keyed.get(key)
        if type(item) is kind:
            return item
        if item is not None:
            self.draft.note("block-changed-type")
        made = make()
        if self._append(made):
            self._keyed[key] = made
        return made

    def first(self, *mark: Any) -> bool:
        """Tell whether this is said for the first time; of very much that is said, no longer."""
        if mark in self._marks or len(self._marks) >= 2 * self.draft.limits.items:
            return False
        self._marks.add(mark)
        return True

    def finished(self, reason: str | None, as_class: str | None = None) -> None:
        """Take the word for why the model stopped. The last one counts."""
        self.finish = (reason, as_class or class_of(reason))

    def build(self, *, finished: bool) -> Choice:
        """Give what is there."""
        items = [item.build(finished=finished or self.finish is not None) for item in self.items]
        return Choice(self.index, self.role, items, self._finish(), self.facts.build() or UNSET)

    def _finish(self) -> Finish | None:
        if self.finish is None:
            return None
        reason, named = self.finish
        return Finish(reason, named, self.finish_details or UNSET)  # type: ignore[arg-type]  # a class of finishes.py

    def _new_call(self) -> CallDraft:
        draft = self.draft
        return CallDraft(draft.next_ordinal(), draft.arguments(), draft.opaque())

    def _append(self, item: ItemDraft) -> bool:
        """Append an item if there is room; else it goes on alone, and nothing of it is shown."""
        draft = self.draft
        if not draft.has_room(item):
            draft.dropped_items += 1
            draft.budget.overdrawn = True
            return False
        self.items.append(item)
        if type(item) is CallDraft:
            self.calls.append(item)
        return True


class Draft:
    """Everything of one output, and the event that is being read: its number, and its bytes where there are any."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.budget = Budget(limits.total_bytes)
        self.seq = 0
        self.data: bytes | None = None
        self.choices: dict[int, ChoiceDraft] = {}
        self.response_id: str | None = None
        self.model: str | None = None
        self.usage = Counts()
        self.terminal: str | None = None
        self.error: StreamError | None = None
        self.notes: dict[str, None] = {}
        self.facts = self.opaque()
        self.dropped_items = self.dropped_fragments = 0
        self.unknown: list[Unrecognised] = []
        self.unknown_count = self._items = self._calls = self._fragments = 0
        self._spare = ChoiceDraft(self, -1)

    def choice(self, index: object = 0) -> ChoiceDraft:
        """Return the choice of that number; what is too many is written into one that is not shown."""
        number = index if type(index) is int else 0
        choice = self.choices.get(number)
        if choice is None:
            if len(self.choices) >= self.limits.choices:
                self.budget.overdrawn = True
                return self._spare
            choice = self.choices[number] = ChoiceDraft(self, number)
        return choice

    def head(self, response_id: object, model: object) -> None:
        """Take the answer's id and the model's name; the first ones count."""
        if response_id and response_id != self.response_id and type(response_id) is str:
            if self.response_id is None:
                self.response_id = response_id[:256]
            else:
                self.note("response-id-changed")
        if self.model is None and model and type(model) is str:
            self.model = model[:256]

    @property
    def finished(self) -> bool:
        """Tell whether the model said of every choice why it stopped."""
        return bool(self.choices) and all(choice.finish is not None for choice in self.choices.values())

    def note(self, text: str) -> None:
        """Say what was odd, once."""
        if len(self.notes) < self.limits.notes:
            self.notes[text[:96]] = None

    def fails(self, kind: object, message: object, code: object = None, source: Source = "stream") -> None:
        """Take an error that broke the stream; the first one counts."""
        if self.error is None:
            self.error = StreamError(
                source, _short(kind), _short(message, self.limits.raw_bytes), _short(code)
            )

    def keep(self, name: str | None, data: bytes) -> None:
        """Count an event that nothing here knows, and keep the first of them."""
        self.unknown_count += 1
        if len(self.unknown) < self.limits.unknown:
            self.unknown.append(self.as_it_came(name, data))

    def keep_answer(self, data: bytes) -> None:
        """Keep a whole answer of a shape that nothing here knows."""
        self.unknown_count += 1
        self.unknown.append(unrecognised(None, data, self.limits.raw_answer_bytes, self.budget, None))

    def pass_over(self) -> None:
        """Do not count this event: it can hold nothing of an answer."""
        self.seq -= 1

    def as_it_came(self, name: str | None, data: bytes) -> Unrecognised:
        """Give bytes as an item."""
        short = None if name is None else name[:96]
        return unrecognised(short, data, self.limits.raw_bytes, self.budget, self.seq)

    def exact(self, path: Path, value: object) -> bytes:
        """Return JSON of a value of this event, as it was written."""
        return exact(self.data, path, value)

    def fact(self, facts: Opaque, key: str, value: object, path: Path) -> None:
        """Keep a provider's remark as it was written; the last one under a key counts."""
        if value and not facts.is_last(key, value):
            facts.put(key, self.exact(path, value), value)

    def more(self, facts: Opaque, key: str, value: object, path: Path) -> None:
        """Keep one of several remarks as it was written."""
        if value:
            facts.append(key, self.exact(path, value))

    def words(self) -> Words:
        """Make an empty text."""
        return Words(self.limits.text_bytes, self.budget)

    def opaque(self) -> Opaque:
        """Make an empty place for what is sent along."""
        return Opaque(self.limits.opaque_bytes, self.budget)

    def arguments(self) -> ArgumentsDraft:
        """Make empty arguments."""
        return ArgumentsDraft(Words(self.limits.arguments_bytes, self.budget))

    def add_fragment(self, arguments: ArgumentsDraft, fragment: Fragment, odd_bytes: int = 0) -> None:
        """Record a piece of arguments, as long as there is room for records."""
        size = _FRAGMENT_BYTES + odd_bytes
        if self._fragments < self.limits.fragments and self.budget.left >= size:
            self._fragments += 1
            self.budget.left -= size
            arguments.fragments.append(fragment)
        else:
            self.dropped_fragments += 1

    def add_arguments(self, arguments: ArgumentsDraft, piece: str) -> None:
        """Append a piece of arguments that came as it should, and record it."""
        arguments.words.add(piece)
        self.add_fragment(arguments, Fragment(self.seq, len(piece)))

    def add_object(self, arguments: ArgumentsDraft, path: Path, value: object) -> None:
        """Take arguments that came as an object, not as text: its JSON, once."""
        text = self.exact(path, value).decode()
        arguments.form = "object"
        self.add_arguments(arguments, text)

    def add_initial(self, arguments: ArgumentsDraft, path: Path, value: object) -> None:
        """Take an object at the head of a call, where pieces may follow."""
        arguments.initial = Words(self.limits.arguments_bytes, self.budget)
        arguments.initial.add(self.exact(path, value).decode())

    def next_ordinal(self) -> int:
        """Return the number of a new call."""
        self._calls += 1
        return self._calls - 1

    def has_room(self, item: ItemDraft) -> bool:
        """Tell whether one more item may be kept."""
        self._items += 1
        if type(item) is CallDraft and item.ordinal >= self.limits.calls:
            return False
        if self._items > self.limits.items or self.budget.left < _ITEM_BYTES:
            return False
        self.budget.left -= _ITEM_BYTES
        return True

    def unknowns(self) -> Unknown | None:
        """Give what nothing here knew."""
        return Unknown(self.unknown_count, list(self.unknown)) if self.unknown_count else None


def _short(value: object, length: int = 96) -> str | None:
    """Return a provider's word or number as text, not longer than that."""
    return str(value)[:length] if isinstance(value, str | int) else None
