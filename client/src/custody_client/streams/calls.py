"""To which call a piece of a chat completion's tool calls belongs.

Providers agree on little: an index may be missing, null or used twice, an id may be missing, null, "", the text
"null", or another one in each piece. What a piece carried that it should not, or lacked, is in its fragment; what that
means, in notes.
"""

from typing import Any, Final

from msgspec import UNSET

from custody_client.streams.draft import ChoiceDraft
from custody_client.streams.exact import written
from custody_client.streams.items import CallDraft
from custody_client.streams.names import name_of
from custody_client.streams.output import Fragment

_MISSING: Final = object()
_NO_IDS: Final = frozenset({"", "null", "None"})
_KNOWN: Final = frozenset({"index", "id", "type", "function", "custom"})
_KNOWN_INSIDE: Final = frozenset({"name", "arguments", "input"})
_BITS, _CHARACTERS = 64, 128
Step = str | int


def take_all(choice: ChoiceDraft, pieces: Any, path: tuple[Step, ...], *, streamed: bool) -> None:
    """Take the tool calls of one chunk; of a whole message if it did not stream."""
    if not isinstance(pieces, list):
        choice.raw("tool_calls", path, pieces)
        return
    touched: set[int] = set()
    for at, piece in enumerate(pieces):
        if streamed and _goes_on(choice, piece):
            continue
        if isinstance(piece, dict):
            _take(choice, piece, (*path, at), touched, streamed=streamed)
        else:
            choice.raw("tool_call", (*path, at), piece)


def take_function(choice: ChoiceDraft, function: Any, path: tuple[Step, ...]) -> None:
    """Take the single call of the older form, which has neither index nor id."""
    if isinstance(function, dict) and any(function.values()):
        choice.draft.note("function-call-legacy")
        call = choice.call(("function_call",))
        call.name = call.name or name_of(function.get("name"))
        _add(choice, call, function, "arguments", path, {})


def _goes_on(choice: ChoiceDraft, piece: Any) -> bool:
    """Take what most pieces are: a known index, and text. Others need more thought."""
    if type(piece) is not dict or len(piece) != len(("index", "function")):
        return False
    index, function = piece.get("index"), piece.get("function")
    if type(index) is not int or type(function) is not dict or len(function) != 1:
        return False
    call, text = choice.known(("index", index)), function.get("arguments")
    if call is None or type(text) is not str:
        return False
    choice.draft.add_arguments(call.arguments, text)
    return True


def _take(
    choice: ChoiceDraft, piece: dict[str, Any], path: tuple[Step, ...], touched: set[int], *, streamed: bool
) -> None:
    # Some fill in both, one of them empty.
    is_custom = piece.get("type") == "custom" or not isinstance(piece.get("function"), dict)
    inside = "custom" if is_custom and isinstance(piece.get("custom"), dict) else "function"
    function = piece.get(inside)
    function = function if isinstance(function, dict) else {}
    index, given = piece.get("index", _MISSING), piece.get("id", _MISSING)
    call_id = given if type(given) is str and given not in _NO_IDS else None
    name = name_of(function.get("name"))
    call = _found(choice, index, call_id, name, function, touched) if streamed else None
    odd: dict[str, Any]
    if call is None:
        call = _opened(choice, index, call_id, given, streamed=streamed)
        odd = _odd_first(index, given, call_id, function, streamed=streamed)
    else:
        odd = _odd_later(call, index, given, function)
    call.id, call.name = call.id or call_id, call.name or name
    touched.add(id(call))
    _add(choice, call, function, "input" if inside == "custom" else "arguments", (*path, inside), odd)
    _send_along(choice, call, piece, function, path, inside)


def _found(
    choice: ChoiceDraft,
    index: object,
    call_id: str | None,
    name: str | None,
    function: dict[str, Any],
    touched: set[int],
) -> CallDraft | None:
    """Return the call to which a piece belongs, or None if it begins one."""
    if type(index) is not int:
        return _found_without_index(choice, index, call_id, name)
    call: CallDraft | None = choice.known(("index", index))
    if call is None:
        return None
    if call_id and call.id and call_id != call.id:
        if name is None:
            choice.draft.note("id-changed")
            return call
        choice.draft.note("index-reused")
        return None
    if name and call_id is None and call.name and _begins(call, function, touched):
        choice.draft.note("index-reused")
        return None
    return call


def _found_without_index(
    choice: ChoiceDraft, index: object, call_id: str | None, name: str | None
) -> CallDraft | None:
    choice.draft.note("index-null" if index is None else "index-missing")
    if call_id is not None:
        found: CallDraft | None = choice.known(("id", call_id))
        return found
    return choice.calls[-1] if name is None and choice.calls else None


def _begins(call: CallDraft, function: dict[str, Any], touched: set[int]) -> bool:
    """Tell whether a named piece without an id is another call: in the chunk of the first, or after its end."""
    return id(call) in touched or (bool(function.get("arguments")) and call.arguments.complete())


def _opened(
    choice: ChoiceDraft, index: object, call_id: str | None, given: object, *, streamed: bool
) -> CallDraft:
    draft = choice.draft
    call = choice.call(("ordinal", draft.seq, len(choice.calls), draft.dropped_items))
    if call_id is None:
        draft.note("id-missing" if given is _MISSING else "id-null" if given is None else "id-empty")
    elif choice.known(("id", call_id)) is not None:
        draft.note("id-repeated")
    else:
        choice.name(("id", call_id), call)
    if type(index) is int:
        call.wire_index = index
        if streamed and index > 0 and choice.known(("index", index - 1)) is None:
            draft.note("index-gap")
        choice.name(("index", index), call)
    return call


def _odd_first(
    index: object, given: object, call_id: str | None, function: dict[str, Any], *, streamed: bool
) -> dict[str, Any]:
    name = function.get("name", _MISSING)
    odd: dict[str, Any] = {}
    missing = tuple(key for key, value in (("id", given), ("name", name)) if value is _MISSING)
    if streamed and index is _MISSING:
        missing = (*missing, "index")
    if index is not _MISSING and type(index) is not int:
        odd["index"] = _short(index)
    if given is not _MISSING and call_id is None:
        odd["id"] = _short(given)
    if name is not _MISSING and name_of(name) is None:
        odd["name"] = _short(name)
    return odd | ({"missing": missing} if missing else {})


def _odd_later(call: CallDraft, index: object, given: object, function: dict[str, Any]) -> dict[str, Any]:
    odd: dict[str, Any] = {}
    if index is _MISSING:
        odd["missing"] = ("index",)
    elif index != call.wire_index or index is None:
        odd["index"] = _short(index)
    if given is not _MISSING:
        odd["id"] = _short(given)
    if "name" in function:
        odd["name"] = _short(function["name"])
    return odd


def _add(
    choice: ChoiceDraft,
    call: CallDraft,
    function: dict[str, Any],
    key: str,
    path: tuple[Step, ...],
    odd: dict[str, Any],
) -> None:
    """Append what a piece holds of arguments. Text as it is; anything else as JSON, with a note."""
    draft, arguments = choice.draft, call.arguments
    piece = function.get(key, UNSET)
    if key == "input":
        arguments.form = "text"
    if type(piece) is str:
        arguments.words.add(piece)
        draft.add_fragment(arguments, Fragment(draft.seq, len(piece), **odd), _size(odd))
    elif piece is None or piece is UNSET:
        draft.add_fragment(arguments, Fragment(draft.seq, piece, **odd), _size(odd))
    else:
        draft.note("arguments-object" if isinstance(piece, dict) else "arguments-not-text")
        text = draft.exact((*path, key), piece).decode()
        arguments.form = "object"
        arguments.words.add(text)
        draft.add_fragment(arguments, Fragment(draft.seq, len(text), **odd), _size(odd))


def _send_along(
    choice: ChoiceDraft,
    call: CallDraft,
    piece: dict[str, Any],
    function: dict[str, Any],
    path: tuple[Step, ...],
    inside: str,
) -> None:
    for key in (key for key in piece if key not in _KNOWN):
        choice.draft.fact(call.opaque, key, piece[key], (*path, key))
    for key in (key for key in function if key not in _KNOWN_INSIDE):
        choice.draft.fact(call.opaque, key, function[key], (*path, inside, key))


def _short(value: object) -> object:
    """Return an odd value as it is, but a long one by its beginning, as text."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and value.bit_length() <= _BITS:
        return value
    text = value if isinstance(value, str) else written(value).decode("utf-8", "replace")
    return text[:_CHARACTERS]


def _size(odd: dict[str, Any]) -> int:
    return sum(len(str(value)) + 8 for value in odd.values())
