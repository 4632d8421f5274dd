"""The table that a person enjoys, and the one JSON object that a program reads."""

import json
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from demo.agent import Story
from demo.reviewer import Finding


def show(console: Console, story: Story, findings: Sequence[Finding]) -> None:
    """Print what was played and what became of it."""
    scenes = Table(title="What the agent did", title_justify="left", show_edge=False, pad_edge=False)
    scenes.add_column("scene", style="bold")
    scenes.add_column("what came of it")
    for scene, outcome in story.scenes:
        scenes.add_row(scene, outcome)
    console.print(scenes)
    console.print()
    console.print(_table(findings))


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(
        title="What a reviewer finds", title_justify="left", show_edge=False, pad_edge=False, show_footer=True
    )
    table.add_column("run", "all", style="bold")
    for name, figure in (
        ("posted", sum(each.posted for each in findings)),
        ("stored", sum(each.stored for each in findings)),
        ("readable now", sum(each.readable for each in findings)),
    ):
        table.add_column(name, str(figure), justify="right")
    for name, counts in (
        ("not captured, and why", sum((each.not_captured for each in findings), Counter())),
        ("stored, but not readable, and why", sum((each.unreadable for each in findings), Counter())),
    ):
        table.add_column(name, _words(counts), no_wrap=True)
    for each in findings:
        table.add_row(
            each.run,
            str(each.posted),
            str(each.stored),
            str(each.readable),
            _words(each.not_captured),
            _words(each.unreadable),
        )
    return table


def _words(counts: Counter[str]) -> str:
    return "\n".join(f"{reason} {count}" for reason, count in sorted(counts.items())) or "·"


def summary(findings: Sequence[Finding], seconds: float) -> str:
    """One JSON object on one line; every observation is in exactly one of stored, not captured, unaccounted."""
    posted = sum(each.posted for each in findings)
    readable = sum(each.readable for each in findings)
    different = sum(each.different for each in findings)
    return json.dumps(
        {
            "posted": posted,
            "stored": sum(each.stored for each in findings),
            "not_captured": dict(sum((each.not_captured for each in findings), Counter())),
            "lost_by_the_agent": dict(sum((each.lost for each in findings), Counter())),
            "unaccounted": sum(each.unaccounted for each in findings),
            "read_back": readable,
            "read_back_identical": readable - different,
            "unreadable": dict(sum((each.unreadable for each in findings), Counter())),
            "seconds": round(seconds, 1),
        }
    )


def faults(findings: Sequence[Finding]) -> list[str]:
    """Say what does not add up; an empty list means that everything is accounted for."""
    said = []
    for each in findings:
        missing = each.posted - each.stored - each.not_captured.total()
        if missing:
            said.append(f"{each.run}: {missing} observations have no outcome")
        if each.readable + each.unreadable.total() != each.stored:
            said.append(f"{each.run}: a stored part was neither read nor refused with a reason")
        if each.different:
            said.append(f"{each.run}: {each.different} parts read back different bytes")
        if each.recorded != each.not_captured + each.lost:
            said.append(f"{each.run}: the store recorded {_words(each.recorded)} as missing")
        if each.unaccounted:
            said.append(f"{each.run}: {each.unaccounted} numbers are unaccounted for")
    return said
