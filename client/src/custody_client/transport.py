"""One request after the other over one connection, each with one deadline, whatever the other side does.

Only here is the network spoken to. A deadline is kept by the socket's own timeout, which is set anew before every
system call to what is left; between its slices `meanwhile` is called, so that the thread never sleeps longer than one.
"""

import errno
import io
import selectors
import socket
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from custody_client.addresses import Address
from custody_client.resolving import Resolver

if TYPE_CHECKING:
    from ssl import SSLContext, SSLSocket

_SLICE_S: Final = 0.2
_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY})
_IDLE_S: Final = 20.0
# The longest answer is that to a flush: a few hundred receipts of less than a KiB.
_MOST_ANSWER_BYTES: Final = 4 * 1024 * 1024


class Answer(msgspec.Struct, frozen=True):
    """An answer to a request, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unanswered(Exception):
    """No whole answer came. `sent` says whether the service may have had the request."""

    def __init__(self, cause: str, *, sent: bool) -> None:
        super().__init__(cause)
        self.cause = cause
        self.sent = sent


class Deadline:
    """Until when something must be done; it can be drawn nearer while it is waited for."""

    __slots__ = ("at", "meanwhile")

    def __init__(self, at: float, meanwhile: Callable[["Deadline"], None]) -> None:
        self.at = at
        self.meanwhile = meanwhile

    def slice(self) -> float:
        """Return how long to wait before looking around; TimeoutError once it is over."""
        left = self.at - monotonic()
        if left <= 0:
            raise TimeoutError("the deadline is over")
        return min(left, _SLICE_S)


class Wire:
    """A connection to the service, made anew where the old one does not serve any more."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._resolver = Resolver(address)
        self._stream: _Stream | None = None
        self._used_at = 0.0
        self._context: SSLContext | None = None

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, deadline: Deadline
    ) -> Answer:
        """Send a request and return its answer, or raise Unanswered before or at the deadline."""
        head = self._address.head(method, path, headers, len(body))
        sent = False
        try:
            stream = self._ready(deadline)
            stream.deadline = deadline
            sent = True
            stream.send(head + body)
            answer, keep = _answer(stream, method)
        except (OSError, HTTPException, ValueError) as error:
            # ValueError: what http.client says of some rubbish.
            self.close()
            raise Unanswered(type(error).__name__, sent=sent) from None
        except BaseException:
            self.close()
            raise
        self._used_at = monotonic()
        if not keep:
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _ready(self, deadline: Deadline) -> "_Stream":
        stream = self._stream
        if stream is not None and (monotonic() - self._used_at > _IDLE_S or stream.stale()):
            self.close()
        if self._stream is None:
            self._stream = self._connected(deadline)
        return self._stream

    def _connected(self, deadline: Deadline) -> "_Stream":
        found: OSError | None = None
        for family, address in self._resolver.addresses(deadline):
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                _connect(sock, address, deadline)
                return _Stream(self._secured(sock, deadline), deadline)
            except OSError as error:
                sock.close()
                found = error
            except BaseException:
                sock.close()
                raise
        raise found or OSError("no address")

    def _secured(self, sock: socket.socket, deadline: Deadline) -> socket.socket:
        if not self._address.secure:
            return sock
        import ssl  # noqa: PLC0415 - slow to import, and only needed here

        if self._context is None:
            self._context = ssl.create_default_context()
        secured = self._context.wrap_socket(
            sock, server_hostname=self._address.host, do_handshake_on_connect=False
        )
        try:
            _shake_hands(secured, deadline)
        except BaseException:
            secured.close()  # the socket that was handed in is an empty shell by now
            raise
        return secured


class _Stream:
    """A socket that keeps to a deadline; what `HTTPResponse` needs of one."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self.deadline = deadline

    def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._sock.settimeout(self.deadline.slice())
            try:
                left = left[self._sock.send(left[:65536]) :]
            except TimeoutError:
                self.deadline.meanwhile(self.deadline)

    def receive(self, buffer: Any) -> int:
        while True:
            self._sock.settimeout(self.deadline.slice())
            try:
                return self._sock.recv_into(buffer)
            except TimeoutError:
                self.deadline.meanwhile(self.deadline)

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def stale(self) -> bool:
        """Say whether it was closed, or spoken on, while nobody listened: neither serves for another request."""
        self._sock.settimeout(0)
        try:
            self._sock.recv(1, socket.MSG_PEEK) if not hasattr(self._sock, "pending") else self._sock.recv(1)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            return type(error).__name__ != "SSLWantReadError"
        return True

    def close(self) -> None:
        self._sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._stream.receive(buffer)


def _answer(stream: _Stream, method: str) -> tuple[Answer, bool]:
    response = HTTPResponse(stream, method=method)  # type: ignore[arg-type] # it only makes a file of it
    try:
        response.begin()
        body = response.read(_MOST_ANSWER_BYTES + 1)
        if len(body) > _MOST_ANSWER_BYTES:
            raise ValueError("an endless answer")
        if response.length:
            raise ValueError("an answer that was cut off")
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body), not response.will_close
    finally:
        response.close()


def _connect(sock: socket.socket, address: Any, deadline: Deadline) -> None:
    sock.setblocking(False)  # noqa: FBT003 - the socket's own way
    error = sock.connect_ex(address)
    if error in _UNDER_WAY:
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_WRITE)
            while not selector.select(deadline.slice()):
                deadline.meanwhile(deadline)
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "cannot connect")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _shake_hands(sock: "SSLSocket", deadline: Deadline) -> None:
    while True:
        sock.settimeout(deadline.slice())
        try:
            sock.do_handshake()
        except TimeoutError:
            deadline.meanwhile(deadline)
        else:
            return
