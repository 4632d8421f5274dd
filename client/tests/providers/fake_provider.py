"""A provider on this machine: four ways of answering, over real sockets, with the faults that real ones have.

Shapes follow the providers' public references (chat completions, responses, messages, generateContent).
"""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from client.tests.providers import answers


@dataclass(frozen=True)
class Turn:
    """How one request is met. Without any word: as it should be."""

    status: int = 200
    cut_after: int | None = None  # so many events of the stream, then nothing
    rudely: bool = False  # cut by closing the socket, not by a well-formed end
    pause_s: float = 0.0  # before every event but the first
    terminal: bool = True  # whether the stream's end is said
    gzipped: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Provider:
    """Its address, what it was asked, and how it will meet the next requests."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    closed_early: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    """A stream was written to its end."""

    def will(self, *turns: Turn) -> None:
        self.turns.extend(turns)


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with chunks that are flushed one by one."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a stream's every flush would wait for the reader's acknowledgement
    provider: Provider

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        provider = self.provider
        provider.asked.append(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        turn = provider.turns.pop(0) if provider.turns else Turn()
        try:
            self._meet(turn, json.loads(body or b"{}"))
        except (BrokenPipeError, ConnectionResetError):
            provider.closed_early.set()
            self.close_connection = True

    def _meet(self, turn: Turn, asked: dict[str, Any]) -> None:
        if turn.status != 200:
            error = {"error": {"message": "not now", "type": "fault", "code": turn.status}, "type": "error"}
            self._whole(turn, json.dumps(error).encode())
            return
        path = self.path.partition("?")[0]
        if asked.get("stream") or path.endswith(":streamGenerateContent"):
            self._stream(turn, answers.events(path, asked, terminal=turn.terminal))
        else:
            self._whole(turn, json.dumps(answers.whole(path, asked)).encode())

    def _whole(self, turn: Turn, body: bytes) -> None:
        sent = answers.gzip(body) if turn.gzipped else body
        self.send_response(turn.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.send_header("Retry-After-Ms", "1")
        if turn.gzipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(sent)

    def _stream(self, turn: Turn, events: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if number == turn.cut_after:
                break
            if number:
                time.sleep(turn.pause_s)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        if turn.rudely:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")
        self.provider.done.set()

    def log_message(self, *_: object) -> None:
        """Nothing of what is asked is printed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A caller that went away is no fault of the provider."""


def serving() -> Iterator[Provider]:
    """Serve until the caller is done."""
    provider = Provider()
    handler = type("Handler", (Handler,), {"provider": provider})
    server = _Server(("127.0.0.1", 0), handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield provider
    server.shutdown()
    server.server_close()
    thread.join()
