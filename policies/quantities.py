"""Durations and sizes as people write them, `30d` or `256KiB`. A number without a unit is refused."""

import re
from typing import Final

_DURATION_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SIZE_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DURATION = re.compile(r"([1-9][0-9]{0,11})([smhd])")
_SIZE = re.compile(r"([1-9][0-9]{0,15})(B|KiB|MiB|GiB|TiB)")

# A century: whoever asks for more means "for ever", which no retention may be.
MAX_DURATION_S: Final = 36_525 * 86_400
MAX_SIZE_BYTES: Final = 1 << 50


def duration(text: object) -> int:
    """Read `30s`, `10m`, `1h` or `7d` as seconds; anything else is a ValueError that does not echo it."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("needs a whole number above zero with a unit (s, m, h, d), as in 30d")
    seconds = int(found[1]) * _DURATION_UNITS[found[2]]
    if seconds > MAX_DURATION_S:
        raise ValueError("is longer than a century")
    return seconds


def size(text: object) -> int:
    """Read `512B`, `256KiB`, `4MiB`, `1GiB` as bytes; anything else is a ValueError that does not echo it."""
    found = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("needs a whole number above zero with a unit (B, KiB, MiB, GiB, TiB), as in 256KiB")
    size_bytes = int(found[1]) * _SIZE_UNITS[found[2]]
    if size_bytes > MAX_SIZE_BYTES:
        raise ValueError("is larger than a pebibyte")
    return size_bytes


def duration_text(seconds: int) -> str:
    """Write seconds in the largest unit that divides them; `duration` reads it back."""
    return _written(seconds, _DURATION_UNITS)


def size_text(size_bytes: int) -> str:
    """Write bytes in the largest unit that divides them; `size` reads it back."""
    return _written(size_bytes, _SIZE_UNITS)


def _written(number: int, units: dict[str, int]) -> str:
    if number <= 0:
        raise ValueError("only quantities above zero are written")
    unit = max((name for name in units if number % units[name] == 0), key=units.__getitem__)
    return f"{number // units[unit]}{unit}"
