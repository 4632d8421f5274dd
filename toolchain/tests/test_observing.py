"""An observer that raises, changes what it gets, or hangs is nobody's problem but its own."""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

from custody_toolchain.facts import CoverageFact, Fact, now
from custody_toolchain.observing import Observer, Reporter

WAIT_S = 5.0


def fact(name="f1"):
    return CoverageFact(fact=name, at=now(), file="file-1", frontier=0, whole=False)


def test_every_observer_gets_a_copy_of_its_own():
    def spoil(seen):
        msgspec.structs.force_setattr(seen, "file", "spoilt")

    got: list[Fact] = []
    told = fact()
    with Reporter(spoil, got.append) as reporter:
        reporter.report(told)
        assert reporter.flush(WAIT_S)
    assert got == [told]
    assert told.file == "file-1"
    assert got[0] is not told


def test_one_that_raises_is_counted_and_gets_the_next():
    got: list[str] = []

    def raising(seen):
        got.append(seen.fact)
        raise RuntimeError

    with Reporter(raising) as reporter:
        reporter.report(fact("f1"))
        reporter.report(fact("f2"))
        assert reporter.flush(WAIT_S)
        assert reporter.failed == 2
    assert got == ["f1", "f2"]


def test_one_that_hangs_holds_nobody_and_drops_only_its_own():
    go_on = threading.Event()
    got: list[Fact] = []
    reporter = Reporter(lambda _: go_on.wait(WAIT_S), got.append, most_waiting=4)
    try:
        for at in range(10):
            reporter.report(fact(f"f{at}"))
            reporter._lines[1].emptied(WAIT_S)
        assert not reporter.flush(0.01)
        assert [seen.fact for seen in got] == [f"f{at}" for at in range(10)]
        # One is being looked at and four wait; or five were dropped before it was looked at.
        assert reporter.dropped in {5, 6}
    finally:
        go_on.set()
        assert reporter.close(WAIT_S)


def test_what_is_no_fact_goes_nowhere_and_raises_nothing():
    got: list[Fact] = []
    with Reporter(got.append) as reporter:
        reporter.report("not a fact")  # type: ignore[arg-type] # as an untyped program might
        reporter.report(CoverageFact(fact="../x", at=now(), file="f", frontier=0, whole=False))
        assert reporter.malformed == 2
    assert got == []


def test_after_the_end_nothing_is_taken():
    got: list[Fact] = []
    reporter = Reporter(got.append)
    assert reporter.close()
    reporter.report(fact())
    assert reporter.dropped == 1
    assert got == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_lines_of_its_own():
    go_on = threading.Event()
    reporter = Reporter(lambda _: go_on.wait(WAIT_S))
    reporter.report(fact())
    child = os.fork()
    if child == 0:
        got: list[Fact] = []
        reporter._observers = (got.append,)
        reporter.report(fact("in-the-child"))
        done = reporter.flush(WAIT_S)
        os._exit(0 if done and [seen.fact for seen in got] == ["in-the-child"] else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    assert os.waitstatus_to_exitcode(status) == 0
    assert reporter.close(WAIT_S)


class Slowly(tuple[Observer, ...]):
    """Observers that take a moment to be gone through, so that other threads come meanwhile."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Observer]:
        time.sleep(0.05)
        return super().__iter__()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_that_are_first_together_in_a_forked_process_share_one_line():
    got: set[str] = set()
    told_on: set[int] = set()

    def observe(seen: Fact) -> None:
        got.add(seen.fact)
        told_on.add(threading.get_ident())

    reporter = Reporter(observe)
    child = os.fork()
    if child == 0:
        reporter._observers = Slowly(reporter._observers)
        names = {f"f{at}" for at in range(4)}
        threads = [threading.Thread(target=reporter.report, args=(fact(name),)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        done = reporter.flush(WAIT_S)
        os._exit(0 if done and got == names and len(told_on) == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_the_end_a_forked_process_takes_nothing_either():
    got: list[Fact] = []
    reporter = Reporter(got.append)
    reporter.close()
    child = os.fork()
    if child == 0:
        reporter.report(fact())
        reporter.flush(WAIT_S)
        os._exit(0 if got == [] and reporter.dropped == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def observing() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "custody-observer"}


def ended(threads: set[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(WAIT_S)
    return not any(thread.is_alive() for thread in threads)


def test_a_reporter_that_is_let_go_of_gives_what_was_reported_and_leaves_no_thread_behind():
    before, go_on = observing(), threading.Event()
    got: list[str] = []

    def observe(seen: Fact) -> None:
        go_on.wait(WAIT_S)
        got.append(seen.fact)

    names = [f"f{at}" for at in range(20)]
    for name in names:
        report = Reporter(observe).report
        report(fact(name))
        report(fact(f"{name}-again"))
    mine = observing() - before
    assert len(mine) == 20
    del report
    go_on.set()
    assert ended(mine)
    assert sorted(got) == sorted([*names, *(f"{name}-again" for name in names)])


def test_a_reporter_of_which_only_its_report_is_kept_goes_on():
    got: list[Fact] = []
    report = Reporter(got.append).report
    gc.collect()
    for name in ("f1", "f2"):
        report(fact(name))
        wait_until = time.monotonic() + WAIT_S
        while [seen.fact for seen in got][-1:] != [name] and time.monotonic() < wait_until:
            time.sleep(0.001)
    assert [seen.fact for seen in got] == ["f1", "f2"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("used", [True, False], ids=["used there", "not used there"])
def test_a_reporter_that_is_let_go_of_in_a_forked_process_ends_what_is_there(used):
    reporter = Reporter(lambda _: None)
    reporter.report(fact())
    locked, go_on = threading.Event(), threading.Event()

    def hold(line) -> None:
        with line._changed:
            locked.set()
            go_on.wait(WAIT_S)

    holder = threading.Thread(target=hold, args=(reporter._lines[0],))
    holder.start()
    assert locked.wait(WAIT_S)
    child = os.fork()
    if child == 0:
        # The lock of the parent's line is held here by nobody who would free it. No exception of an alarm's would do:
        # one that is raised where something is let go of is ignored.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        if used:
            reporter.report(fact())
        mine = observing()
        del reporter
        os._exit(0 if len(mine) == used and ended(mine) else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    holder.join(WAIT_S)
    assert os.waitstatus_to_exitcode(status) == 0
    assert reporter.close(WAIT_S)
