"""Failures are fields, output is bounded, and nothing is tried again unchanged in vain; changes and diagnosis."""

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.delivery import (
    Begun,
    Change,
    Changes,
    Command,
    CommandItem,
    Commands,
    Delivered,
    Failure,
    ItemReport,
    Known,
    Stopped,
    VersionConflict,
    bounded,
    diagnose,
    version_of,
)
from custody_toolchain.facts import ItemKind, ItemState
from custody_toolchain.tools import Refuse
from toolchain.tests.owned import TURN, Runtime, action

# Retries


def tried(commands, command, work=lambda: None, **ended):
    """Try a command that does some work: how it was stopped, or how it ended."""
    begun = commands.begin(command)
    if isinstance(begun, Stopped):
        return begun
    work()
    return commands.end(begun, **{"exit_code": 1, **ended})


def test_three_unchanged_retries_of_a_failing_command_are_stopped(tmp_path):
    commands = Commands()
    command = Command(("pytest", "-q"), str(tmp_path))
    assert tried(commands, command).failure.error_code == "exit_code"
    stopped = [tried(commands, command) for _ in range(3)]
    assert [stop.code for stop in stopped] == ["unchanged_retry"] * 3
    assert stopped[0].failure.exit_code == 1
    assert len(commands.ran) == 1


def test_a_retryable_failure_has_a_budget(tmp_path):
    commands = Commands(retries=2)
    command = Command(("fetch",), str(tmp_path))
    ended = [
        tried(commands, command, exit_code=None, error_code="timed_out", retryable=True, timeout_ms=5000)
        for _ in range(5)
    ]
    assert [isinstance(end, Stopped) for end in ended] == [False, False, False, True, True]
    assert ended[-1].code == "retry_budget"
    assert ended[-1].failures == 3
    assert ended[0].failure.timeout_ms == 5000


@pytest.mark.parametrize("change", ["argument", "folder", "named file", "declared input", "input is gone"])
def test_a_command_with_anything_changed_is_another_command(tmp_path, change):
    (tmp_path / "make.py").write_text("1")
    (tmp_path / "data.csv").write_text("1")
    (tmp_path / "other").mkdir()
    commands = Commands()
    command = Command(("python", "make.py"), str(tmp_path), ("data.csv",))
    tried(commands, command)
    assert tried(commands, command).code == "unchanged_retry"
    if change == "argument":
        command = Command(("python", "make.py", "-v"), str(tmp_path), ("data.csv",))
    elif change == "folder":
        command = Command(command.argv, str(tmp_path / "other"), command.inputs)
    elif change == "named file":
        (tmp_path / "make.py").write_text("2")
    elif change == "declared input":
        (tmp_path / "data.csv").write_text("2")
    else:
        (tmp_path / "data.csv").unlink()
    assert isinstance(commands.begin(command), Begun)


def test_a_command_line_is_the_same_as_a_list_and_as_a_tuple(tmp_path):
    (tmp_path / "data.csv").write_text("1")
    listed: Any = Command(["make", "it"], str(tmp_path), ["data.csv"])  # type: ignore[arg-type] # as an untyped program might
    command = Command(("make", "it"), str(tmp_path), ("data.csv",))
    assert listed == command
    assert hash(listed) == hash(command)
    commands = Commands(expected=((listed, 3),))
    assert tried(commands, command, exit_code=3).failure is None
    assert tried(commands, listed, exit_code=1).failure is not None
    assert tried(commands, command).code == "unchanged_retry"
    as_list: Any = ["make", "it"]
    assert len(commands.runs(as_list, tmp_path)) == len(commands.runs(command.argv, tmp_path)) == 2


def test_one_text_is_no_list_of_arguments():
    text: Any = "make it"
    for make in (
        lambda: Command(text),
        lambda: Command(("make",), inputs=text),
        lambda: CommandItem("make", text),
        lambda: Commands().runs(text, "."),
    ):
        with pytest.raises(TypeError, match="not one text"):
            make()


def appends(tmp_path):
    """Return a command that names its script and its log, and what it does to the log."""
    (tmp_path / "bad.py").write_text("1")

    def work():
        with (tmp_path / "log.txt").open("a") as log:
            log.write("failed\n")

    return Command(("python", "bad.py", "log.txt"), str(tmp_path)), work


def test_what_a_failing_command_changes_itself_makes_no_other_command_of_it(tmp_path):
    commands = Commands()
    command, work = appends(tmp_path)
    assert tried(commands, command, work).failure is not None
    assert [tried(commands, command, work).code for _ in range(3)] == ["unchanged_retry"] * 3
    (tmp_path / "log.txt").unlink()
    assert tried(commands, command, work).code == "unchanged_retry", "as it was before it failed"
    assert len(commands.ran) == 1


def test_the_budget_of_a_retryable_failure_counts_over_what_the_command_changes_itself(tmp_path):
    commands = Commands(retries=2)
    command, work = appends(tmp_path)
    ended = [tried(commands, command, work, retryable=True) for _ in range(5)]
    assert [isinstance(end, Stopped) for end in ended] == [False, False, False, True, True]
    assert (ended[-1].code, ended[-1].failures) == ("retry_budget", 3)


@pytest.mark.parametrize("changed", ["bad.py", "log.txt"])
def test_what_somebody_changed_after_a_command_did_is_a_change(tmp_path, changed):
    commands = Commands()
    command, work = appends(tmp_path)
    tried(commands, command, work)
    (tmp_path / changed).write_text("mended")
    assert isinstance(commands.begin(command), Begun)


@pytest.mark.parametrize("other", ["a noted write", "another command"])
def test_what_somebody_else_mended_while_a_command_failed_may_be_tried(tmp_path, other):
    changes = Changes()
    commands = Commands(changes=changes)
    command, _ = appends(tmp_path)

    def work():
        script = tmp_path / "bad.py"
        if other == "another command":
            mending = Command(("sed", "-i", "bad.py"), str(tmp_path))
            tried(commands, mending, lambda: script.write_text("mended"), exit_code=0)
            return
        with changes.writing(script, read=version_of(script)):
            script.write_text("mended")

    tried(commands, command, work)
    assert isinstance(tried(commands, command).failure, Failure)
    assert tried(commands, command).code == "unchanged_retry"


def test_a_success_forgets_the_failures_before_it_in_whichever_state_they_were(tmp_path):
    commands = Commands(retries=1)
    command, work = appends(tmp_path)
    tried(commands, command, work, retryable=True)
    tried(commands, command, work, retryable=True, exit_code=0)
    (tmp_path / "log.txt").unlink()
    again = [tried(commands, command, work, retryable=True) for _ in range(3)]
    assert [isinstance(end, Stopped) for end in again] == [False, False, True]


def test_a_success_is_no_failure_and_may_be_run_again(tmp_path):
    commands = Commands()
    command = Command(("true",), str(tmp_path))
    for _ in range(3):
        assert tried(commands, command, exit_code=0).failure is None
    tried(commands, command)
    assert isinstance(commands.begin(command), Stopped)


def test_odd_arguments_are_arguments(tmp_path):
    command = Command(("echo", "a\0b", "x" * 5000, "pear\udce9"), str(tmp_path))
    begun = Commands().begin(command)
    assert isinstance(begun, Begun)
    assert begun.inputs == {}
    with pytest.raises(ValueError, match="name"):
        Command(())


# Failures


def test_a_failure_is_fields():
    commands = Commands()
    begun = commands.begin(Command(("/usr/bin/make", "all")))
    assert isinstance(begun, Begun)
    ran = commands.end(begun, exit_code=2, output=b"x" * 10_000, message="m" * 9000, stage="build")
    assert ran.failure is not None
    assert (ran.failure.tool, ran.failure.stage, ran.failure.error_code) == ("make", "build", "exit_code")
    assert (ran.failure.exit_code, ran.failure.retryable) == (2, False)
    assert len(ran.failure.message) == 512
    assert ran.failure.output is not None
    assert ran.failure.output.cut == (2048, 7952)
    with pytest.raises(ValueError, match="512"):
        Failure("make", "build", "exit_code", retryable=False, message="m" * 513)


def test_without_an_exit_code_a_command_has_failed():
    commands = Commands()
    assert tried(commands, Command(("x",)), exit_code=None).failure.error_code == "no_exit_code"


@given(st.binary(max_size=300), st.integers(2, 100))
def test_output_is_bounded_and_says_what_was_cut(data, most):
    output = bounded(data, most)
    assert output.total_bytes == len(data)
    if len(data) <= most:
        assert output.cut is None
        assert output.text() == data.decode("utf-8", "replace")
        return
    assert output.cut is not None
    start, stop = output.cut
    assert stop - start == len(data) - most
    assert output.head == data[:start].decode("utf-8", "replace")
    assert output.tail == data[stop:].decode("utf-8", "replace")
    assert f"[{stop - start} of {len(data)} bytes cut]" in output.text()


# Changes


def test_a_change_has_the_version_before_and_after(tmp_path):
    path = tmp_path / "a.txt"
    changes = Changes()
    with changes.writing(path, read=None, action="a1"):
        path.write_text("one")
    first = version_of(path)
    with changes.writing(path, read=first):
        path.write_text("two")
    with changes.writing(path, read=version_of(path)):
        path.unlink()
    assert [change.before for change in changes.kept] == [None, first, changes.kept[1].after]
    assert changes.kept[2].after is None
    assert changes.kept[0].action == "a1"


def test_overwriting_demands_the_version_that_was_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    read, changes = version_of(path), Changes()
    with pytest.raises(VersionConflict), changes.writing(path, read=None):
        path.write_text("blind")
    path.write_text("somebody else's")
    with pytest.raises(VersionConflict), changes.writing(path, read=read):
        path.write_text("stale")
    assert path.read_text() == "somebody else's"
    path.unlink()
    with pytest.raises(VersionConflict), changes.writing(path, read=read):
        path.write_text("gone")
    assert not path.exists()
    assert changes.kept == ()


def test_a_writer_that_raises_leaves_a_record_that_says_so(tmp_path):
    path, changes = tmp_path / "a.txt", Changes()

    def write():
        with changes.writing(path, read=None):
            path.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert not changes.kept[0].whole
    assert changes.kept[0].after == version_of(path)


@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["ends", "raises"])
def test_a_change_after_which_the_file_cannot_be_read_is_noted_and_hides_no_error_of_the_writers(
    tmp_path, error
):
    path, changes = tmp_path / "a.txt", Changes()
    path.write_text("one")
    before = version_of(path)

    def write():
        with changes.writing(path, read=before, action="a1"):
            path.unlink()
            path.symlink_to(path)
            if error is not None:
                raise error

    with pytest.raises(OSError if error is None else ZeroDivisionError):
        write()
    assert changes.kept == (Change(str(path), before, None, error is None, "a1", unread=True),)
    assert changes.written_since(path, 0)


def test_what_cannot_be_read_before_is_not_written(tmp_path):
    path, changes, written = tmp_path / "a.txt", Changes(), []
    path.symlink_to(path)
    with pytest.raises(OSError, match="symbolic"), changes.writing(path, read=None):
        written.append(path)
    assert written == []
    assert changes.kept == ()


def test_a_file_that_is_no_regular_file_has_no_version(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert version_of(tmp_path / "pipe") is None
    assert version_of(tmp_path) is None
    assert version_of(tmp_path / "none") is None


# Diagnosis


def facts(prepare=lambda _: None, names=("a1", "a2")):
    runtime = Runtime()
    prepare(runtime)
    host = runtime.host()
    for name in names:
        host.run(TURN, action(name))
    return runtime.facts


def checked(*states):
    return Delivered(tuple(ItemReport(f"i{at}", ItemKind.FILE, state) for at, state in enumerate(states)))


MET = checked(ItemState.MET)


@pytest.mark.parametrize(
    ("told", "planned", "delivered", "first"),
    [
        (facts(), 2, MET, None),
        (facts(), 0, MET, "plan"),
        (facts(), 3, MET, "enough_actions"),
        (facts(lambda it: it.answers.update(admit=False)), 2, MET, "allowed"),
        (facts(lambda it: it.answers.update(reserve=False)), 2, MET, "started"),
        (facts(lambda it: it.fail.update(execute=ValueError())), 2, MET, "result_back"),
        (facts(lambda it: setattr(it, "output", object())), 2, MET, "result_back"),
        (facts(), 2, checked(ItemState.MET, ItemState.MISSING), "aims_checked"),
        (facts(), 2, None, "aims_checked"),
        (facts(), None, MET, "plan"),
        ([], 2, MET, "enough_actions"),
    ],
    ids=[
        "all well", "no plan", "an action never came", "refused", "no budget", "tool failed", "no result",
        "aims missed", "aims unchecked", "plan unknown", "nothing recorded",
    ],
)  # fmt: skip
def test_six_questions_say_where_to_look_first(told, planned, delivered, first):
    assert diagnose(told, planned=planned, delivered=delivered).look_first == first


def test_unknown_is_not_no():
    diagnosis = diagnose([])
    assert diagnosis.plan is Known.UNKNOWN
    assert diagnosis.allowed is Known.UNKNOWN
    assert diagnosis.aims_checked is Known.UNKNOWN
    assert diagnosis.look_first == "plan"


def test_a_part_is_said_with_its_numbers():
    told = facts()

    def refuse(runtime):
        runtime.answers["admit"] = False

    told += facts(refuse, names=("a3",))
    diagnosis = diagnose(told, planned=3, delivered=MET)
    assert (diagnosis.actions, diagnosis.actions_allowed, diagnosis.actions_returned) == (3, 2, 2)
    assert diagnosis.allowed is Known.PARTLY
    assert diagnosis.look_first == "allowed"


def test_a_replayed_action_is_back_also_where_only_the_replay_was_told():
    runtime = Runtime()
    host = runtime.host()
    host.run(TURN, action())
    runtime.facts.clear()
    host.run(TURN, action())
    diagnosis = diagnose(runtime.facts, planned=1, delivered=MET)
    assert diagnosis.look_first is None


def test_a_replayed_refusal_was_not_allowed_and_gave_no_result():
    runtime = Runtime()
    runtime.answers["admit"] = Refuse("not_now")
    host = runtime.host()
    host.run(TURN, action())
    runtime.facts.clear()
    assert host.run(TURN, action()).replayed
    diagnosis = diagnose(runtime.facts, planned=1, delivered=MET)
    assert (diagnosis.actions_allowed, diagnosis.actions_started, diagnosis.actions_returned) == (0, 0, 0)
    assert diagnosis.look_first == "allowed"
