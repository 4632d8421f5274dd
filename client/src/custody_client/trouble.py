"""What goes wrong, said once in a while in the log: one line a kind of trouble, without content, never by a caller.

Handlers of logs may block or raise, and belong to the runtime: only the background thread speaks to them, and what
they raise is counted as trouble of the kind `log`.
"""

from collections import deque
from time import monotonic
from typing import Final

LOGGER: Final = "custody_client"
_EVERY_S: Final = 60.0
_MOST_WAITING: Final = 64


class Trouble:
    """Kinds of trouble, how often each was, and what is still to be said."""

    __slots__ = ("_last", "_unsaid", "_waiting", "counts", "silent_at")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.silent_at: float | None = None
        """From when on nothing is said: a thread that writes while the interpreter ends takes the process down."""
        self._last: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}
        self._waiting: deque[tuple[str, str]] = deque(maxlen=_MOST_WAITING)

    def due(self, kind: str) -> bool:
        """Say whether a line of this kind would be said now; to spare whoever has to find out what to say."""
        return monotonic() - self._last.get(kind, float("-inf")) >= _EVERY_S

    def note(self, kind: str, text: str) -> None:
        """Note trouble; `text` is our own words, and never holds content, a key or a ticket."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if not self.due(kind):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._last[kind] = monotonic()
        more = self._unsaid.pop(kind, 0)
        self._waiting.append((kind, f"{text} ({more} more since)" if more else text))

    def say(self) -> None:
        """Hand what is to be said to the log."""
        if not self._waiting or (self.silent_at is not None and monotonic() >= self.silent_at):
            return
        # Not at the top: most processes import it anyway, and those that do not should not pay for it here.
        import logging  # noqa: PLC0415

        logger = logging.getLogger(LOGGER)
        while self._waiting:
            kind, text = self._waiting.popleft()
            try:
                logger.warning("%s: %s", kind, text)
            except Exception:  # noqa: BLE001 - the runtime's own handler; it ends no thread, and reaches no caller
                self.counts["log"] = self.counts.get("log", 0) + 1
