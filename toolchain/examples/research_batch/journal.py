"""`run.jsonl`: everything that this runtime has to know again after it was killed, one JSON object a line.

Each line is `{kind: what}`. Receipts and what they need are on the disk when a call returns.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from custody_toolchain.facts import Fact
from custody_toolchain.tools import ALLOW, Allow, Call, Receipt, Settlement


class Journal:
    """The records of one run: receipts, reservations, requests and answers, and observed facts beside them."""

    def __init__(self, path: Path) -> None:
        """Open or make it. A line that a killed process did not finish is no record, and is cut off."""
        self._lock = Lock()
        written = path.read_bytes() if path.exists() else b""
        whole = written[: written.rfind(b"\n") + 1]
        self._lines: list[dict[str, Any]] = [msgspec.json.decode(line) for line in whole.splitlines()]
        self._file = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(len(whole))
        self._file.seek(len(whole))
        self.facts = [msgspec.convert(each, Fact) for each in self.all("fact")]
        self._receipts = {
            (each["run"], each["action"]): msgspec.convert(each, Receipt) for each in self.all("receipt")
        }

    def note(self, kind: str, what: object) -> None:
        """Write one line, and return once it is on the disk."""
        with self._lock:
            self._write(kind, what)
            os.fsync(self._file.fileno())

    def fact(self, fact: Fact) -> None:
        """Write down an observed copy of a fact, as an observer; it is no record, and nobody waits for the disk."""
        with self._lock:
            self._write("fact", fact)
            self.facts.append(fact)

    def all(self, kind: str) -> Iterator[Any]:
        """Give what was written down of this kind, oldest first."""
        return (line[kind] for line in list(self._lines) if kind in line)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _write(self, kind: str, what: object) -> None:
        line = {kind: msgspec.to_builtins(what)}
        self._lines.append(line)
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    # --- the runtime's receipts and reservations, in the shapes that a tool host asks for

    def load(self, run: str, action: str, /) -> Receipt | None:
        """Return the latest receipt of an action."""
        return self._receipts.get((run, action))

    def save(self, receipt: Receipt, /) -> None:
        """Keep a receipt; the earlier ones of its action stay in the file."""
        self.note("receipt", receipt)
        self._receipts[receipt.run, receipt.action] = receipt

    @property
    def receipts(self) -> list[Receipt]:
        """The latest receipt of each action, in the order in which actions came."""
        return list(self._receipts.values())

    def reserve(self, reservation: str, call: Call, /) -> Allow:
        """Put aside what a call needs: here only a note, since reading costs nothing."""
        self.note("reserved", {"id": reservation, "tool": call.tool})
        return ALLOW

    def settle(self, settlement: Settlement, /) -> None:
        """Close a reservation whose call was started."""
        self.note("closed", settlement.reservation)

    def release(self, reservation: str, /) -> None:
        """Close a reservation whose call was never started."""
        self.note("closed", reservation)

    def is_open(self, reservation: str, /) -> bool:
        """Say whether a reservation was made and not closed."""
        made = any(each["id"] == reservation for each in self.all("reserved"))
        return made and reservation not in self.all("closed")

    def used(self, tool: str) -> int:
        """Return how many calls of a tool were made and closed."""
        closed = set(self.all("closed"))
        return len({each["id"] for each in self.all("reserved") if each["tool"] == tool} & closed)
