"""Requests as bytes, made before the clock runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

KINDS: Final = ("logical-request", "observable-output")
_LENGTH: Final = 4


@dataclass(slots=True)
class Run:
    """A declared run and its one session, which numbers what it posts."""

    name: str
    key: str
    ticket: str
    numbered: int = 0

    def next_number(self) -> int:
        """Return the session's next number."""
        self.numbered += 1
        return self.numbered

    @property
    def headers(self) -> Mapping[str, str]:
        """What every capture of the run says."""
        return {
            "Authorization": f"Bearer {self.key}",
            "Custody-Ticket": self.ticket,
            "Custody-Session": f"session-{self.name}",
        }


def request(method: str, path: str, headers: Mapping[str, str], body: bytes | int = b"") -> bytes:
    """Return a request; of a body given as a number of bytes only the length is said, and it is added later."""
    size = body if isinstance(body, int) else len(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", f"Content-Length: {size}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode()
    return head if isinstance(body, int) else head + body


def put_part(run: Run, body: bytes | int) -> bytes:
    """Return the request that captures one part."""
    number = run.next_number()
    exchange, kind = _identity(number)
    path = f"/v1/runs/{run.name}/exchanges/{exchange}/attempts/physical-1/parts/{kind}"
    headers = {"Custody-Sequence": str(number), "Content-Type": "application/json"}
    return request("PUT", path, {**run.headers, **headers}, body)


def post_frames(run: Run, contents: Sequence[bytes]) -> bytes:
    """Return the request that captures one flush."""
    first = run.numbered + 1
    frames = [_frame(run, content) for content in contents]
    headers = {"Custody-Sequences": f"{first}-{run.numbered}", "Content-Type": "application/msgpack"}
    path = f"/v1/runs/{run.name}/frames"
    return request("POST", path, {**run.headers, **headers}, msgspec.msgpack.encode(frames))


def get(path: str, key: str) -> bytes:
    """Return a read."""
    return request("GET", path, {"Authorization": f"Bearer {key}"})


def write_requests(path: Path, requests: Iterable[bytes]) -> Path:
    """Put requests into a file for the process that sends them."""
    with path.open("wb") as out:
        for each in requests:
            out.write(len(each).to_bytes(_LENGTH, "big"))
            out.write(each)
    return path


def read_requests(path: Path) -> Iterator[bytes]:
    """Read what `write_requests` wrote."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        yield data[start:at]


def _frame(run: Run, content: bytes) -> tuple[str, dict[str, str | int], bytes]:
    number = run.next_number()
    exchange, kind = _identity(number)
    said: dict[str, str | int] = {
        "exchange": exchange,
        "attempt": "physical-1",
        "kind": kind,
        "sequence": number,
        "content-type": "application/json",
    }
    return "part", said, content


def _identity(number: int) -> tuple[str, str]:
    """Return exchange and kind of a run's part: a request and an answer for each exchange."""
    return f"call-{(number + 1) // 2}", KINDS[(number + 1) % 2]
