"""Failures counted over windows, in bounded memory."""

from console.throttle import Bound, Throttle

BOUND = Bound(3, 60.0)


def test_so_many_failures_wait_until_their_window_is_over():
    throttle = Throttle()
    for at in (0.0, 10.0, 20.0):
        assert throttle.wait_s("a", BOUND, at) == 0
        throttle.failed("a", BOUND, at)
    assert throttle.wait_s("a", BOUND, 20.0) == 40
    assert throttle.wait_s("b", BOUND, 20.0) == 0
    assert throttle.wait_s("a", BOUND, 60.0) == 0
    throttle.failed("a", BOUND, 60.0)
    assert throttle.wait_s("a", BOUND, 60.0) == 0


def test_whoever_gets_in_begins_anew():
    throttle = Throttle()
    for _ in range(3):
        throttle.failed("a", BOUND, 0.0)
    throttle.succeeded("a")
    assert throttle.wait_s("a", BOUND, 0.0) == 0


def test_what_failed_longest_ago_is_forgotten_first():
    throttle = Throttle(size=2)
    for name in ("a", "b", "a", "c"):
        throttle.failed(name, Bound(1, 60.0), 0.0)
    assert [throttle.wait_s(name, Bound(1, 60.0), 0.0) > 0 for name in ("a", "b", "c")] == [True, False, True]
