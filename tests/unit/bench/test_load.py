import asyncio

import pytest

from bench.load import Job, Sent, Unexpected, drive
from bench.wire import Run, get, put_part, write_requests


class Server:
    """Answers requests of a length that is said, in pieces, and notes their bodies."""

    def __init__(self, status="202 Accepted", *, close=False):
        self.status = status
        self.close = close
        self.bodies = []
        self.connections = 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
                self.bodies.append(await reader.readexactly(int(lines["Content-Length"])))
                more = "Connection: close\r\n" if self.close else ""
                writer.write(f"HTTP/1.1 {self.status}\r\n{more}content-length: 4\r\n\r\nok".encode())
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(b"ok")
                if self.close:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()


def file_of(tmp_path, requests):
    return str(write_requests(tmp_path / "requests", requests))


async def test_every_request_is_sent_once_and_its_answer_counted(tmp_path):
    run = Run("r", "key", "ticket")
    requests = [put_part(run, b"%d" % at) for at in range(50)]
    async with Server() as server:
        sent = await drive(Job(server.port, file_of(tmp_path, requests), connections=4, marks=True))
    assert sent.statuses == {202: 50}
    assert sent.broken == 0
    assert sorted(server.bodies) == sorted(b"%d" % at for at in range(50))
    assert server.connections == 4
    assert all(sent.first_at <= asked <= answered <= sent.last_at for asked, answered in sent.marks)


async def test_a_connection_that_is_closed_is_replaced(tmp_path):
    async with Server("429 Too Many Requests", close=True) as server:
        job = Job(server.port, file_of(tmp_path, [get("/a", "key")] * 20), connections=2)
        sent = await drive(job)
    assert sent.statuses == {429: 20}
    assert server.connections >= 20


async def test_what_is_added_differs_each_time(tmp_path):
    filling = tmp_path / "filling"
    filling.write_bytes(bytes(range(256)) * 8)
    run = Run("r", "key", "ticket")
    requests = [put_part(run, 100) for _ in range(10)]
    async with Server() as server:
        await drive(Job(server.port, file_of(tmp_path, requests), 2, fill=100, filling=str(filling)))
    assert {len(body) for body in server.bodies} == {100}
    assert len(set(server.bodies)) == 10


async def test_at_a_rate_requests_are_sent_in_their_order(tmp_path):
    async with Server() as server:
        job = Job(server.port, file_of(tmp_path, [get("/a", "key")] * 30), 3, rate=1000.0, marks=True)
        sent = await drive(job)
    assert sent.statuses == {202: 30}
    asked = [at for at, _ in sent.marks]
    assert asked == sorted(asked)


def test_another_answer_is_not_measured():
    with pytest.raises(Unexpected):
        Sent(0.0, 1.0, {202: 9, 429: 1}, 0).rate(202)
    with pytest.raises(Unexpected):
        Sent(0.0, 1.0, {202: 9}, broken=1).rate(202)
    assert Sent(0.0, 2.0, {202: 9, 429: 1}, 0).rate(202, 429) == 5.0
