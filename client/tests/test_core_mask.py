"""The mask: one choke point for everything that leaves as content, and it fails closed."""

import threading
import time

import pytest

from custody_client import Bounds, Custody
from tests.support.scripted import KEY, until

CANARY = "CANARY-7f3a"


def hide(content):
    return content.replace(CANARY.encode(), b"(masked)")


def everywhere():
    """The canary in every place of a request that people forget."""
    return {
        "model": CANARY,
        "system": CANARY,
        "messages": [
            {"role": "user", "content": f"say {CANARY}"},
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": CANARY, "arguments": f'{{"a": "{CANARY}"}}'}}],
            },
            {"role": "tool", "content": CANARY},
        ],
        "metadata": {CANARY: CANARY},
        "stop": [CANARY],
        "temperature": CANARY,
        "error": f"ValueError: {CANARY}",
        "url": f"https://example.test/?q={CANARY}",
        "headers": {"x-note": CANARY},
    }


def run_with(service, mask, **bounds):
    custody = Custody(service.url, KEY, mask=mask, bounds=Bounds(**bounds))
    return custody, custody.run("r-1", wait=2)


def test_nothing_leaves_unmasked_by_any_path(service, caplog):
    custody, run = run_with(service, hide)
    contents = [
        everywhere(), everywhere, CANARY, CANARY.encode(), bytearray(CANARY.encode()),
        {"bad": object(), "c": CANARY}, {(1, 2): CANARY},
    ]  # fmt: skip
    for content in contents:
        attempt = run.exchange().attempt()
        attempt.capture_request(content)
        attempt.capture_output(content, content_type="text/plain")
    run.close()
    assert custody.flush(5)
    assert len(service.parts()) == 10
    assert all(b"(masked)" in part["body"] for part in service.parts())
    assert not any(CANARY.encode() in asked.head + asked.body for asked in service.asked)
    assert CANARY not in caplog.text
    custody.close()


def raising(_):
    raise RuntimeError(CANARY)


def ending(_):
    raise SystemExit


@pytest.mark.parametrize("mask", [raising, ending, lambda _: None, lambda _: "text", bytearray, 7])
def test_a_mask_that_fails_lets_nothing_leave(service, mask, caplog):
    custody, run = run_with(service, mask)
    run.exchange().attempt().capture_request(CANARY)
    run.close()
    until(service.closings)
    assert service.gaps() == {"client_mask_failed": {1}}
    assert (service.parts(), custody.counters().waiting) == ([], 0)
    assert CANARY not in caplog.text
    custody.close()


def test_a_slow_mask_holds_up_neither_caller_nor_the_rest(service):
    released = threading.Event()

    def slow(content):
        if content == b'"slow"':
            released.wait(20)
        return content

    custody, run = run_with(service, slow, mask_s=0.2)
    for content in ("slow", "quick"):
        begun = time.perf_counter()
        run.exchange().attempt().capture_request(content)
        assert time.perf_counter() - begun < 0.2
    run.close()
    until(service.closings)
    assert service.gaps() == {"client_mask_failed": {1}}
    assert [part["body"] for part in service.parts()] == [b'"quick"']
    released.set()
    custody.close()


def test_a_mask_that_hangs_again_and_again_ends_in_failing_at_once(service):
    released = threading.Event()

    def stuck(content):
        released.wait(20)
        return content

    before = set(threading.enumerate())
    custody, run = run_with(service, stuck, mask_s=0.1)
    for _ in range(20):
        run.exchange().attempt().capture_request("x")
    run.close()
    until(service.closings, 3)
    assert service.gaps() == {"client_mask_failed": set(range(1, 21))}
    assert sum(thread.name == "custody-mask" for thread in set(threading.enumerate()) - before) <= 2
    released.set()
    custody.close()


def test_what_a_mask_makes_too_large_does_not_leave(service):
    service.admission["limits"] = {"part_bytes": 100}
    custody, run = run_with(service, lambda content: content * 60)
    run.exchange().attempt().capture_request(b"xx")
    run.close()
    until(service.closings)
    assert (service.gaps(), service.parts()) == ({"part_too_large": {1}}, [])
    assert custody.counters().waiting_bytes == 0
    custody.close()
