"""How much intake takes, and texts that are checked before anything is read in them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

_ENVELOPE_DEPTH: Final = 24  # of an answer around the arguments that it holds
_MOST_DEPTH: Final = 256  # what a JSON decoder that recurses can take on any stack


class Limits(Struct, frozen=True):
    """Bounds of one answer; bytes are UTF-8. `parameter_bytes` are of one value: of its JSON, or of its text."""

    text_bytes: int = 1024 * 1024
    actions: int = 128
    depth: int = 64
    parameter_bytes: int = 256 * 1024
    name_characters: int = 128

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= _MOST_DEPTH:
            raise ValueError(f"depth is 1 to {_MOST_DEPTH}")
        if min(self.text_bytes, self.actions, self.parameter_bytes, self.name_characters) < 1:
            raise ValueError("bounds are positive")


DEFAULT: Final = Limits()


def within_envelope(limits: Limits) -> Limits:
    """Return the bounds of an answer that holds arguments within these."""
    return structs.replace(limits, depth=min(limits.depth + _ENVELOPE_DEPTH, _MOST_DEPTH))


def text_of(given: str | bytes, limits: Limits, boundary: Boundary = Boundary.TEXT) -> str:
    """Return a text that is whole Unicode, without a byte order mark, and not too long; Refused otherwise."""
    if len(given) > limits.text_bytes:
        raise Refused(Why.TOO_MANY_BYTES, boundary, length=len(given))
    if isinstance(given, bytes):
        try:
            text = given.decode()
        except UnicodeDecodeError as error:
            raise Refused(Why.NOT_UTF8, boundary, length=error.start) from None
    else:
        text = given
        if (size := size_of(text, boundary)) > limits.text_bytes:
            raise Refused(Why.TOO_MANY_BYTES, boundary, length=size)
    if text.startswith("\ufeff"):
        raise Refused(Why.BYTE_ORDER_MARK, boundary, at=0)
    return text


def joined(pieces: Sequence[str]) -> str:
    """Return pieces as one text, where halves of a surrogate pair that came in two of them are put together."""
    text = "".join(pieces)
    if len(pieces) < 2 or text.isascii():  # noqa: PLR2004 - one piece alone has nothing to be joined to
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def size_of(text: str, boundary: Boundary) -> int:
    """Return the bytes of a text in UTF-8; Refused where half of a surrogate pair stands alone."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise Refused(Why.LONE_SURROGATE, boundary, at=error.start) from None


def name_of(value: object, limits: Limits) -> str:
    """Return the name of a tool; Refused unless it is one."""
    if value is None or value == "":
        raise Refused(Why.NAME_MISSING, Boundary.CALL)
    if not isinstance(value, str):
        raise Refused(Why.WRONG_TYPE, Boundary.CALL)
    if len(value) > limits.name_characters:
        raise Refused(Why.NAME_TOO_LONG, Boundary.CALL, length=len(value))
    return value
