"""What failed, as fields that a program can decide by; output is bounded, and says what was cut."""

from typing import Final

import msgspec

MOST_OUTPUT_BYTES: Final = 4096
_MOST_MESSAGE: Final = 512


class Output(msgspec.Struct, frozen=True):
    """The beginning and the end of what a command wrote. `cut` are the bytes `[start, stop)` that are not here."""

    head: str
    tail: str
    total_bytes: int
    cut: tuple[int, int] | None = None

    def text(self) -> str:
        """Return it for a reader, with a line where something was cut."""
        if self.cut is None:
            return self.head
        start, stop = self.cut
        return f"{self.head}\n[{stop - start} of {self.total_bytes} bytes cut]\n{self.tail}"


def bounded(data: bytes, most_bytes: int = MOST_OUTPUT_BYTES) -> Output:
    """Keep at most so many bytes, half from the beginning and half from the end; what is no UTF-8 is replaced."""
    if len(data) <= most_bytes:
        return Output(_text(data), "", len(data))
    start = most_bytes // 2
    stop = len(data) - (most_bytes - start)
    return Output(_text(data[:start]), _text(data[stop:]), len(data), (start, stop))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One failure. `error_code` is a closed word; `message` (at most 512 characters) and `output` are not posted."""

    tool: str
    stage: str
    error_code: str
    retryable: bool
    message: str = ""
    exit_code: int | None = None
    timeout_ms: int | None = None
    output: Output | None = None

    def __post_init__(self) -> None:
        if len(self.message) > _MOST_MESSAGE:
            raise ValueError("a failure's message is at most 512 characters; output has a place of its own")
