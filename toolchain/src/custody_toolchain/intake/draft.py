"""A provider's answer while it is put together: what every adapter writes into, and what was wrong with it first."""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.bounds import Limits
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

_NO_IDS: Final = frozenset({"null", "None"})
_LONGEST: Final = 256
_ENTRY: Final = 64  # about what it takes to keep a block or a choice in mind of which nothing else is held


class CallDraft:
    """One call: arguments as pieces of JSON, as a decoded object, or as free text."""

    __slots__ = (
        "arguments",
        "call_id",
        "choice",
        "cut",
        "is_text",
        "item_id",
        "name",
        "opaque",
        "ordinal",
        "pieces",
    )

    def __init__(self, ordinal: int, choice: int) -> None:
        self.ordinal, self.choice = ordinal, choice
        self.call_id: str | None = None
        self.item_id: str | None = None
        self.name: str | None = None
        self.pieces: list[str] = []
        self.arguments: Any = None
        self.is_text = False
        self.cut = False  # known not to be whole, whatever its arguments look like
        self.opaque: dict[str, Any] = {}


class AnswerDraft:
    """One answer. Each adapter has keys of its own; nothing is held beyond the bounds."""

    def __init__(self, api: str, limits: Limits) -> None:
        self.api, self.limits = api, limits
        self.calls: list[CallDraft] = []
        self.texts: dict[int, list[str]] = {}
        self.finishes: dict[int, str] = {}
        self.refused_by_model: set[int] = set()
        self.opened: set[Any] = set()
        self.unfinished: set[Any] = set()
        self.text_cut = False
        self.terminal = self.failed = self.recognised = False
        self.state: str | None = None
        self.response_id: str | None = None
        self.model: str | None = None
        self.notes: dict[str, None] = {}
        self.fault: Refused | None = None
        self.chunk = 0
        self._size = 0
        self._keys: dict[Any, CallDraft] = {}
        self._blocks: dict[int, Any] = {}

    def begin(self, key: Any, name: object, call_id: str | None, choice: int = 0) -> CallDraft:
        """Begin a call that is found under a key from now on; Refused without a name, or with the id of another."""
        named = given_name(name)
        if named is None:
            raise Refused(Why.NAME_MISSING, Boundary.CALL)
        if call_id is not None and self.known((choice, "id", call_id)) is not None:
            raise Refused(Why.ID_REPEATED, Boundary.CALL)
        self._grow(len(named) + len(call_id or ""))
        call = self.call(key, choice)
        call.name, call.call_id = named, call_id
        if call_id is not None:
            self.name((choice, "id", call_id), call)
        return call

    def call(self, key: Any, choice: int = 0) -> CallDraft:
        """Begin a call of which nothing is known yet; the last one under a key counts."""
        if len(self.calls) >= self.limits.actions:
            raise Refused(Why.TOO_MANY_ACTIONS, Boundary.ANSWER, length=len(self.calls) + 1)
        call = CallDraft(len(self.calls), choice)
        self.calls.append(call)
        self._keys[key] = call
        return call

    def known(self, key: Any) -> CallDraft | None:
        """Return the call under a key."""
        return self._keys.get(key)

    def name(self, key: Any, call: CallDraft) -> None:
        """Let a call be found under one more key."""
        self._keys[key] = call

    def say(self, text: object, choice: int = 0, block: Any = None) -> None:
        """Add what the model said; another block begins a line. Only this can hold markup."""
        if text is None or text == "":
            return
        if not isinstance(text, str):
            raise Refused(Why.WRONG_TYPE, Boundary.TEXT)
        self._grow(len(text) + (1 if choice in self.texts else _ENTRY))
        said = self.texts.setdefault(choice, [])
        if said and block != self._blocks.get(choice):
            said.append("\n")
        self._blocks[choice] = block
        said.append(text)

    def add(self, call: CallDraft, piece: str) -> None:
        """Add a piece of a call's arguments."""
        if piece:
            self._grow(len(piece))
            call.pieces.append(piece)

    def give(self, call: CallDraft, arguments: object) -> None:
        """Take a call's arguments as the object that they came as."""
        self._grow(_weight(arguments))
        call.arguments = arguments

    def keep(self, call: CallDraft, along: Mapping[str, Any]) -> None:
        """Keep what came along with a call; of what came under the same key before, this takes the place."""
        for key, value in along.items():
            before = _weight(call.opaque[key]) if key in call.opaque else -len(str(key))
            self._grow(max(0, _weight(value) - before))
            call.opaque[key] = value

    def open(self, block: object) -> bool:
        """Take down that a block has begun; False if it has already."""
        if block in self.opened:
            return False
        self._grow(_ENTRY)
        self.opened.add(block)
        return True

    def mark(self, block: object, *, finished: bool) -> None:
        """Take down whether a block is said to be finished; the last word of each counts."""
        if finished:
            self.unfinished.discard(block)
        elif block not in self.unfinished:
            self._grow(_ENTRY)
            self.unfinished.add(block)

    def finish(self, reason: object, choice: int = 0) -> None:
        """Take the provider's word for why the model stopped; the last one counts."""
        if reason is not None and reason != "":
            if choice not in self.finishes:
                self._grow(_ENTRY)
            self.finishes[choice] = str(reason)[:96]

    def declined(self, choice: int = 0) -> None:
        """Take down that the model refused: what it says then is no plan."""
        if choice not in self.refused_by_model:
            self._grow(_ENTRY)
            self.refused_by_model.add(choice)

    def head(self, response_id: object, model: object) -> None:
        """Take the answer's id and the model's name, the first of each."""
        self.response_id = self.response_id or short(response_id)
        self.model = self.model or short(model)

    def refuse(self, refused: Refused) -> None:
        """Remember the first thing that was wrong; reading goes on for what else the provider said."""
        if self.fault is not None:
            return
        # Where nobody said which call it is, it is the one that could not begin.
        call = len(self.calls) if refused.boundary in {Boundary.CALL, Boundary.ARGUMENTS} else None
        self.fault = refused.within(Boundary.ANSWER, call=call, chunk=self.chunk)

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > self.limits.text_bytes:
            raise Refused(Why.TOO_MANY_BYTES, Boundary.ANSWER, length=self._size)


def _weight(value: object) -> int:
    """Return about how many characters a decoded value holds: no more than its JSON has."""
    weight, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        weight += 1
        if isinstance(one, str | bytes):
            weight += len(one)
        elif isinstance(one, Mapping):
            weight += sum(len(key) for key in one if isinstance(key, str))
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
    return weight


def short(value: object) -> str | None:
    """Return an id or a name of a model, if it is one."""
    return value[:_LONGEST] if isinstance(value, str) and value else None


def given_id(value: object) -> str | None:
    """Return an id as it was given, or None for none; Refused where it is no id but looks like one."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Refused(Why.WRONG_TYPE, Boundary.CALL)
    if value in _NO_IDS:
        raise Refused(Why.ID_IS_THE_TEXT_NULL, Boundary.CALL)
    return value


def of(call: CallDraft, why: Why, boundary: Boundary = Boundary.CALL) -> Refused:
    """Return a refusal that names a call that has begun."""
    return Refused(why, boundary).within(boundary, call=call.ordinal)


def required_id(holder: Mapping[str, Any], key: str) -> str:
    """Return the id that pairs a call with its result; Refused where there is none."""
    found = given_id(holder.get(key))
    if found is not None:
        return found
    if key not in holder:
        raise Refused(Why.ID_MISSING, Boundary.CALL)
    raise Refused(Why.ID_NULL if holder[key] is None else Why.ID_EMPTY, Boundary.CALL)


def given_name(value: object) -> str | None:
    """Return a name as it was given, or None for none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Refused(Why.WRONG_TYPE, Boundary.CALL)
    return value


def kind_of(value: Mapping[str, Any]) -> str:
    """Return the word by which an object says what it is, or an empty one."""
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def place(value: object) -> int:
    """Return the number under which a block or an item is spoken of; Refused where it is none."""
    if type(value) is not int:
        raise Refused(Why.WRONG_TYPE, Boundary.CALL)
    return value


def mapping(value: object, boundary: Boundary = Boundary.ANSWER) -> Mapping[str, Any]:
    """Return an object, an empty one for none; Refused where it is something else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refused(Why.WRONG_TYPE, boundary)
    return value


def listed(value: object, boundary: Boundary = Boundary.ANSWER) -> list[Any]:
    """Return a list, an empty one for none; Refused where it is something else."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise Refused(Why.WRONG_TYPE, boundary)
    return list(value)
