"""The client's requests as golden files (tests/contract/client): whole, with what differs from run to run replaced."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.scripted import KEY, Asked

__all__ = ["KEY", "READ", "Golden", "normal"]

_DIRECTORY: Final = Path(__file__).parents[1] / "contract" / "client"
_HOST: Final = b"Host: custody.example"


@dataclass(frozen=True)
class Golden:
    """One request: its head with `custody.example` as the host, and its body."""

    head: bytes
    body: bytes

    @property
    def method(self) -> str:
        return self.head.split(b" ")[0].decode()

    @property
    def path(self) -> str:
        return self.head.split(b" ")[1].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode().split("\r\n")[1:-2]
        return dict(line.split(": ", 1) for line in lines)


def normal(asked: Asked) -> Golden:
    """Return a request as golden files hold it."""
    lines = asked.head.split(b"\r\n")
    return Golden(b"\r\n".join(_HOST if each.startswith(b"Host: ") else each for each in lines), asked.body)


def _read(path: Path) -> Golden:
    head, _, body = path.read_bytes().partition(b"\r\n\r\n")
    return Golden(head + b"\r\n\r\n", body)


READ: Final = {path.stem: _read(path) for path in sorted(_DIRECTORY.glob("*.http"))}
