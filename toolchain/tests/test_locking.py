"""What several threads tell at once is told one after the other, also where one of them forks the process."""

import asyncio
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from custody_toolchain.attachments import Attachments, Extraction, State, Status
from custody_toolchain.coverage import Coverage, Page
from custody_toolchain.delivery import Begun, Command, Commands
from custody_toolchain.tools import Tool, WithinItself
from custody_toolchain.tools.lanes import Lanes
from toolchain.tests.owned import SCHEMA, TURN, Runtime, action

DONE = State(Status.DONE)


@pytest.fixture
def _often():
    """Let threads take turns as often as can be."""
    wait = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(wait)


def at_once(*works):
    with ThreadPoolExecutor(len(works)) as threads:
        return [done.result() for done in [threads.submit(work) for work in works]]


@pytest.mark.usefixtures("_often")
def test_commands_that_threads_begin_at_once_are_told_apart(tmp_path):
    (tmp_path / "watched").write_text("one")
    commands = Commands(watched=(str(tmp_path / "watched"),))

    def work(name):
        ran = []
        for at in range(100):
            begun = commands.begin(Command((name, str(at)), str(tmp_path)))
            assert isinstance(begun, Begun)
            ran.append(commands.end(begun, exit_code=0))
        return ran

    every = [ran for mine in at_once(*(lambda name=name: work(name) for name in "abcd")) for ran in mine]
    assert sorted(ran.begun.number for ran in every) == list(range(1, 401))
    assert len(commands.ran) == 400


@pytest.mark.usefixtures("_often")
def test_an_attachment_that_threads_receive_at_once_is_received_once():
    attachments, together = Attachments(), threading.Barrier(4)

    def work():
        mine = 0
        for at in range(200):
            together.wait(10)
            try:
                attachments.received(f"a{at}", size_bytes=9, head=b"some text", where="upload")
                mine += 1
            except ValueError:
                continue
        return mine

    assert sum(at_once(*[work] * 4)) == 200


@pytest.mark.usefixtures("_often")
def test_attachments_may_be_looked_at_while_others_arrive():
    attachments = Attachments()

    def tell():
        for at in range(500):
            attachments.received(f"a{at}", size_bytes=9, head=b"some text", where="upload")
            attachments.extracted(f"a{at}", Extraction("e1", "text", "reader", DONE))
        return 0

    def look():
        seen = 0
        while seen < 500:
            seen = len(attachments.all)
            attachments.proved("image/png")
        return seen

    assert at_once(tell, look, look) == [0, 500, 500]


def leave(was_good):
    """End a forked process, whatever happens in it; one that waits for ever is ended by an alarm."""
    signal.alarm(5)
    try:
        os._exit(0 if was_good() else 1)
    finally:
        os._exit(2)


def ended(child):
    """Wait for a forked process, and return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def use_coverage(ledger):
    return ledger.read(Page("/a.txt", 0, 5, 0, 5)).coverage.frontier == 5


def use_commands(ledger):
    return isinstance(ledger.begin(Command(("true",))), Begun)


def use_attachments(ledger):
    return ledger.received("a1", size_bytes=9, head=b"some text", where="upload").size_bytes == 9


def use_lanes(lanes):
    return lanes.enter(("run-1", "a1"), object()) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: Coverage("run-1"), use_coverage),
        (Commands, use_commands),
        (Attachments, use_attachments),
        (Lanes, use_lanes),
    ],
    ids=["coverage", "commands", "attachments", "lanes"],
)
def test_a_process_forked_while_another_thread_is_at_work_goes_on_with_the_ledger(make, use):
    ledger, at_work, half_done = make(), threading.Event(), [True]

    def work():
        with ledger._lock:
            at_work.set()
            # Long enough for a fork that does not wait.
            threading.Event().wait(0.3)
            half_done.clear()

    thread = threading.Thread(target=work)
    thread.start()
    assert at_work.wait(10)
    child = os.fork()
    if child == 0:
        leave(lambda: use(ledger) and not half_done)
    status = ended(child)
    thread.join(10)
    assert status == 0
    assert use(ledger)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_thread_that_forks_within_its_own_work_is_not_in_its_own_way():
    pids: list[int] = []

    def clock():
        if not pids:
            pids.append(os.fork())
            signal.alarm(5 if pids == [0] else 0)
        return 0.0

    ledger = Attachments(clock=clock)
    ledger.received("a1", size_bytes=9, head=b"some text", where="upload")
    try:
        ledger.extracted("a1", Extraction("e1", "text", "reader", State(Status.PENDING, limit_s=1.0)))
    finally:
        if pids == [0]:
            leave(lambda: at_once(lambda: ledger.of("a1") is not None) == [True])
    assert ended(pids[0]) == 0
    assert at_once(lambda: ledger._lock.acquire(timeout=5)) == [True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_waits_for_no_action_of_a_thread_that_it_does_not_have():
    runtime, at_work, goes_on = Runtime(), threading.Event(), threading.Event()

    def execute(_):
        at_work.set()
        goes_on.wait(10)
        return {}

    host = runtime.host(Tool("quotes", 2, SCHEMA, execute=execute, repeatable=False))
    thread = threading.Thread(target=host.run, args=(TURN, action()))
    thread.start()
    assert at_work.wait(10)
    child = os.fork()
    if child == 0:
        # Nobody can tell here whether what that thread had begun came to its end.
        leave(lambda: host.run(TURN, action()).answer.refusal.code == "outcome_unknown")
    status = ended(child)
    busy = host._fittings.lanes.is_busy((TURN.run, "a1"))
    goes_on.set()
    thread.join(10)
    assert status == 0
    assert busy
    assert host.run(TURN, action()).replayed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_the_forking_thread_itself_has_under_way_stays_under_way_in_both_processes():
    lanes, holder, key = Lanes(), object(), ("run-1", "a1")
    assert lanes.enter(key, holder) is None
    child = os.fork()
    if child == 0:
        leave(lambda: lanes.enter(key, object()) is not None)
    assert ended(child) == 0
    assert lanes.is_busy(key)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_waits_for_no_action_of_an_event_loop_that_goes_on_in_its_parent_alone():
    runtime = Runtime()

    async def main():
        at_work, goes_on = asyncio.Event(), asyncio.Event()

        async def execute(_):
            at_work.set()
            await goes_on.wait()
            return {}

        host = runtime.host(Tool("quotes", 2, SCHEMA, execute=execute, repeatable=False))
        task = asyncio.create_task(host.arun(TURN, action()))
        await at_work.wait()
        child = os.fork()
        if child == 0:
            leave(lambda: host.run(TURN, action()).answer.refusal.code == "outcome_unknown")
        status = ended(child)
        goes_on.set()
        assert (await task).answer.ok
        assert (await host.arun(TURN, action())).replayed
        assert status == 0

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tool_that_forks_runs_its_own_action_in_the_forked_process_no_more_than_in_its_own():
    runtime = Runtime()
    executed: list[int] = []

    def is_within_itself():
        try:
            host.run(TURN, action())
        except WithinItself:
            return len(executed) == 1
        return False

    async def execute(_):
        executed.append(os.fork())
        if executed == [0]:
            leave(is_within_itself)
        return {"exit": ended(executed[0])}

    host = runtime.host(Tool("quotes", 2, SCHEMA, execute=execute))
    assert asyncio.run(host.arun(TURN, action())).answer.view == {"exit": 0}
