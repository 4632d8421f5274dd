"""A service that does anything at random, and a runtime that captures anything: every number ends in one account."""

import random
import threading

import pytest

from custody_client import Bounds, Custody, LocalPolicy
from tests.support.scripted import (
    KEY,
    Asked,
    closing,
    healthy,
    outcome,
    problem,
    raw,
    scripted,
    send,
    until,
)

CONTENTS = (b"raw", {"a": 1}, "x" * 2000, object(), lambda: {"called": True}, {"n": float("nan")})


class Odd:
    """A service that stores what it says that it stored, and sometimes also what it does not."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.calm = False
        self.stored = set()
        self.refused = set()

    def __call__(self, service, asked: Asked, sock):
        if self.calm:
            self.answer(service, asked, sock, "healthy")
            return
        ways = ["healthy", "healthy", "half", "closing", "outage", "old", "rubbish"]
        self.answer(service, asked, sock, self.random.choice(ways))

    def answer(self, service, asked, sock, way):
        if asked.call == "frames" and way in ("healthy", "closing", "half"):
            # A connection that breaks after the service took the flush: nobody on the other side can tell.
            self.frames(asked, sock, way)
        elif way == "outage":
            problem(503, "queue_unavailable", recorded=False)(service, asked, sock)
        elif way == "old" and asked.call == "frames":
            problem(403, "ticket_expired", recorded=False)(service, asked, sock)
        elif way == "rubbish":
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")(service, asked, sock)
        elif way == "closing":
            closing(service, asked, sock)
        else:
            healthy(service, asked, sock)

    def frames(self, asked, sock, way):
        said = []
        for frame in asked.frames:
            number = (asked.headers["Custody-Session"], frame[1].get("sequence"))
            if frame[0] == "part" and way == "half" and self.random.random() < 0.5:
                self.refused.add(number)
                said.append(outcome(frame, capture="not_captured", reason="run_part_limit", recorded=True))
                continue
            if frame[0] == "part":
                self.stored.add(number)
            said.append(outcome(frame))
        if way == "closing":
            sock.shutdown(2)
        else:
            send(sock, 202, {"receipts": said})


def at_random(run, seed, many=60):
    chance = random.Random(seed)
    for _ in range(many):
        attempt = run.exchange().attempt()
        attempt.capture_request(chance.choice(CONTENTS))
        if chance.random() < 0.5:
            attempt.capture_output(chance.choice(CONTENTS))
        if chance.random() < 0.3:
            attempt.settled("completed")
        if chance.random() < 0.1:
            threading.Event().wait(0.01)


@pytest.mark.parametrize("seed", range(6))
def test_every_number_is_stored_refused_or_told(seed, monkeypatch):
    monkeypatch.setattr("custody_client.pauses._FIRST_S", 0.01)
    monkeypatch.setattr("custody_client.pauses._MOST_S", 0.05)
    odd = Odd(seed)
    with scripted(declare=odd, frames=odd, gaps=odd, close=odd) as service:
        service.admission |= {"limits": {"part_bytes": 1000}, "lifetime_s": 1 + seed % 2}
        local = LocalPolicy() if seed % 3 == 0 else None
        custody = Custody(service.url, KEY, bounds=Bounds(run_parts=20, parts=30), local=local)
        run = custody.run("r-1")
        threads = [threading.Thread(target=at_random, args=(run, seed * 10 + each)) for each in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        odd.calm = True
        run.close()
        until(service.closings)
        ((session, last),) = service.closings()[-1].items()
        told = {(session, number) for numbers in service.gaps().values() for number in numbers}
        assert odd.stored | odd.refused | told == {(session, number) for number in range(1, last + 1)}
        counters = until(lambda: (found := custody.counters()).waiting == 0 and found)
        assert counters.observed == last
        # What was stored without an answer is told as lost as well, and counts as stored over there.
        assert counters.delivered + sum(counters.not_captured.values()) == last
        assert (counters.undecided, counters.untold) == (0, 0)
        custody.close()
