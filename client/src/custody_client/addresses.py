"""Where the service is, and how a request to it begins. A credential in an address is refused: addresses get logged."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_PORTS: Final = {"http": 80, "https": 443}
_KEY: Final = re.compile(r"[!-~]{1,512}")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


class Address(msgspec.Struct, frozen=True):
    """One service, and the key under which it is asked. Its repr does not show the key."""

    host: str
    port: int
    secure: bool
    prefix: str
    key: str

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port})"

    @property
    def url(self) -> str:
        """Where it is, for those who may see it; nothing secret is in it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.prefix}"

    def head(self, method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
        """Write the head of a request; the order of its lines is always the same."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == _PORTS["https" if self.secure else "http"]
        lines = [
            f"{method} {self.prefix}{path} HTTP/1.1",
            f"Host: {host}" if usual else f"Host: {host}:{self.port}",
            f"Authorization: Bearer {self.key}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            *(f"{name}: {value}" for name, value in headers.items()),
            f"Content-Length: {length}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def address_of(url: object, key: object) -> Address:
    """Read an address; a ValueError says in our own words, without the address or the key, what is wrong with it."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - most of what it imports is imported by nothing else here

    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        raise ValueError("no address of a service is given")
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError("no key is given, or what is given is none")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("the address of the service begins with http:// or https:// and a host")
    if "@" in parts.netloc or parts.query or parts.fragment or _PATH.fullmatch(parts.path) is None:
        raise ValueError("the address of the service holds more than a host, a port, and a path")
    port = parts.port if parts.port is not None else _PORTS[parts.scheme]
    return Address(parts.hostname, port, parts.scheme == "https", parts.path.rstrip("/"), key)
