"""Bytes that are no text, as their values beside the letters among them: nothing is guessed of what they mean."""

from typing import Final

# So many fit beside their letters on a phone.
_WIDTH: Final = 8
_MOST: Final = 4_096


def hex_lines(content: bytes) -> str:
    """Write the first bytes of something, eight a line, with their places."""
    return "\n".join(
        _line(at, content[at : at + _WIDTH]) for at in range(0, min(len(content), _MOST), _WIDTH)
    )


def left(content: bytes) -> int:
    """Return how many bytes `hex_lines` leaves out."""
    return max(0, len(content) - _MOST)


def _line(at: int, some: bytes) -> str:
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in some)  # noqa: PLR2004 - printable ASCII
    return f"{at:06x}  {some.hex(' '):<{_WIDTH * 3}} {letters}"
