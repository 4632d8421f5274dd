"""The mask: one choke point, after content became bytes and before anything of it leaves. It fails closed.

It runs on a thread of its own: the runtime's code may take as long as it likes, or for ever, and holds up nobody.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Final

Mask = Callable[[bytes], bytes]

_MOST_STUCK: Final = 2
_SLICE_S: Final = 0.1


class _Worker:
    """A thread that masks one content after the other."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self.asked: SimpleQueue[bytes | None] = SimpleQueue()
        self.answered: SimpleQueue[object] = SimpleQueue()
        self.thread = Thread(target=self._work, name="custody-mask", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (content := self.asked.get()) is not None:
            try:
                masked: object = self._mask(content)
            except BaseException as error:  # noqa: BLE001 - the runtime's own code; nothing of it may get further
                masked = error
            self.answered.put(masked)


class Masker:
    """Masks within a time; what took longer is given up, and its thread replaced a few times."""

    def __init__(self, mask: Mask, seconds: float, meanwhile: Callable[[], None]) -> None:
        self._mask = mask
        self._seconds = seconds
        self._meanwhile = meanwhile
        self._worker: _Worker | None = None
        self._stuck: list[_Worker] = []

    def masked(self, content: bytes) -> bytes | None:
        """Return what may leave; None where that is nothing."""
        worker = self._ready()
        if worker is None:
            return None
        worker.asked.put(content)
        until = monotonic() + self._seconds
        while (left := until - monotonic()) > 0:
            try:
                found = worker.answered.get(timeout=min(left, _SLICE_S))
            except Empty:
                self._meanwhile()
            else:
                return found if isinstance(found, bytes) else None
        # Should it come back, it ends: what it then says is of no use to anybody.
        worker.asked.put(None)
        self._stuck.append(worker)
        self._worker = None
        return None

    def close(self) -> None:
        """Let the thread end."""
        if self._worker is not None:
            self._worker.asked.put(None)
            self._worker = None

    def _ready(self) -> _Worker | None:
        self._stuck = [each for each in self._stuck if each.thread.is_alive()]
        if self._worker is None and len(self._stuck) < _MOST_STUCK:
            try:
                self._worker = _Worker(self._mask)
            except RuntimeError:
                return None  # no thread can be started any more: the interpreter ends
        return self._worker
