"""The proxy of `deploy/`: nginx with that very configuration, but for where it listens, whom it asks, and its places.

with proxy(directory, upstream_port) as before:
    httpx.AsyncClient(base_url=before.url)
    before.lines()
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from types import MappingProxyType
from typing import Final

from tests.support.sources import ROOT
from tests.support.stack import free_port

_UNPACKED: Final = ROOT / ".venv-oracles/nginx/usr/sbin"
_WITHIN_S: Final = 10.0
_PAUSE_S: Final = 0.02

Changes = Mapping[str, str]
"""Texts of the configuration, and what stands in their place; each must be there."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An nginx; `directory` is everything that it writes."""

    port: int
    directory: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lines(self) -> list[str]:
        return (self.directory / "access.log").read_text().splitlines()

    def held_back(self) -> dict[str, int]:
        """When each directory for what it holds back last got or lost a file, in nanoseconds."""
        return {name: (self.directory / name).stat().st_mtime_ns for name in ("body", "proxy")}


@contextmanager
def proxy(directory: Path, upstream_port: int, changes: Changes = MappingProxyType({})) -> Iterator[Proxy]:
    """Start one before an api on loopback, and end it; `changes` are what a test wants otherwise."""
    found = Proxy(free_port(), directory)
    directory.mkdir()
    # Made here, so that it is seen when something was put into them.
    for name in ("body", "proxy"):
        (directory / name).mkdir()
    conf = directory / "nginx.conf"
    conf.write_text(_conf(found, upstream_port, changes))
    process = subprocess.Popen([_nginx(), "-c", str(conf), "-p", str(directory), "-g", _globals()])
    try:
        _answering(found.port, process)
        yield found
    finally:
        process.terminate()
        process.wait()


def _conf(found: Proxy, upstream_port: int, changes: Changes) -> str:
    text = (ROOT / "deploy/nginx.conf").read_text()
    here: Changes = {
        "listen 8750;": f"listen 127.0.0.1:{found.port};",
        "server api-1:8750;": f"server 127.0.0.1:{upstream_port};",
        "        server api-2:8750;\n": "",
        # The console's part is there too, and leads to nobody.
        "listen 8751;": f"listen unix:{found.directory}/console;",
        "http://console:8751": "http://127.0.0.1:9",
        "/dev/stdout": f"{found.directory}/access.log",
        "/dev/stderr": f"{found.directory}/error.log",
        "/tmp/": f"{found.directory}/",  # noqa: S108 - as the configuration has it
    }
    for before, after in {**here, **changes}.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def _nginx() -> str:
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:{_UNPACKED}")
    assert found is not None, "there is no nginx; `make test-oracles` brings one"
    return found


def _globals() -> str:
    # Root's workers would be another user, who may not write here.
    return "daemon off; user root;" if os.geteuid() == 0 else "daemon off;"


def _answering(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(round(_WITHIN_S / _PAUSE_S)):
        assert process.poll() is None, "nginx ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        sleep(_PAUSE_S)
    raise AssertionError("nginx did not answer")
