"""The items of an answer while they grow."""

import base64
from hashlib import sha256
from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType

from custody_client.streams.decoding import is_json
from custody_client.streams.output import (
    Arguments,
    ArgumentsState,
    Cut,
    Fragment,
    Media,
    Reasoning,
    Refusal,
    ServerTool,
    Text,
    ToolCall,
    Unrecognised,
)
from custody_client.streams.words import Budget, Words, cost_of

TextKind = Literal["text", "refusal"]
Form = Literal["text", "summary", "redacted", "encrypted"]
_KEY_BYTES = 4  # quotes, a colon and a comma


class Opaque:
    """What a provider sends along and wants back unread: kept as it came, within bounds."""

    __slots__ = ("_budget", "_left", "_seen", "values")

    def __init__(self, limit_bytes: int, budget: Budget) -> None:
        self._left, self._budget = limit_bytes, budget
        self._seen: dict[str, object] = {}
        self.values: dict[str, Any] = {}

    def is_last(self, key: str, value: object) -> bool:
        """Tell whether this value was the last one: many providers repeat themselves in each chunk."""
        return key in self._seen and self._seen[key] == value

    def put(self, key: str, value: bytes, decoded: object = None) -> None:
        """Keep JSON under a key, in place of what was there; `decoded` is what it says."""
        if self._room(key, len(value)):
            self.values[key] = Raw(value)
            self._seen[key] = decoded

    def append(self, key: str, value: bytes) -> None:
        """Keep JSON as one more element of a list."""
        if self._room(key, len(value)):
            self.values.setdefault(key, []).append(Raw(value))

    def join(self, key: str, piece: str) -> None:
        """Keep a text that comes in pieces, such as a signature."""
        if self._room(key, cost_of(piece)):
            self.values.setdefault(key, []).append(piece)

    def build(self) -> dict[str, Any]:
        """Give it all, texts joined."""
        return {key: _joined(value) for key, value in self.values.items()}

    def _room(self, key: str, size: int) -> bool:
        size += 1 if key in self.values else cost_of(key) + _KEY_BYTES
        if size > min(self._left, self._budget.left):
            self._budget.overdrawn = True
            return False
        self._left -= size
        self._budget.left -= size
        return True


def _joined(value: Any) -> Any:
    return "".join(value) if isinstance(value, list) and isinstance(value[0], str) else value


class TextDraft:
    """Text or refusal."""

    __slots__ = ("kind", "opaque", "words")

    def __init__(self, kind: TextKind, words: Words, opaque: Opaque) -> None:
        self.kind, self.words, self.opaque = kind, words, opaque

    def build(self, *, finished: bool) -> Text | Refusal:  # noqa: ARG002 -- as all items
        """Give what is there."""
        if self.kind == "refusal":
            return Refusal(self.words.text(), self.words.cut())
        return Text(self.words.text(), self.words.cut(), self.opaque.build() or UNSET)


class ReasoningDraft:
    """Reasoning: its text, and what else came with it."""

    __slots__ = ("form", "opaque", "words")

    def __init__(self, form: Form, words: Words, opaque: Opaque) -> None:
        self.form, self.words, self.opaque = form, words, opaque

    def build(self, *, finished: bool) -> Reasoning:  # noqa: ARG002 -- as all items
        """Give what is there."""
        return Reasoning(self.words.text(), self.form, self.opaque.build(), self.words.cut())


class ArgumentsDraft:
    """Arguments of a call: pieces of text, or an object at once."""

    __slots__ = ("form", "fragments", "initial", "will_continue", "words")

    def __init__(self, words: Words) -> None:
        self.words = words
        self.fragments: list[Fragment] = []
        self.form: Literal["json", "object", "text"] = "json"
        self.will_continue = False
        self.initial: Words | None = None  # an object at the head of a call, which counts if nothing follows

    def build(self, *, finished: bool) -> Arguments:
        """Give what is there, and say what it is."""
        if self.initial is not None and not self.words.size:
            raw, cut = self.initial.text(), self.initial.cut()
            return Arguments(raw, "object" if cut is UNSET else "truncated", list(self.fragments), cut)
        raw, cut = self.words.text(), self.words.cut()
        return Arguments(raw, self._state(raw, cut, finished=finished), list(self.fragments), cut)

    def complete(self) -> bool:
        """Tell whether what came so far is a whole object."""
        return self.form == "object" or (self.words.text()[:1] == "{" and is_json(self.words.text()))

    def _state(self, raw: str, cut: Cut | UnsetType, *, finished: bool) -> ArgumentsState:
        if cut is not UNSET:
            return "truncated"
        if self.form != "json":
            return self.form
        if is_json(raw):
            return "valid-json"
        if not finished:
            return "incomplete"
        return "invalid-json" if raw else "empty"


class CallDraft:
    """A call for the caller to make."""

    __slots__ = ("arguments", "id", "item_id", "name", "opaque", "ordinal", "wire_index")

    def __init__(self, ordinal: int, arguments: ArgumentsDraft, opaque: Opaque) -> None:
        self.ordinal, self.arguments, self.opaque = ordinal, arguments, opaque
        self.wire_index: int | None = None
        self.id: str | None = None
        self.item_id: str | None = None
        self.name: str | None = None

    def build(self, *, finished: bool) -> ToolCall:
        """Give what is there."""
        return ToolCall(
            ordinal=self.ordinal,
            wire_index=self.wire_index,
            id=self.id,
            item_id=self.item_id,
            name=self.name,
            arguments=self.arguments.build(finished=finished),
            opaque=self.opaque.build(),
        )


class ServerToolDraft:
    """A tool that the provider ran."""

    __slots__ = ("arguments", "id", "name", "status")

    def __init__(self, name: str | None, arguments: ArgumentsDraft) -> None:
        self.name, self.arguments = name, arguments
        self.id: str | None = None
        self.status: str | None = None

    def build(self, *, finished: bool) -> ServerTool:
        """Give what is there; without arguments where none were shown."""
        arguments = self.arguments.build(finished=finished)
        shown = bool(arguments.raw or arguments.fragments)
        return ServerTool(
            self.name, self.status, id=self.id or UNSET, arguments=arguments if shown else UNSET
        )


class MediaDraft:
    """Pictures, sound and files: counted and hashed, never kept."""

    __slots__ = ("_hash", "_size", "media_type")

    def __init__(self, media_type: str | None) -> None:
        self.media_type = media_type
        self._hash, self._size = sha256(), 0

    def add(self, piece: str) -> None:
        """Take one more piece of the text in which they came, mostly base64."""
        data = piece.encode("utf-8", "replace")
        self._hash.update(data)
        self._size += len(data)

    def build(self, *, finished: bool) -> Media:  # noqa: ARG002 -- as all items
        """Give what is there."""
        return Media(self.media_type, self._size, self._hash.hexdigest())


class RawDraft:
    """What nothing here knows, as it came."""

    __slots__ = ("_item",)

    def __init__(self, item: Unrecognised) -> None:
        self._item = item

    def build(self, *, finished: bool) -> Unrecognised:  # noqa: ARG002 -- as all items
        """Give it back."""
        return self._item


ItemDraft = TextDraft | ReasoningDraft | CallDraft | ServerToolDraft | MediaDraft | RawDraft


def unrecognised(
    name: str | None, data: bytes, limit_bytes: int, budget: Budget, seq: int | None
) -> Unrecognised:
    """Keep bytes as they are, as far as there is room."""
    # Of JSON in a text half may be escapes.
    room = max(0, min(limit_bytes, budget.left // 2))
    is_cut = len(data) > room
    kept, encoding = _shown(data[:room], is_cut=is_cut)
    budget.left -= cost_of(kept)
    budget.overdrawn = budget.overdrawn or is_cut
    return Unrecognised(
        name, kept, encoding, seq, Cut(len(data), sha256(data).hexdigest()) if is_cut else UNSET
    )


def _shown(data: bytes, *, is_cut: bool) -> tuple[str, Literal["text", "base64"]]:
    for spare in range(4 if is_cut else 1):  # the cut may have fallen into a character
        try:
            return data[: len(data) - spare].decode(), "text"
        except UnicodeDecodeError:
            continue
    return base64.b64encode(data).decode(), "base64"
