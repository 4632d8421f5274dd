"""Done means that the thing is there: an older file, an unrun script and a claim are no evidence."""

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any

import msgspec
import pytest

from custody_toolchain.delivery import (
    Build,
    Changes,
    Command,
    CommandItem,
    Delivered,
    Delivery,
    FileItem,
    Known,
    PredicateItem,
    Started,
    Stopped,
    Verdict,
    as_json,
    as_text,
    diagnose,
)
from custody_toolchain.facts import DeliveryFact, ItemKind, ItemState, encode

SCRIPT = "open('report.json', 'w').write('{\"rows\": 3}')"


def begun(tmp_path, *items, **said):
    return Delivery("run-1", items, folder=tmp_path, **said)


def found(delivery, item="report"):
    report = next(one for one in delivery.check().items if one.item == item)
    return report.state.value, report.code


def run(delivery, *argv, folder, build=None):
    """Run a command as a runtime does: ask, run, say how it ended."""
    allowed = delivery.commands.begin(Command(argv, str(folder)), build=build)
    done = subprocess.run(argv, cwd=folder, check=False, capture_output=True, timeout=30)
    return delivery.commands.end(allowed, exit_code=done.returncode, output=done.stdout + done.stderr)


REPORT = FileItem("report", "report.json", parse=as_json)


# Files


def test_a_file_that_was_made_since_the_start_is_met_with_its_evidence(tmp_path):
    delivery = begun(tmp_path, REPORT)
    assert found(delivery) == ("missing", "not_there")
    (tmp_path / "report.json").write_text('{"rows": 3}')
    (report,) = delivery.check().items
    assert report.state is ItemState.MET
    assert report.kind is ItemKind.FILE
    assert report.evidence.before is None
    assert report.evidence.after is not None
    assert report.evidence.after.size == 11
    assert (report.evidence.opened, report.evidence.parsed) == (True, True)


def test_an_old_file_of_the_right_name_does_not_pass(tmp_path):
    (tmp_path / "report.json").write_text('{"rows": 3}')
    delivery = begun(tmp_path, REPORT)
    assert found(delivery) == ("missing", "older_file")
    os.utime(tmp_path / "report.json")
    assert found(delivery) == ("missing", "older_file"), "touched is not made"
    (tmp_path / "report.json").write_text('{"rows": 4}')
    assert found(delivery) == ("met", None)


def test_an_old_file_that_is_moved_to_the_right_name_does_not_pass(tmp_path):
    old = tmp_path / "last-year.json"
    old.write_text('{"rows": 3}')
    os.utime(old, (time.time() - 3600,) * 2)
    delivery = begun(tmp_path, REPORT)
    old.rename(tmp_path / "report.json")
    assert found(delivery) == ("missing", "older_file")


def test_a_link_to_an_old_file_does_not_pass(tmp_path):
    old = tmp_path / "last-year.json"
    old.write_text('{"rows": 3}')
    delivery = begun(tmp_path, REPORT)
    (tmp_path / "report.json").symlink_to(old)
    assert found(delivery) == ("failed", "link")


def test_a_fresh_folder_is_this_tasks_own(tmp_path):
    folder = tmp_path / "task-1"
    delivery = begun(folder, REPORT, fresh=True)
    (folder / "report.json").write_text("[]")
    assert found(delivery) == ("met", None)
    with pytest.raises(FileExistsError):
        begun(folder, REPORT, fresh=True)


@pytest.mark.parametrize(
    ("item", "data", "state"),
    [
        (REPORT, b"{", ("failed", "not_parsed")),
        (REPORT, b"", ("failed", "too_small")),
        (FileItem("report", "report.json", least_bytes=10), b"short", ("failed", "too_small")),
        (FileItem("report", "report.json", most_bytes=4), b"longer", ("failed", "too_large")),
        (FileItem("report", "report.json", parse=as_text), b"a\0b", ("failed", "not_parsed")),
        (FileItem("report", "report.json", parse=as_text), b" \n", ("failed", "not_parsed")),
        (FileItem("report", "report.json", parse=as_text), "déjà".encode(), ("met", None)),
        (FileItem("report", "report.json"), b"anything", ("met", None)),
        (FileItem("report", "report.json", parse=lambda data: b"x" in data), b"y", ("failed", "not_parsed")),
        (FileItem("report", "report.json", parse=lambda data: b"x" in data), b"x", ("met", None)),
        (
            FileItem("report", "report.json", parse=lambda _: Verdict(ItemState.PARTIAL, "two_of_three")),
            b"x",
            ("partial", "two_of_three"),
        ),
    ],
    ids=lambda case: case[1] if isinstance(case, tuple) else "",
)
def test_what_is_there_is_opened_and_parsed(tmp_path, item, data, state):
    delivery = begun(tmp_path, item)
    (tmp_path / "report.json").write_bytes(data)
    assert found(delivery) == state


def test_a_folder_or_a_pipe_of_that_name_is_no_file(tmp_path):
    delivery = begun(tmp_path, REPORT, FileItem("pipe", "pipe"))
    (tmp_path / "report.json").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert found(delivery) == ("failed", "no_file")
    assert found(delivery, "pipe") == ("failed", "no_file")
    assert begun(tmp_path, FileItem("pipe", "pipe")).started.before == {"pipe": None}


def test_a_resumed_task_keeps_what_was_there_at_its_start(tmp_path):
    (tmp_path / "report.json").write_text("{}")
    saved = msgspec.json.encode(begun(tmp_path, REPORT).started)
    (tmp_path / "report.json").write_text('{"rows": 3}')
    assert found(begun(tmp_path, REPORT)) == ("missing", "older_file"), "begun anew it is an older file"
    resumed = begun(tmp_path, REPORT, started=msgspec.json.decode(saved, type=Started))
    assert found(resumed) == ("met", None)
    with pytest.raises(ValueError, match="another task"):
        Delivery("run-2", [REPORT], folder=tmp_path, started=resumed.started)
    with pytest.raises(ValueError, match="another task"):
        begun(tmp_path, FileItem("more", "more.txt"), started=resumed.started)


# Commands


def script_items(tmp_path):
    argv = (sys.executable, "make.py")
    return CommandItem("make", argv), FileItem("report", "report.json", parse=as_json, made_by="make")


def test_a_script_that_was_written_and_not_run_does_not_pass(tmp_path):
    delivery = begun(tmp_path, *script_items(tmp_path), FileItem("script", "make.py", parse=as_text))
    (tmp_path / "make.py").write_text(SCRIPT)
    assert found(delivery, "script") == ("met", None)
    assert found(delivery, "make") == ("missing", "not_run")
    assert found(delivery) == ("missing", "not_there")
    (tmp_path / "report.json").write_text('{"rows": 3}')
    assert found(delivery) == ("missing", "not_run"), "written by hand is not made by the script"
    (tmp_path / "report.json").unlink()
    run(delivery, sys.executable, "make.py", folder=tmp_path)
    assert delivery.check().state is ItemState.MET


def test_a_run_of_which_the_script_was_changed_since_is_no_evidence(tmp_path):
    delivery = begun(tmp_path, *script_items(tmp_path))
    (tmp_path / "make.py").write_text(SCRIPT)
    run(delivery, sys.executable, "make.py", folder=tmp_path)
    (tmp_path / "make.py").write_text(SCRIPT + "\n")
    assert found(delivery, "make") == ("missing", "changed_since")


def test_a_file_that_was_changed_after_its_run_or_not_made_by_it_is_no_evidence(tmp_path):
    delivery = begun(tmp_path, *script_items(tmp_path))
    (tmp_path / "make.py").write_text("pass")
    (tmp_path / "report.json").write_text('{"rows": 3}')
    run(delivery, sys.executable, "make.py", folder=tmp_path)
    assert found(delivery) == ("missing", "not_made_by_it")
    (tmp_path / "make.py").write_text(SCRIPT)
    (tmp_path / "report.json").unlink()
    run(delivery, sys.executable, "make.py", folder=tmp_path)
    assert found(delivery) == ("met", None)
    run(delivery, sys.executable, "make.py", folder=tmp_path)
    assert found(delivery) == ("met", None), "the same bytes again"
    (tmp_path / "report.json").write_text('{"rows": 5}')
    assert found(delivery) == ("missing", "changed_since")


def writing(data, *more):
    """Return a command line that names what it writes, every time anew."""
    return (
        sys.executable,
        "-c",
        f"import sys, time; open(sys.argv[1], 'w').write({data}); {'; '.join(more)}",
    )


def test_a_command_that_names_what_it_makes_is_met_as_often_as_it_runs(tmp_path):
    argv = (*writing("'[%r]' % time.time()"), "report.json")
    report = FileItem("report", "report.json", parse=as_json, made_by="make")
    delivery = begun(tmp_path, CommandItem("make", argv), report)
    for _ in range(3):
        run(delivery, *argv, folder=tmp_path)
        assert delivery.check().next_turn() == ""
    (tmp_path / "report.json").write_text("[7]")
    assert found(delivery, "make") == found(delivery) == ("missing", "changed_since")
    run(delivery, *argv, folder=tmp_path)
    assert delivery.check().next_turn() == ""
    (tmp_path / "report.json").unlink()
    assert found(delivery, "make") == ("missing", "changed_since")
    assert found(delivery) == ("missing", "not_there")


def test_a_command_that_changes_its_own_input_is_met_until_somebody_else_does(tmp_path):
    (tmp_path / "code.py").write_text("a=1")
    argv = (*writing("'a = 1'"), "code.py")
    delivery = begun(tmp_path, CommandItem("format", argv))
    run(delivery, *argv, folder=tmp_path)
    assert found(delivery, "format") == ("met", None)
    (tmp_path / "code.py").write_text("a = 2")
    assert found(delivery, "format") == ("missing", "changed_since")
    (tmp_path / "code.py").write_text("a=1")
    assert found(delivery, "format") == ("missing", "changed_since"), "that it was changed back counts too"


def made_while(delivery, folder, argv, *, during):
    """Run a command that is under way while something else happens, and writes nothing itself."""
    made = delivery.commands.begin(Command(argv, str(folder)))
    during()
    return delivery.commands.end(made, exit_code=0)


OTHERS = ["a noted write", "a noted write that began before", "another command", "a command that never ended"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("data", ["[1]", "["])
def test_bytes_that_somebody_else_may_have_written_are_attributed_to_nobody(
    tmp_path, monkeypatch, other, data
):
    monkeypatch.chdir(tmp_path)
    argv = (sys.executable, "-c", "pass", "named.txt")
    report = FileItem("report", "report.json", parse=as_json, made_by="make")
    delivery = begun(tmp_path, CommandItem("make", argv), report)
    noted = delivery.changes.writing("./report.json", read=None)
    named = delivery.changes.writing(tmp_path / "named.txt", read=None)
    if other == "a noted write that began before":
        noted.__enter__()
        named.__enter__()
    if other == "a command that never ended":
        delivery.commands.begin(Command(("serve",), str(tmp_path)))

    def during():
        if other == "a noted write":
            noted.__enter__()
            named.__enter__()
        (tmp_path / "report.json").write_text(data)
        (tmp_path / "named.txt").write_text(data)
        if other == "a noted write":
            noted.__exit__(None, None, None)
            named.__exit__(None, None, None)
        if other == "another command":
            ends = delivery.commands.begin(Command(("other",), str(tmp_path)))
            delivery.commands.end(ends, exit_code=0)

    ran = made_while(delivery, tmp_path, argv, during=during)
    assert ran.made == {}
    wanted = ("partial", "maker_unknown")
    assert found(delivery, "make") == wanted
    assert found(delivery) == (wanted if data == "[1]" else ("failed", "not_parsed"))


def test_what_others_did_before_after_or_elsewhere_takes_no_bytes_from_a_command(tmp_path):
    report = FileItem("report", "report.json", parse=as_json, made_by="make")
    argv = (*writing("'[1]'"), "report.json")
    delivery = begun(tmp_path, CommandItem("make", argv), report)
    with delivery.changes.writing(tmp_path / "report.json", read=None):
        (tmp_path / "report.json").write_text("[0]")
    run(delivery, "true", folder=tmp_path)
    made = delivery.commands.begin(Command(argv, str(tmp_path)))
    subprocess.run(argv, cwd=tmp_path, check=True)
    with delivery.changes.writing(tmp_path / "notes.txt", read=None):
        (tmp_path / "notes.txt").write_text("elsewhere")
    delivery.commands.end(made, exit_code=0)
    run(delivery, "true", folder=tmp_path)
    assert delivery.check().next_turn() == ""


def test_a_run_alone_is_evidence_again_after_one_that_was_not(tmp_path):
    report = FileItem("report", "report.json", parse=as_json, made_by="make")
    argv = (*writing("'[%r]' % time.time()"), "report.json")
    delivery = begun(tmp_path, CommandItem("make", argv), report)
    other = delivery.commands.begin(Command(("other",), str(tmp_path)))
    run(delivery, *argv, folder=tmp_path)
    delivery.commands.end(other, exit_code=0)
    assert delivery.check().next_turn() == "make: partial, maker_unknown\nreport: partial, maker_unknown"
    run(delivery, *argv, folder=tmp_path)
    assert delivery.check().next_turn() == ""


def test_more_noted_writes_than_are_kept_are_not_taken_for_none(tmp_path):
    changes = Changes(most=1)
    path = tmp_path / "report.json"
    before = changes.moment()
    assert not changes.written_since(path, before)
    with changes.writing(path, read=None):
        path.write_text("[1]")
    for name in ("a", "b"):
        with changes.writing(tmp_path / name, read=None):
            pass
    assert changes.written_since(path, before)
    now = changes.moment()
    with changes.writing(tmp_path / "c", read=None):
        pass
    assert not changes.written_since(path, now)


def test_a_failed_run_is_no_evidence_also_if_it_wrote_the_file(tmp_path):
    delivery = begun(tmp_path, *script_items(tmp_path))
    (tmp_path / "make.py").write_text(SCRIPT + "; raise SystemExit(3)")
    run(delivery, sys.executable, "make.py", folder=tmp_path)
    report = delivery.check()
    assert [(item.state.value, item.code) for item in report.items] == [
        ("failed", "exit_code"),
        ("missing", "not_run"),
    ]
    assert report.items[0].evidence.exit_code == 3


def test_a_command_that_ended_as_its_item_expects_has_not_failed_and_may_be_run_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = (sys.executable, "-c", "raise SystemExit(3)")
    delivery = Delivery("run-1", [CommandItem("no", argv, cwd="in", exit_code=3)], folder="task", fresh=True)
    (tmp_path / "task" / "in").mkdir()
    (tmp_path / "else").mkdir()
    for _ in range(3):
        assert run(delivery, *argv, folder=tmp_path / "task" / "in").failure is None
        assert found(delivery, "no") == ("met", None)
    # In another folder it is another command, of which nobody expects that.
    assert run(delivery, *argv, folder=tmp_path / "else").failure.exit_code == 3
    assert isinstance(delivery.commands.begin(Command(argv, str(tmp_path / "else"))), Stopped)


def test_a_command_that_was_to_fail_and_did_not_has_failed(tmp_path):
    argv = (sys.executable, "-c", "")
    delivery = begun(tmp_path, CommandItem("no", argv, exit_code=3))
    assert run(delivery, *argv, folder=tmp_path).failure.error_code == "exit_code"
    assert found(delivery, "no") == ("failed", "exit_code")
    assert delivery.commands.begin(Command(argv, str(tmp_path))).code == "unchanged_retry"


def test_the_build_that_ran_a_command_is_part_of_its_evidence(tmp_path):
    argv = (sys.executable, "-c", "pass")
    delivery = begun(tmp_path, CommandItem("make", argv, build_known=True))
    run(delivery, *argv, folder=tmp_path)
    assert found(delivery, "make") == ("partial", "build_unknown")
    build = Build(sys.executable, "0123abc", delivery.started.at)
    run(delivery, *argv, folder=tmp_path, build=build)
    (report,) = delivery.check().items
    assert report.state is ItemState.MET
    assert report.evidence.build == build
    assert report.evidence.started_at is not None


def test_an_item_whose_command_line_is_a_list_is_met_by_its_run(tmp_path):
    argv: Any = [sys.executable, "-c", "pass"]
    delivery = begun(tmp_path, CommandItem("make", argv))
    run(delivery, *argv, folder=tmp_path)
    assert found(delivery, "make") == ("met", None)


def test_a_command_of_another_folder_is_another_command(tmp_path):
    (tmp_path / "other").mkdir()
    argv = (sys.executable, "-c", "pass")
    delivery = begun(tmp_path, CommandItem("make", argv))
    run(delivery, *argv, folder=tmp_path / "other")
    assert found(delivery, "make") == ("missing", "not_run")


# Predicates


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (True, ("met", None)),
        (False, ("missing", "not_so")),
        (Verdict(ItemState.PARTIAL, "three_of_five"), ("partial", "three_of_five")),
        (None, ("failed", "no_verdict")),
        (1, ("failed", "no_verdict")),
        ("done", ("failed", "no_verdict")),
    ],
    ids=str,
)
def test_a_predicate_says_yes_no_or_a_verdict(tmp_path, said, state):
    assert found(begun(tmp_path, PredicateItem("report", lambda: said))) == state


def test_a_predicate_that_raises_says_nothing_of_the_thing(tmp_path):
    assert found(begun(tmp_path, PredicateItem("report", lambda: 1 / 0))) == ("failed", "predicate_raised")


def test_predicates_and_parsers_may_be_awaited(tmp_path):
    async def check():
        await asyncio.sleep(0)
        return True

    async def parse(data):
        await asyncio.sleep(0)
        json.loads(data)

    items = (PredicateItem("holds", check), FileItem("report", "report.json", parse=parse))
    delivery = begun(tmp_path, *items)
    (tmp_path / "report.json").write_text("{}")
    assert asyncio.run(delivery.acheck()).state is ItemState.MET
    assert {item.code for item in delivery.check().items} == {"predicate_raised", "not_parsed"}
    (tmp_path / "report.json").write_text("{")
    assert asyncio.run(delivery.acheck()).state is ItemState.PARTIAL


def test_what_somebody_else_cancelled_is_a_predicate_that_raised(tmp_path):
    async def check():
        other = asyncio.create_task(asyncio.sleep(60))
        other.cancel()
        await other

    delivery = begun(tmp_path, PredicateItem("holds", check))
    assert asyncio.run(delivery.acheck()).items[0].code == "predicate_raised"


# All of them


def test_what_is_missing_is_a_list_for_the_next_turn_and_partial_is_a_state(tmp_path):
    delivery = begun(tmp_path, REPORT, PredicateItem("cited", lambda: True), FileItem("log", "run.log"))
    report = delivery.check()
    assert report.state is ItemState.PARTIAL
    assert [item.item for item in report.missing] == ["report", "log"]
    assert report.next_turn() == "report: missing, not_there\nlog: missing, not_there"
    (tmp_path / "report.json").write_text("[]")
    (tmp_path / "run.log").write_text("done")
    assert delivery.check().state is ItemState.MET
    assert delivery.check().next_turn() == ""


def test_nothing_there_is_missing_and_not_partial(tmp_path):
    assert begun(tmp_path, REPORT, PredicateItem("cited", lambda: False)).check().state is ItemState.MISSING


def test_a_task_that_promised_nothing_is_no_task_that_is_done(tmp_path):
    with pytest.raises(ValueError, match="at least one item"):
        begun(tmp_path / "new", fresh=True)
    assert not (tmp_path / "new").exists()
    assert Delivered(()).state is ItemState.MISSING
    assert diagnose([], delivered=Delivered(())).aims_checked is not Known.YES


def test_items_are_stated_once_and_makers_are_items_too(tmp_path):
    with pytest.raises(ValueError, match="same id"):
        begun(tmp_path, REPORT, REPORT)
    with pytest.raises(ValueError, match="an item too"):
        begun(tmp_path, FileItem("report", "report.json", made_by="make"))
    with pytest.raises(ValueError, match="an item's id"):
        FileItem("../x", "x")


def test_facts_say_states_and_no_content(tmp_path):
    facts: list[DeliveryFact] = []
    secret = PredicateItem("holds", lambda: Verdict(ItemState.FAILED, "the password is hunter2"))
    delivery = begun(tmp_path, REPORT, secret, report=facts.append)
    (tmp_path / "report.json").write_text('{"secret-key": 1}')
    delivery.check(action="a1")
    delivery.check()
    assert [(fact.item, fact.state.value, fact.code) for fact in facts[:2]] == [
        ("report", "met", None),
        ("holds", "failed", "other"),
    ]
    assert [fact.action for fact in facts] == ["a1", "a1", None, None]
    assert facts[0].size == 17
    assert len({fact.fact for fact in facts}) == 4
    for fact in facts:
        assert b"secret" not in encode(fact)
        assert b"hunter2" not in encode(fact)


def test_a_report_that_raises_changes_no_state(tmp_path):
    def raising(_):
        raise ValueError

    delivery = begun(tmp_path, PredicateItem("holds", lambda: True), report=raising)
    assert delivery.check().state is ItemState.MET
    assert delivery.reports_failed == 1
