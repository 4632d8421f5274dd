"""An interrupt may come between any two lines: no reservation stays open for it, and none is closed twice."""

import sys

import pytest

from custody_toolchain import driving
from custody_toolchain.facts import Status
from custody_toolchain.tools import budget, course, gates, keeping, passage
from toolchain.tests.owned import TURN, Runtime, action

WATCHED = {module.__file__ for module in (driving, budget, course, gates, keeping, passage)}


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line of the core and its driver; n = 0 only counts the lines."""

    def __init__(self, at):
        self.at = at
        self.lines = 0

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self


def traced(runtime, at):
    interrupt = Interrupt(at)
    host = runtime.host()
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        host.run(TURN, action())
    finally:
        sys.settrace(before)
    return interrupt.lines


@pytest.mark.parametrize("breaks", [None, ValueError()], ids=["well", "a tool that fails"])
def test_an_interrupt_at_any_line_leaves_the_budget_balanced(breaks):
    def runtime():
        made = Runtime()
        if breaks:
            made.fail["execute"] = breaks
        return made

    lines = traced(runtime(), 0)
    assert lines > 200
    for at in range(1, lines + 1):
        broken = runtime()
        with pytest.raises(KeyboardInterrupt):
            traced(broken, at)
        assert broken.balanced, at
        assert len(broken.executed) <= 1
        again = broken.host().run(TURN, action())
        projection = again.receipt.projection
        assert again.answer.ok == (projection is not None and projection.status is Status.PROJECTED), at
        assert broken.balanced, at
