"""What is promised at the start, and what is written at the end: `report.md` and `manifest.json`."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from custody_toolchain.coverage import Coverage
from custody_toolchain.delivery import (
    Command,
    CommandItem,
    Delivery,
    FileItem,
    Item,
    PredicateItem,
    Started,
    Stopped,
    Verdict,
    as_json,
    as_text,
)
from custody_toolchain.facts import ItemState
from custody_toolchain.observing import Report
from custody_toolchain.tools import Receipt

from . import texts
from .journal import Journal
from .tasks import LETTERS, TASKS

_CHECK: Final = (sys.executable, str(Path(__file__).with_name("check_report.py")), "report.md")


def promised(folder: Path, run: str, journal: Journal, coverage: Coverage, report: Report) -> Delivery:
    """State what is to be there; a resumed process takes what the first one had found at the start."""
    items: Sequence[Item] = [
        *(PredicateItem(f"{task.name}-section", _has(journal, task.name)) for task in TASKS),
        PredicateItem("letters-whole", lambda: read_whole(coverage, LETTERS)),
        FileItem("report", "report.md", parse=as_text),
        CommandItem("citations", _CHECK),
        FileItem("manifest", "manifest.json", parse=as_json),
    ]
    started = next((msgspec.convert(each, Started) for each in journal.all("started")), None)
    delivery = Delivery(run, items, folder=folder, started=started, report=report)
    if started is None:
        journal.note("started", delivery.started)
    return delivery


def read_whole(coverage: Coverage, path: str) -> Verdict:
    """Say whether a text was read from its beginning to its end, without a gap."""
    known = coverage.of(path)
    if known is None:
        return Verdict(ItemState.MISSING, "not_read")
    return Verdict(ItemState.MET) if known.whole else Verdict(ItemState.PARTIAL, "gap")


def _has(journal: Journal, section: str) -> Callable[[], bool]:
    return lambda: section in _sections(journal)


def _sections(journal: Journal) -> dict[str, dict[str, Any]]:
    """Return what was written, by section: the arguments of reports whose receipt says that they went well."""
    written = [each for each in journal.receipts if each.tool == "write_report" and each.answer().ok]
    return {each.effective_arguments["section"]: each.effective_arguments for each in written}


def write_report(folder: Path, journal: Journal) -> None:
    """Write one report of all sections, and have its citations looked up."""
    lines = ["# What the texts say", ""]
    sections = _sections(journal)
    for task in TASKS:
        if (section := sections.get(task.name)) is not None:
            lines += [f"## {task.question}", "", section["text"], ""]
            lines += [
                f"{number}. “{each['quote']}” ({each['path']}, byte {each['offset']})"
                for number, each in enumerate(section["citations"], 1)
            ]
            lines.append("")
    (folder / "report.md").write_text("\n".join(lines), encoding="utf-8")


def check_citations(folder: Path, delivery: Delivery) -> None:
    """Run the little program that looks citations up, and note how that ended; not again what failed unchanged."""
    inputs = tuple(str(texts.FOLDER / name) for name in texts.names())
    begun = delivery.commands.begin(Command(_CHECK, str(folder), inputs))
    if isinstance(begun, Stopped):
        return
    done = subprocess.run(_CHECK, cwd=folder, capture_output=True, check=False)  # noqa: S603 - our own program
    delivery.commands.end(begun, exit_code=done.returncode, output=done.stdout + done.stderr)


def write_manifest(
    folder: Path, run: str, journal: Journal, coverage: Coverage, tools: Sequence[str]
) -> None:
    """Write what the report was made of. It holds no times and no paths of this machine: made again, it is the same."""
    report = (folder / "report.md").read_bytes()
    manifest = {
        "run": run,
        "report": {"path": "report.md", "sha256": hashlib.sha256(report).hexdigest()},
        "texts": [texts.described(name) | _read(coverage, name) for name in texts.names()],
        "tools": list(tools),
        "actions": [_told(receipt) for receipt in journal.receipts],
    }
    (folder / "manifest.json").write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


def _read(coverage: Coverage, name: str) -> dict[str, Any]:
    known = coverage.of(name)
    if known is None:
        return {"whole": False, "read": []}
    return {"whole": known.whole, "read": known.ranges, "deviations": known.deviations}


def _told(receipt: Receipt) -> dict[str, Any]:
    """Return what became of an action, without its content."""
    answer = receipt.answer()
    return {
        "action": receipt.action,
        "tool": receipt.tool,
        "executions": receipt.executions,
        "outcome": answer.form if answer.ok else answer.refusal.code if answer.refusal else None,
    }
