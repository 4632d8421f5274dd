"""Sizes for people: rounded, and exact beside it where rounding hides something."""

from typing import Final

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB")
_STEP: Final = 1024


def measure(size: int) -> str:
    """Write a number of bytes: 17 bytes, 190.3 KiB."""
    if size < _STEP:
        return "1 byte" if size == 1 else f"{size} bytes"
    value, unit = float(size), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"


def exact(size: int) -> str:
    """Write a number of bytes, and in brackets the exact one where that is not it: 190.3 KiB (194,867 bytes)."""
    return measure(size) if size < _STEP else f"{measure(size)} ({size:,} bytes)"
