"""Observed copies of facts, handed to whoever wants them without ever being in the way.

Promised: `report` never raises and never waits; an observer that raises, changes what it is given, or hangs changes
nothing for the runtime and for the other observers. Not promised: that every observer gets every fact. What one is too
slow for is dropped for it, and counted.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final, Self, TypeAlias
from weakref import finalize

from custody_toolchain.facts import Fact, decode, encode
from custody_toolchain.locking import OneAtATime

Report: TypeAlias = Callable[[Fact], None]
Observer: TypeAlias = Callable[[Fact], object]

_MOST_WAITING: Final = 1024


class Guarded:
    """A report as the parts use it: making a fact and reporting it never raises; what was raised is counted."""

    def __init__(self, report: Report | None) -> None:
        self._report = report
        self.failed = 0

    def tell(self, make: Callable[[], Fact]) -> None:
        """Make a fact and report it, if anybody wants facts."""
        if self._report is None:
            return
        try:
            self._report(make())
        except Exception:  # noqa: BLE001 - whoever observes is never in the way; it is counted
            self.failed += 1


class Reporter(OneAtATime):
    """Gives each observer a copy of each fact, on a thread of its own.

    A thread ends when its reporter is closed, or nobody has that reporter any more and the observer has what was
    reported until then; or with the process.
    """

    def __init__(self, *observers: Observer, most_waiting: int = _MOST_WAITING) -> None:
        super().__init__()
        self._observers = observers
        self._most_waiting = most_waiting
        self._lines = self._new_lines()
        self._process = os.getpid()
        self._closed = False
        self.malformed = 0

    def report(self, fact: Fact) -> None:
        """Hand a copy to every observer, later; a fact that is none is counted in `malformed` and goes nowhere."""
        try:
            encoded = encode(fact)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, the runtime goes on; it is counted
            self.malformed += 1
            return
        for line in self._here():
            line.put(encoded)

    def _here(self) -> "list[_Line]":
        """Return the lines of this process: one that was forked has neither the threads nor, for sure, the locks."""
        if self._process == os.getpid():
            return self._lines
        with self._lock:
            if self._process != os.getpid():
                self._lines = self._new_lines()
                for line in self._lines if self._closed else ():
                    line.close()
                # Last, since it is what other threads look at.
                self._process = os.getpid()
            return self._lines

    def _new_lines(self) -> "list[_Line]":
        """Begin a line for each observer; a line and its thread know nothing of this, so that it can be let go of."""
        lines = [_Line(observer, self._most_waiting) for observer in self._observers]
        # Not where the process ends: that waits for no observer.
        finalize(self, _close_here, lines, os.getpid()).atexit = False
        return lines

    @property
    def dropped(self) -> int:
        """How many facts did not reach an observer that was too slow, all observers together."""
        return sum(line.dropped for line in self._lines)

    @property
    def failed(self) -> int:
        """How many times an observer raised."""
        return sum(line.failed for line in self._lines)

    def flush(self, within_s: float = 1.0) -> bool:
        """Wait until all observers have what was reported; False if that takes longer."""
        deadline = monotonic() + within_s
        emptied = [line.emptied(max(0.0, deadline - monotonic())) for line in self._here()]
        return all(emptied)

    def close(self, within_s: float = 1.0) -> bool:
        """Flush, and take nothing more; False if an observer did not come to an end, which is left where it is."""
        self._closed = True
        done = self.flush(within_s)
        for line in self._here():
            line.close()
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close_here(lines: "list[_Line]", process: int) -> None:
    """Take nothing more, and let the threads end after what waits; in a forked process there are none of them."""
    if process == os.getpid():
        for line in lines:
            line.close()


class _Line:
    """What one observer has yet to see, oldest first."""

    def __init__(self, observer: Observer, most: int) -> None:
        self._observer = observer
        self._most = most
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._closed = False
        self.dropped = 0
        self.failed = 0

    def put(self, encoded: bytes) -> None:
        with self._changed:
            if self._closed or len(self._waiting) >= self._most or not self._running():
                self.dropped += 1
                return
            self._waiting.append(encoded)
            self._changed.notify_all()

    def _running(self) -> bool:
        """Start the thread with the first fact."""
        if self._thread is None or not self._thread.is_alive():
            self._busy = False
            self._thread = threading.Thread(target=self._run, name="custody-observer", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # No thread can be had now: the fact is dropped, and the next one tries again.
                self._thread = None
                return False
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                encoded = self._waiting.popleft()
                self._busy = True
            try:
                self._observer(decode(encoded))
            except Exception:  # noqa: BLE001 - an observer's fault is its own; it is counted
                self.failed += 1

    def emptied(self, within_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, within_s)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
