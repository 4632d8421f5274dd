"""Events of server-sent event streams and of JSON lines, out of bytes that are cut anywhere.

Formats: the event stream of WHATWG's HTML (9.2.6) and NDJSON. More is accepted than they say: JSON without `data:`,
a JSON value over several lines, and the elements of one array.
"""

from typing import Final

_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"

Event = tuple[str | None, bytes]  # its name, its data
STRAY: Final = "?"  # the name of text that belongs to no field


class Lines:
    """Cuts bytes into events. Each byte is copied a fixed number of times, however it is cut."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        self._begun = self._marked = False
        self._after_return = False
        self._between = b"\n\n"
        self._value: list[bytes] = []
        self._value_size = 0
        self._taken = False
        self.dropped = 0

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes, give the events that are whole with them."""
        if self._is_at_an_edge and data.startswith(b"data: ") and len(data) <= self._limit:
            # This is what most chunks are: one whole event, of one line of data.
            line = data.find(b"\n")
            if line == len(data) - 2 and data.endswith(b"\n\n") and b"\r" not in data:
                return [(None, data[6:-2])]
            if line == len(data) - 3 and data.endswith(b"\r\n\r\n") and data.find(b"\r") == line - 1:
                return [(None, data[6:-4])]
        if not self._begun:
            data = self._begin(data)
        if b"\r" in data or self._after_return:
            data = self._with_newlines(data)
        if not data:
            return []
        return self._blocks(data)

    @property
    def _is_at_an_edge(self) -> bool:
        """Tell whether nothing of an earlier event is held, in a text of events."""
        return (
            self._begun
            and self._between == b"\n\n"
            and not (self._pieces or self._after_return or self._taken)
        )

    def rest(self) -> bytes:
        """Return the bytes that make no whole event so far."""
        return b"" if self._taken else b"".join([*self._value, *self._pieces])

    def unfinished(self) -> Event | None:
        """Return what the last event, of which the end did not come, would hold."""
        if self._between == b"\n":
            value = self.rest().strip(_SPACE)
            return (None, value) if value else None
        events = _fields(self.rest())
        return events[0] if events and events[0][0] != STRAY else None

    def forget(self) -> None:
        """Let the unfinished event be: it was taken as it is, and what of it is still to come is nothing."""
        # Its last byte tells whether the next is its end.
        self._pieces, self._held = [piece[-1:] for piece in self._pieces[-1:]], 0
        self._taken = True
        self._value, self._value_size = [], 0

    def _begin(self, data: bytes) -> bytes:
        """Pass over spaces, one mark and spaces again; what follows tells which kind of text this is."""
        data = b"".join([*self._pieces, data]).lstrip(_SPACE)
        self._pieces = []
        if not self._marked and len(data) < len(_BOM) and _BOM.startswith(data):
            self._pieces = [data] if data else []
            return b""
        if not self._marked and data.startswith(_BOM):
            self._marked = True
            data = data.removeprefix(_BOM).lstrip(_SPACE)
        if data:
            self._begun = True
            self._between = b"\n" if data[:1] in b"{[" else b"\n\n"
        return data

    def _with_newlines(self, data: bytes) -> bytes:
        """Return data in which every line ends with LF; a CR at the end may be the half of a CRLF."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        self._after_return = data.endswith(b"\r") or (self._after_return and not data)
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _blocks(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if (
            self._between == b"\n\n"
            and data[:1] == b"\n"
            and self._pieces
            and self._pieces[-1].endswith(b"\n")
        ):
            self._close(b"", events)
            data = data[1:]
        first, *others = data.split(self._between)
        if not others:
            self._hold(first)
            return events
        self._close(first, events)
        for block in others[:-1]:
            self._read(block, events)
        self._hold(others[-1])
        return events

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held += len(piece)
            if self._held <= self._limit:
                self._pieces.append(piece)
            else:
                # Its last byte tells whether the next is the end of the event.
                self._pieces = [piece[-1:]]

    def _close(self, last: bytes, events: list[Event]) -> None:
        if self._held + len(last) > self._limit:
            self.dropped += 1
        elif not self._taken:
            self._read(b"".join([*self._pieces, last]), events)
        self._pieces, self._held, self._taken = [], 0, False

    def _read(self, block: bytes, events: list[Event]) -> None:
        if len(block) > self._limit:
            self.dropped += 1
        elif self._between == b"\n":
            self._line(block, events)
        elif block.startswith(b"data: ") and b"\n" not in block:
            events.append((None, block[6:]))
        elif block:
            events.extend(_fields(block))

    def _line(self, line: bytes, events: list[Event]) -> None:
        """Take one line of JSON: mostly a whole value, else a part of one that ends with a bracket at its edge."""
        bare = _element(line)
        if not self._value and bare in {b"", b"]"}:
            return
        if not self._value and bare[:1] + bare[-1:] in {b"{}", b"[]"}:
            events.append((None, bare))
            return
        self._value_size += len(line)
        if self._value_size <= self._limit:
            self._value.append(line + b"\n")
        if line[:1] in {b"}", b"]"}:
            self._end_value(events)

    def _end_value(self, events: list[Event]) -> None:
        if self._value_size > self._limit:
            self.dropped += 1
        else:
            events.append((None, _trimmed(b"".join(self._value))))
        self._value, self._value_size = [], 0


def _element(line: bytes) -> bytes:
    """Return a line without the comma after it, and without the bracket of an array that goes on in other lines."""
    bare = line.strip(_SPACE + b",")
    if bare[:2] == b"[{" and bare[-1:] == b"}":
        return bare[1:]
    return bare[:-1] if bare[:1] == b"{" and bare[-2:] == b"}]" else bare


def _trimmed(value: bytes) -> bytes:
    """Return an element of an array without the commas and brackets around it; a whole array as it is."""
    bare = value.strip(_SPACE)
    return bare if bare[:1] + bare[-1:] == b"[]" else bare[bare.find(b"{") : bare.rfind(b"}") + 1]


def _fields(block: bytes) -> list[Event]:
    """Read the lines of one event; JSON that stands there without a field's name counts as data."""
    name: str | None = None
    data: list[bytes] = []
    stray = False
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif line[:1] == b"{":
            data.append(line)
        elif field and field not in {b"id", b"retry"}:
            stray = True
    if data:
        return [(name, b"\n".join(data))]
    return [(STRAY, block.strip(b"\n"))] if stray else []
