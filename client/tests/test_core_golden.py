"""The exact requests of the client, held against golden files; the service is held against the same ones.

A golden file never changes: clients that speak like this are out there. A new way to speak gets a new file.
"""

import pytest

from custody_client import Custody, Source
from tests.support.golden import KEY, READ, normal
from tests.support.scripted import hanging, healthy, in_turn, outcome, scripted, send, until


@pytest.fixture
def fixed(monkeypatch):
    """One session, one time, one minted exchange: nothing of a request is left to chance."""
    monkeypatch.setattr("custody_client.accounts.new_session", lambda: "s-golden")
    monkeypatch.setattr("custody_client.runs.os.urandom", lambda size: b"\x07" * size)
    monkeypatch.setattr("custody_client.capturing.monotonic", lambda: 100.5)
    monkeypatch.setattr("custody_client.frames.monotonic", lambda: 100.0)
    monkeypatch.setattr("custody_client.frames.time", lambda: 1_767_225_600.0)


def captured(custody):
    """The fixed script: two exchanges with everything that can be said, and one capture that is lost."""
    run = custody.run(
        "golden-run", content="allow", retention="1d", labels={"team": "blue"}, sources=["doc-7", Source("doc-8", 2)],
        subject="person-1", shared=True, wait=2,
    )  # fmt: skip
    attempt = run.exchange("x-1").attempt("a-1")
    attempt.capture_request({"model": "model-a", "messages": [{"role": "user", "content": "grüße 😀"}]})
    attempt.dispatched()
    attempt.capture_output(
        b"\x00raw\xff", content_type="application/octet-stream", completeness="interrupted", vantage="wire",
        sources=[Source("doc-7", 1), "doc-8"],
    )  # fmt: skip
    attempt.settled("failed")
    attempt.refer(trace="trace-1", response="chatcmpl-1", request="req-1")
    minted = run.exchange().attempt()
    minted.capture_request(object())
    minted.capture_output("text", content_type="text/plain")
    minted.not_dispatched()
    run.close()


@pytest.mark.usefixtures("fixed")
def test_the_client_says_exactly_what_the_golden_files_hold():
    with scripted() as service:
        custody = Custody(service.url, KEY)
        captured(custody)
        until(service.closings)
        said = {asked.call: normal(asked) for asked in service.asked}
        assert len(service.asked) == len(READ)
        assert said == READ
        custody.close()


@pytest.mark.usefixtures("fixed")
def test_a_resend_says_the_same_to_the_byte():
    with scripted(frames=in_turn(hanging, healthy)) as service:
        custody = Custody(service.url, KEY)
        captured(custody)
        until(lambda: service.calls("frames"))
        service.released.set()
        until(service.closings)
        first, second = (normal(asked) for asked in service.calls("frames"))
        assert first == second == READ["frames"]
        custody.close()


def test_what_is_not_in_an_answer_is_not_needed():
    """The least that each answer holds, so that the service may say more, and nothing else."""
    least = {
        "admitted": True,
        "limits": {"part_bytes": 1000},
        "kinds": ["logical-request"],
        "ticket": "ct1.t",
    }
    with scripted(
        declare=lambda _, __, sock: send(sock, 201, least),
        frames=lambda _, asked, sock: send(
            sock, 202, {"receipts": [outcome(each) for each in asked.frames], "x": 1}
        ),
    ) as service:
        custody = Custody(service.url, KEY)
        run = custody.run("r-1", wait=2)
        run.exchange().attempt().capture_request(b"x")
        assert custody.flush(5)
        assert custody.counters().delivered == 1
        custody.close()
