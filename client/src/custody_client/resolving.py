"""From a name to addresses, on a thread of its own: the system's resolver can be slow, and cannot be interrupted."""

import socket
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from custody_client.addresses import Address

if TYPE_CHECKING:
    from custody_client.transport import Deadline

_FRESH_S: Final = 60.0
Found = list[tuple[socket.AddressFamily, Any]]


# What was found last, also by the process that this one was forked from: at its end no thread may be started to ask.
_known: Final[dict[tuple[str, int], tuple[Found, float]]] = {}


class Resolver:
    """Looks one host up, never twice at once, and remembers what it found."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._asked: SimpleQueue[Found] | None = None

    def addresses(self, deadline: "Deadline") -> Found:
        """Return the host's addresses; OSError where there are none, TimeoutError where that is not known in time."""
        name = self._address.host, self._address.port
        known, fresh_until = _known.get(name, ([], 0.0))
        if known and monotonic() < fresh_until:
            return known
        try:
            # An address in digits needs nobody to be asked.
            return _looked_up(self._address, socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass
        found = self._asked_for(deadline)
        if found:
            _known[name] = found, monotonic() + _FRESH_S
        if not found and not known:
            raise OSError("no address")
        return found or known

    def _asked_for(self, deadline: "Deadline") -> Found:
        if self._asked is None:
            answers: SimpleQueue[Found] = SimpleQueue()
            try:
                Thread(
                    target=_look_up, args=(self._address, answers), name="custody-names", daemon=True
                ).start()
            except RuntimeError:
                return []  # no thread can be started any more: the interpreter ends
            self._asked = answers
        while True:
            try:
                found = self._asked.get(timeout=deadline.slice())
            except Empty:
                deadline.meanwhile(deadline)
            else:
                self._asked = None
                return found


def _look_up(address: Address, answers: "SimpleQueue[Found]") -> None:
    try:
        answers.put(_looked_up(address, 0))
    except Exception:  # noqa: BLE001 - whatever it was, there is no address
        answers.put([])


def _looked_up(address: Address, flags: int) -> Found:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, where) for family, _, _, _, where in found]
