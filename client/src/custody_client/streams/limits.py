"""How much an assembler holds, whatever a stream brings."""

from typing import Final

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Bounds of one output; bytes are UTF-8. With these an output fits into a part of 256 KiB, but for escapes."""

    text_bytes: int = 128 * 1024
    arguments_bytes: int = 64 * 1024
    opaque_bytes: int = 64 * 1024
    total_bytes: int = 192 * 1024
    raw_bytes: int = 4 * 1024
    raw_answer_bytes: int = 96 * 1024
    event_bytes: int = 16 * 1024 * 1024
    choices: int = 32
    items: int = 512
    calls: int = 128
    fragments: int = 2048
    unknown: int = 16
    notes: int = 32
    markup: int = 64


DEFAULT: Final = Limits()
