"""A service that does what a test tells it to, over real sockets: answer, refuse, hang, trickle, talk rubbish.

with scripted() as service:
    custody = Custody(service.url, KEY)
    service.answers["frames"] = hanging
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final

import msgspec

KEY: Final = "ck_runtime_0000000000000000_" + "s" * 43


@dataclass(frozen=True)
class Asked:
    """One request, as it came."""

    method: str
    path: str
    head: bytes
    headers: dict[str, str]
    body: bytes

    @property
    def call(self) -> str:
        """What it is: `declare`, `frames`, `facts`, `gaps` or `close`."""
        return "declare" if self.method == "PUT" else self.path.rpartition("/")[2]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def frames(self) -> list[list[Any]]:
        found: list[list[Any]] = msgspec.msgpack.decode(self.body)
        return found


Reply = Callable[["Scripted", Asked, socket.socket], None]


@dataclass
class Scripted:
    """What was asked, and how each call is answered; without a word of the test, as a healthy service does."""

    sock: socket.socket
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, Reply] = field(default_factory=dict)
    admission: dict[str, Any] = field(default_factory=dict)
    connections: list[socket.socket] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    over: bool = False
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def calls(self, call: str) -> list[Asked]:
        return [each for each in list(self.asked) if each.call == call]

    def parts(self) -> list[dict[str, Any]]:
        """Headers of all parts that came, in order, with their content."""
        return [
            {**frame[1], "body": frame[2]}
            for each in self.calls("frames")
            for frame in each.frames
            if frame[0] == "part"
        ]

    def states(self) -> list[dict[str, Any]]:
        return [frame[1] for each in self.calls("frames") for frame in each.frames if frame[0] == "state"]

    def facts(self) -> list[dict[str, Any]]:
        """All facts that came, in order."""
        return [fact for each in self.calls("facts") for fact in each.json["facts"]]

    def gaps(self) -> dict[str, set[int]]:
        """Numbers that were told as lost, by reason."""
        found: dict[str, set[int]] = {}
        for each in self.calls("gaps"):
            for gap in each.json["gaps"]:
                found.setdefault(gap["reason"], set()).update(numbers(gap["sequences"]))
        return found

    def closings(self) -> list[dict[str, int]]:
        return [each.json["sessions"] for each in self.calls("close")]

    def vanish(self) -> None:
        """Refuse connections from now on, and break those that there are."""
        self.over = True
        for each in (self.sock, *self.connections):
            # Closing alone wakes nobody who waits in another thread.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def come_back(self) -> None:
        """Listen again, on the same port."""
        self.over = False
        self.sock = _listening(self.port)
        threading.Thread(target=_serve, args=(self,), daemon=True).start()


def numbers(text: str) -> Iterator[int]:
    for each in text.split(","):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)


# --- ways to answer


def healthy(service: Scripted, asked: Asked, sock: socket.socket) -> None:
    bodies: dict[str, Callable[[], Any]] = {
        "declare": lambda: admitted(**service.admission),
        "frames": lambda: {"receipts": [outcome(frame) for frame in asked.frames]},
        "gaps": lambda: {
            "gaps": [{"type": "gap", "recorded": True, "reason": None} for _ in asked.json["gaps"]]
        },
        "facts": lambda: {
            "facts": [{"type": "fact", "recorded": True, "reason": None} for _ in asked.json["facts"]]
        },
        "close": lambda: {"state": "closing"},
    }
    send(sock, 200, bodies[asked.call]())


def outcome(frame: list[Any], **other: Any) -> dict[str, Any]:
    if frame[0] == "part":
        return {"capture": "queued", "reason": None, "recorded": True, **other}
    return {"type": frame[0], "recorded": True, "reason": None, **other}


def admitted(**other: Any) -> dict[str, Any]:
    limits = {"part_bytes": 262144, "run_parts": 128, "run_bytes": 1 << 24, "run_waiting_parts": 32,
              "run_waiting_bytes": 1 << 22, "run_waiting_notes": 128}  # fmt: skip
    expires = datetime.now(UTC) + timedelta(seconds=other.pop("lifetime_s", 900))
    found = {"admitted": True, "reason": None, "kinds": ["logical-request", "observable-output"],
             "limits": {**limits, **other.pop("limits", {})}, "ticket": "ct1.ticket",
             "ticket_expires_at": expires.isoformat(), **other}  # fmt: skip
    if not found["admitted"]:
        found |= {"ticket": None, "ticket_expires_at": None}
    return found


def problem(status: int, reason: str, **more: Any) -> Reply:
    """Refuse, in the service's own words."""

    def reply(_: Scripted, __: Asked, sock: socket.socket) -> None:
        said = {
            "type": "x",
            "title": "x",
            "status": status,
            "detail": "",
            "reason": reason,
            "retryable": False,
            **more,
        }
        send(sock, status, said, "application/problem+json", **{"Retry-After": "3600"})

    return reply


def raw(data: bytes) -> Reply:
    """Answer these bytes, and close."""

    def reply(_: Scripted, __: Asked, sock: socket.socket) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_RDWR)

    return reply


def hanging(service: Scripted, _: Asked, __: socket.socket) -> None:
    """Say nothing until the test releases it, and then nothing either."""
    service.released.wait(30)
    raise OSError("released")


def trickling(service: Scripted, _: Asked, sock: socket.socket) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b" " * 5000:
        if service.released.wait(0.2):
            return
        try:
            sock.sendall(bytes([byte]))
        except OSError:
            return


def closing(_: Scripted, __: Asked, sock: socket.socket) -> None:
    sock.shutdown(socket.SHUT_RDWR)


def in_turn(*replies: Reply) -> Reply:
    """Answer one after the other, the last one for ever."""
    left = list(replies)

    def reply(service: Scripted, asked: Asked, sock: socket.socket) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(service, asked, sock)

    return reply


def send(
    sock: socket.socket, status: int, body: Any, content_type: str = "application/json", **more: str
) -> None:
    data = msgspec.json.encode(body)
    head = [f"HTTP/1.1 {status} Said", f"Content-Type: {content_type}", f"Content-Length: {len(data)}"]
    head += [f"Date: {format_datetime(datetime.now(UTC), usegmt=True)}"]
    head += [f"{name}: {value}" for name, value in more.items()]
    sock.sendall("\r\n".join([*head, "", ""]).encode() + data)


# --- serving


@contextmanager
def scripted(tls: ssl.SSLContext | None = None, **answers: Reply) -> Iterator[Scripted]:
    """Serve until the end of the block."""
    sock = _listening(0)
    service = Scripted(sock, answers=dict(answers), port=sock.getsockname()[1], tls=tls)
    threading.Thread(target=_serve, args=(service,), daemon=True).start()
    try:
        yield service
    finally:
        service.released.set()
        service.vanish()


def until(look: Callable[[], Any], within_s: float = 10.0) -> Any:
    """Look until there is something to see, and return it."""
    limit = time.monotonic() + within_s
    while True:
        if seen := look():
            return seen
        assert time.monotonic() < limit, f"not within {within_s} s"
        time.sleep(0.005)


def _listening(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(64)
    return sock


def _serve(service: Scripted) -> None:
    while not service.over:
        try:
            sock, _ = service.sock.accept()
        except OSError:
            return
        service.connections.append(sock)
        threading.Thread(target=_talk, args=(service, sock), daemon=True).start()


def _talk(service: Scripted, sock: socket.socket) -> None:
    if service.tls is not None:
        try:
            sock = service.tls.wrap_socket(sock, server_side=True)
        except OSError:
            sock.close()
            return
        service.connections.append(sock)
    with sock, sock.makefile("rb") as lines:
        try:
            while not service.over and (asked := _request(lines)) is not None:
                service.asked.append(asked)
                service.answers.get(asked.call, healthy)(service, asked, sock)
        except (OSError, ValueError):
            return


def _request(lines: Any) -> Asked | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = lines.readline()
        if not line:
            return None
        head += line
    first, *rest = head.decode("ascii").split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    headers = dict(each.split(": ", 1) for each in rest)
    return Asked(method, path, head, headers, lines.read(int(headers["Content-Length"])))
