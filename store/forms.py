"""How a setting is written: each form reads a text, says what it wanted, and writes the value back.

Faults never echo what was written: it may be a secret in the wrong place.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from policies import quantities

_Quantity = TypeVar("_Quantity", int, timedelta)

_MASK: Final = "***"
_LEAST_SECRET: Final = 32
_LEVELS: Final = ("debug", "info", "warning", "error")
_FRACTION_TEXT: Final = re.compile(r"[01](\.[0-9]{1,6})?")
_ORIGIN_TEXT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}")
_SHOWN_PARAMETERS: Final = frozenset({"host", "port", "sslmode", "db"})


class Secret:
    """A text that no repr, log line or format shows; `reveal` is the only way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def masked(self) -> str:
        """Return what of an address tells nothing: its scheme, user, host, port, path and harmless parameters."""
        try:
            url = urlsplit(self._text)
            # Only these forms read addresses, so what has no scheme is not one.
            return f"{url.scheme}://{_masked_user(url)}{url.netloc.rpartition('@')[2]}{url.path}{_masked_query(url)}"
        except ValueError:
            return _MASK

    def __repr__(self) -> str:
        return _MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def _masked_user(url: SplitResult) -> str:
    if "@" not in url.netloc:
        return ""
    return f"{url.username or ''}{'' if url.password is None else ':' + _MASK}@"


def _masked_query(url: SplitResult) -> str:
    pairs = [
        f"{name}={value if name in _SHOWN_PARAMETERS else _MASK}" for name, value in parse_qsl(url.query)
    ]
    return f"?{'&'.join(pairs)}" if pairs else ""


@dataclass(frozen=True, slots=True)
class Form:
    """`read` raises ValueError, whose text is the fault; `write` gives what `read` reads."""

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    secret: bool = False


def count(least: int, most: int) -> Form:
    """Whole numbers within bounds."""
    return Form(lambda text: _within(_whole(text), least, most, str))


def size(least: str, most: str) -> Form:
    """Bytes, written with a unit."""
    low, high = quantities.size(least), quantities.size(most)
    return Form(
        lambda text: _within(quantities.size(text), low, high, quantities.size_text), quantities.size_text
    )


def duration(least: str, most: str) -> Form:
    """Time, written with a unit; short ones may be in milliseconds."""
    low, high = _duration(least), _duration(most)
    return Form(lambda text: _within(_duration(text), low, high, _duration_text), _duration_text)


def _whole(text: str) -> int:
    # int() would also take "1_000", " 7 " and digits of other scripts.
    if not (text.isascii() and text.isdigit()):
        raise ValueError("needs a whole number")
    return int(text)


def _duration(text: str) -> timedelta:
    if text.endswith("ms"):
        return timedelta(milliseconds=_whole(text.removesuffix("ms")))
    return timedelta(seconds=quantities.duration(text))


def _duration_text(value: timedelta) -> str:
    if value % timedelta(seconds=1):
        return f"{value // timedelta(milliseconds=1)}ms"
    return quantities.duration_text(value // timedelta(seconds=1))


def _within(
    value: _Quantity, least: _Quantity, most: _Quantity, write: Callable[[_Quantity], str]
) -> _Quantity:
    if not least <= value <= most:
        raise ValueError(f"needs to be from {write(least)} to {write(most)}")
    return value


def _fraction(text: str) -> float:
    if _FRACTION_TEXT.fullmatch(text) is None or not 0 < float(text) <= 1:
        raise ValueError("needs a number above 0 and at most 1, as in 0.5")
    return float(text)


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("needs true or false")
    return text == "true"


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with ~, and there is no home directory") from None


def _plain(text: str) -> str:
    if not text.isprintable() or " " in text:
        raise ValueError("needs printable text without spaces")
    return text


def _origin(text: str) -> str:
    # It is also the name of a key in signed notes, where + and spaces end a name.
    if _ORIGIN_TEXT.fullmatch(text) is None:
        raise ValueError("needs a name as in example.org/log: at most 200 of A-Z a-z 0-9 . _ : / -")
    return text


def _level(text: str) -> str:
    if text not in _LEVELS:
        raise ValueError(f"needs one of {', '.join(_LEVELS)}")
    return text


def _http_url(text: str) -> str:
    url = _address(text, frozenset({"http", "https"}))
    if not url.hostname or url.query or url.fragment or "@" in url.netloc:
        raise ValueError("needs an http or https address without credentials, query or fragment")
    return text.rstrip("/")


def _shared_secret(text: str) -> Secret:
    if len(_plain(text)) < _LEAST_SECRET or not text.isascii():
        raise ValueError(f"needs at least {_LEAST_SECRET} characters of ASCII, drawn at random")
    return Secret(text)


def _secret_url(schemes: frozenset[str]) -> Form:
    def read(text: str) -> Secret:
        _address(text, schemes)
        return Secret(text)

    return Form(read, Secret.masked, secret=True)


def _address(text: str, schemes: frozenset[str]) -> SplitResult:
    wanted = f"needs an address that begins with {' or '.join(f'{scheme}://' for scheme in sorted(schemes))}"
    try:
        url = urlsplit(_plain(text))
        _ = url.port  # reading it is what checks it
    except ValueError:
        # Without the reason: it quotes what may be a password.
        raise ValueError(f"{wanted}, and is none") from None
    if url.scheme not in schemes or "://" not in text:
        raise ValueError(wanted)
    # A password with a bare slash or question mark ends the host early, and its rest would be shown as a path.
    if "@" in url.path + url.query or url.fragment:
        raise ValueError("has an @ or # outside its user and host: percent-encode the password")
    return url


FRACTION: Final = Form(_fraction)
FLAG: Final = Form(_flag, lambda value: str(value).lower())
PATH: Final = Form(_path)
TEXT: Final = Form(_plain)
LEVEL: Final = Form(_level)
ORIGIN: Final = Form(_origin)
HTTP_URL: Final = Form(_http_url)
SHARED_SECRET: Final = Form(_shared_secret, lambda _: _MASK, secret=True)
POSTGRES_URL: Final = _secret_url(frozenset({"postgresql", "postgres"}))
REDIS_URL: Final = _secret_url(frozenset({"redis", "rediss", "unix"}))
