"""An answer that is put together only once somebody asks for its bytes: after admission, or never."""

from collections.abc import Callable

import msgspec

from custody_client.streams import Output

_WHOLE = frozenset({"completed", "finished-no-terminal"})


class Late:
    """Stands for an output in `capture_output`, with what is taken of an `Assembler` there."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Output]) -> None:
        self._make = make
        self._made: Output | None = None

    def encode(self) -> bytes:
        """Give the output as JSON."""
        return msgspec.json.encode(self._output())

    @property
    def completeness(self) -> str:
        """How far the answer came, in the words of parts."""
        return "complete" if self._output().stream.state in _WHOLE else "interrupted"

    def _output(self) -> Output:
        if self._made is None:
            self._made = self._make()
        return self._made
