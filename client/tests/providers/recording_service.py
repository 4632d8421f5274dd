"""Stands for Custody's service: speaks its wire, admits what it is told to, and keeps every byte that arrives."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

KEY = "ck_runtime_recording_key"
KINDS = ["logical-request", "observable-output"]


@dataclass
class Service:
    """Its address, and what has arrived: parts and states by identity, gaps, raw bodies and paths."""

    url: str = ""
    admitted: bool = True
    decided: threading.Event = field(default_factory=threading.Event)
    """Until it is set, nobody is told whether they are admitted; it is, unless a test clears it."""
    parts: dict[tuple[str, str, str], tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    states: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    gaps: list[Any] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def exchanges(self) -> dict[str, dict[str, dict[str, Any]]]:
        """What arrived, by exchange, attempt and kind; content decoded."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for (exchange, attempt, kind), (_, body) in self.parts.items():
            found.setdefault(exchange, {}).setdefault(attempt, {})[kind] = json.loads(body)
        return found

    def frames(self, body: bytes) -> list[dict[str, Any]]:
        receipts: list[dict[str, Any]] = []
        for kind, header, *content in msgspec.msgpack.decode(body):
            at = header["exchange"], header["attempt"]
            if kind == "part":
                assert (*at, header["kind"]) not in self.parts, "a part twice"
                self.parts[(*at, header["kind"])] = (header, content[0])
                receipts.append({"recorded": True, "capture": "queued"})
            else:
                self.states.setdefault(at, {}).update(header)
                receipts.append({"recorded": True})
        return receipts


class Handler(BaseHTTPRequestHandler):
    """The four requests that a runtime makes."""

    protocol_version = "HTTP/1.1"
    service: Service

    def do_PUT(self) -> None:
        self._body()
        self.service.decided.wait(10)
        admitted = self.service.admitted
        self._answer(
            {
                "admitted": admitted,
                "reason": None if admitted else "content_opt_out",
                "limits": {"part_bytes": 262144},
                "kinds": KINDS if admitted else [],
                "ticket": "t.recording" if admitted else None,
                "ticket_expires_at": (datetime.now(UTC) + timedelta(minutes=5)).isoformat(),
            }
        )

    def do_POST(self) -> None:
        body = self._body()
        if self.path.endswith("/frames"):
            self._answer({"receipts": self.service.frames(body)}, 202)
        elif self.path.endswith("/gaps"):
            told = json.loads(body)["gaps"]
            self.service.gaps.extend(told)
            self._answer({"gaps": [{"recorded": True} for _ in told]})
        else:
            self._answer({})

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # All but our own key, which is meant to be there.
        head = "\n".join(f"{k}: {v}" for k, v in self.headers.items() if k.lower() != "authorization")
        self.service.raw.append(f"{self.path}\n{head}\n".encode() + body)
        return body

    def _answer(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def serving() -> Iterator[Service]:
    """Serve until the caller is done."""
    service = Service()
    service.decided.set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"service": service}))
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield service
    server.shutdown()
    server.server_close()
    thread.join()
