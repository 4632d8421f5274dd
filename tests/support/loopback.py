"""Tests speak to this machine only: a connection to anywhere else fails where it is made."""

import ipaddress
import ssl
import sys
from typing import Any, Final

# What clients of tests verify with: all is plain HTTP, and loading the world's certificates for each client takes as
# long as making a database.
PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def refuse_everything_else() -> None:
    """From now on, in this process, for good (an audit hook cannot be taken off)."""
    sys.addaudithook(_check)


def _check(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(args[1], tuple) and not _is_here(str(args[1][0])):
        message = f"a test connects to {args[1][0]}, which is not this machine"
        raise RuntimeError(message)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
