"""What the model is told and what is kept is the same with any observer as without one."""

import threading

import msgspec
import pytest

from custody_toolchain.observing import Reporter
from toolchain.tests.owned import TURN, Runtime, action

WAIT_S = 5.0


def raising(_):
    raise ValueError("an observer's own fault")


def mutating(fact):
    for field in fact.__struct_fields__:
        msgspec.structs.force_setattr(fact, field, None)


def kept_and_told(report):
    """Run four actions, of which one fails and one is refused; return every byte that leaves the host."""
    runtime = Runtime()
    host = runtime.host(report=report, clock=lambda: 0.0)
    told = [host.run(TURN, action(f"a{number}")).answer.text() for number in (1, 2)]
    runtime.fail["execute"] = ValueError()
    told.append(host.run(TURN, action("a3")).answer.text())
    told.append(host.run(TURN, action("a4", arguments={})).answer.text())
    return told, [msgspec.json.encode(receipt) for receipt in runtime.kept.values()], runtime.calls


@pytest.mark.parametrize("kind", ["raising", "mutating", "hanging", "all of them", "raising at once"])
def test_an_observer_changes_neither_requests_nor_receipts(kind):
    without = kept_and_told(None)
    go_on = threading.Event()
    observers = {
        "raising": [raising],
        "mutating": [mutating],
        "hanging": [lambda _: go_on.wait(WAIT_S)],
        "all of them": [raising, mutating, lambda _: go_on.wait(WAIT_S)],
        "raising at once": [],
    }[kind]
    reporter = Reporter(*observers, most_waiting=8)
    try:
        report = raising if kind == "raising at once" else reporter.report
        assert kept_and_told(report) == without
    finally:
        go_on.set()
        assert reporter.close(WAIT_S)


def test_an_observer_that_mutates_what_it_is_given_at_once_changes_nothing():
    assert kept_and_told(mutating) == kept_and_told(None)
