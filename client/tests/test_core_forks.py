"""Forks, spawned processes, and the end of a process: each observation once, and nothing hangs."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from custody_client import Custody, forks
from tests.support.scripted import KEY, closing, hanging, scripted, trickling, until
from tests.support.sources import ROOT

# From 3.12 on Python warns of any fork beside a thread; ours takes nothing along over a fork, which is what is shown.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'client' / 'src'}"}


@pytest.fixture
def service():
    with scripted() as found:
        yield found
        found.released.set()


def capture(run, *contents):
    for content in contents:
        run.exchange().attempt().capture_request(content)


def forked(work):
    """Do something in a child, which then ends as interpreters do; return its status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            import atexit  # noqa: PLC0415 - in the child only

            atexit._run_exitfuncs()
            status = 0
        finally:
            os._exit(status)
    until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 10)


def by_session(service):
    found: dict[str, list[bytes]] = {}
    for asked in service.calls("frames"):
        found.setdefault(asked.headers["Custody-Session"], []).extend(frame[2] for frame in asked.frames)
    return found


def test_parent_and_child_deliver_what_is_theirs_once_and_both_sessions_are_named(service, custody):
    run = custody.run("r-1", wait=2)
    capture(run, b"p1", b"p2", b"p3")
    forked(lambda: capture(run, b"c1", b"c2"))
    run.close()
    assert custody.flush(5)
    sessions = by_session(service)
    assert sorted(sessions.values()) == [[b"c1", b"c2"], [b"p1", b"p2", b"p3"]]
    (closed,) = service.closings()
    assert {session: len(parts) for session, parts in sessions.items()} == closed
    assert service.gaps() == {}


def test_a_child_that_closes_the_run_ends_only_its_own_session(service, custody):
    with custody.run("r-1", wait=2) as run:
        capture(run, b"p1")

        def work():
            with run:
                capture(run, b"c1", b"c2")

        forked(work)
        assert service.closings() == []
        capture(run, b"p2")
    assert custody.flush(5)
    assert sorted(by_session(service).values()) == [[b"c1", b"c2"], [b"p1", b"p2"]]
    assert [sorted(closed.values()) for closed in service.closings()] == [[2, 2]]


def test_a_child_whose_parent_is_gone_closes_the_run(service):
    text = (
        "import os, sys, time\nfrom custody_client import Custody\n"
        "run = Custody(sys.argv[1], sys.argv[2]).run('r-1', wait=2)\n"
        "if os.fork():\n    os._exit(0)\n"
        "for _ in range(500):\n    if os.getppid() != run._account.parent: break\n    time.sleep(0.01)\n"
        "run.exchange().attempt().capture_request(b'c1')\nrun.close()\n"
    )
    program = [sys.executable, "-c", text, service.url, KEY]
    subprocess.run(program, env=ENVIRONMENT, timeout=30, check=True)
    assert list(until(service.closings)[0].values()) == [1]


def test_forks_that_only_begin_other_programs_leave_room_for_those_that_capture(service, custody):
    run = custody.run("r-1", wait=2)
    for _ in range(300):
        forks._before()
    assert len(run._account.children) <= 255
    forked(lambda: capture(run, b"c1"))
    run.close()
    until(service.closings)
    assert sorted(service.closings()[0].values()) == [0, 1]


def test_a_child_that_is_killed_is_missed(service, custody):
    run = custody.run("r-1", wait=2)

    def work():
        service.answers["frames"] = closing
        capture(run, b"c1", b"c2")
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        work()
    until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 10)
    run.close()
    until(service.closings)
    assert sorted(service.closings()[0].values()) == [0, 2]


def test_a_child_that_captured_nothing_says_nothing(service, custody):
    run = custody.run("r-1", wait=2)
    capture(run, b"p1")
    forked(lambda: None)
    run.close()
    assert custody.flush(5)
    assert list(service.closings()[0].values()) == [1]
    assert len(service.calls("declare")) == 1


def test_a_child_of_a_refused_run_tells_its_counts(service, custody):
    service.admission |= {"admitted": False, "reason": "not_sampled"}
    run = custody.run("r-1", wait=2)
    capture(run, b"p1")
    forked(lambda: capture(run, b"c1", b"c2", b"c3"))
    run.close()
    assert custody.flush(5)
    (closed,) = service.closings()
    assert sorted(closed.values()) == [1, 3]
    told = [(gap["session"], gap["sequences"]) for each in service.calls("gaps") for gap in each.json["gaps"]]
    assert {session for session, _ in told} == set(closed)
    assert {sequences for _, sequences in told} == {"1", "1-3"}


def test_a_fork_amid_a_request_and_amid_captures_hangs_nobody(service, custody):
    service.answers["frames"] = hanging
    run = custody.run("r-1", wait=2)
    capture(run, b"p1")
    until(lambda: service.calls("frames"))
    with run._account.ledger._lock, custody.office.room.lock:
        # As if another thread of the parent held them at that moment.
        forked(lambda: (capture(run, b"c1", object()), custody.close(timeout=0.3)))
    assert custody.counters().waiting == 1


def test_a_fork_amid_our_own_imports_leaves_nothing_half_imported(service):
    # Where the parent's background thread is in its imports, a child would wait for the end of those for ever.
    text = (
        "import os, sys, time\n"
        "from custody_client import Custody\n"
        "def at(module):\n"
        "    class Slow:\n"
        "        def find_spec(self, name, *_):\n"
        "            if name == module: seen.append(name); time.sleep(0.3)\n"
        "    seen = []\n"
        "    sys.meta_path.insert(0, Slow())\n"
        "    return seen\n"
        "seen = at(sys.argv[1])\n"
        f"custody = Custody({service.url!r}, {KEY!r})\n"
        "custody.run('r-1')\n"
        "while not seen: time.sleep(0.001)\n"
        "if (child := os.fork()) == 0:\n"
        "    import http.client, email.feedparser\n"
        "    os._exit(0)\n"
        "until = time.monotonic() + 5\n"
        "while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until: time.sleep(0.01)\n"
        "if ended[0] == 0: os.kill(child, 9); os.waitpid(child, 0)\n"
        "print('hangs' if ended[0] == 0 else 'ends', ended[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text, "email.feedparser"],
        env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == "ends 0\n"
    assert "Exception ignored" not in done.stderr


def test_a_run_that_the_parent_closes_is_not_the_childs_to_close(service, custody):
    service.answers["close"] = hanging
    run = custody.run("r-1", wait=2)
    capture(run, b"p1")
    run.close()
    until(lambda: service.calls("close"))
    forked(lambda: custody.flush(1))
    assert len(service.calls("close")) == 1


def work_in_process(run):
    capture(run, b"m1", b"m2")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_deliver_at_their_end(service, custody, method):
    context = multiprocessing.get_context(method)
    run = custody.run("r-1", wait=2)
    capture(run, b"p1")
    if method == "fork":
        process = context.Process(target=work_in_process, args=(run,))
        process.start()
    else:
        process = context.Process(target=work_apart, args=(service.url,))
        process.start()
    process.join(20)
    assert process.exitcode == 0
    run.close()
    assert custody.flush(5)
    assert sorted(by_session(service).values()) == [[b"m1", b"m2"], [b"p1"]]


def work_apart(url):
    work_in_process(Custody(url, KEY).run("r-1", wait=2))


# --- whole programs

PROGRAM = """
import sys, time
from custody_client import Custody, forks
custody = Custody(sys.argv[1], sys.argv[2])
run = custody.run("r-1", wait=float(sys.argv[3]))
answers = []
with run:
    for number in range(50):
        with run.exchange().attempt() as attempt:
            attempt.capture_request({"number": number})
            attempt.dispatched()
            answers.append(number * 2)
            attempt.capture_output({"answer": number * 2})
            attempt.settled("completed")
print(sum(answers))
"""


def program(service, text=PROGRAM, wait="0.5"):
    """Run a program; it must end by itself, in time, with its own answers and nothing on its error stream."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text, service.url, KEY, wait],
        env=ENVIRONMENT, capture_output=True, timeout=30, text=True, check=False,
    )  # fmt: skip
    took = time.monotonic() - begun
    assert (done.returncode, done.stdout) == (0, "2450\n"), done.stderr
    return done.stderr, took


def test_a_program_of_fifty_calls_delivers_all_of_them_before_it_ends(service):
    said, _ = program(service)
    assert said == ""
    assert len(service.parts()) == 100
    assert list(service.closings()[0].values()) == [100]


@pytest.mark.parametrize("how", ["gone", "hanging", "trickling", "breaking", "hanging later"])
def test_a_program_ends_by_itself_whatever_the_service_does(service, how):
    if how == "gone":
        service.vanish()
    else:
        replies = {"hanging": hanging, "trickling": trickling, "breaking": closing, "hanging later": hanging}
        for call in ("frames", "gaps", "close") if how == "hanging later" else ("declare",):
            service.answers[call] = replies[how]
    said, took = program(service, wait="0.2")
    # An interpreter starts and imports in much less; the end itself takes at most two.
    assert took < 6
    assert "Traceback" not in said


def test_captures_in_the_last_moment_of_a_process_harm_nothing(service):
    text = PROGRAM + (
        "import atexit\n"
        "late = custody.run('r-2', wait=1).exchange().attempt()\n"
        "late.capture_request({'at': 'exit'})\n"
        "atexit.unregister(__import__('custody_client.forks').forks._leave)\n"
        "atexit.register(lambda: late.capture_output({'later': 'still'}))\n"
        "atexit.register(custody.close)\n"
        "class Dying:\n"
        "    def __del__(self): late.capture_request({'in': 'a finaliser'})\n"
        "dying = Dying()\n"
    )
    said, _ = program(service, text)
    assert said == ""
    assert b'{"at":"exit"}' in {part["body"] for part in service.parts()}
    assert len(service.parts()) == 101


def test_importing_costs_little_and_brings_no_provider_and_no_http():
    text = (
        "import sys\nbefore = set(sys.modules)\nimport custody_client\n"
        "print(' '.join(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=30
    )
    brought = set(done.stdout.split())
    slow = {
        "http.client",
        "ssl",
        "socket",
        "email",
        "logging",
        "asyncio",
        "selectors",
        "urllib.parse",
        "random",
    }
    assert not brought & (
        slow | {"openai", "anthropic", "httpx", "httpx2", "google", "litellm", "opentelemetry"}
    )
    assert "msgspec" in brought


def test_the_background_thread_says_nothing_any_more_once_the_process_may_end(service, caplog):
    # A daemon thread that holds the error stream while the interpreter ends takes the process down with it.
    service.answers["declare"] = hanging
    custody = Custody(service.url, KEY)
    custody.run("r-1").exchange().attempt().capture_request({"a": 1})
    custody.close(0.4)
    said = len(caplog.records)
    custody.office.trouble.note("late", "noted after the end")
    custody.office.trouble.say()
    assert len(caplog.records) == said
