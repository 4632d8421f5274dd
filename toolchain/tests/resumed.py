"""A small runtime with its records in files, which can be killed: `python -m toolchain.tests.resumed FOLDER [WHERE]`.

It runs three actions and writes `report.json`. WHERE is `mark-2` or `receipt-2`, say: SIGKILL comes right after the
second mark, or the second receipt, was saved; `tool-2`: while the tool is at work for the second time.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from custody_toolchain.tools import (
    ALLOW,
    Action,
    Call,
    Owner,
    Project,
    Projected,
    Proposed,
    Receipt,
    Settlement,
    Tool,
    ToolHost,
    Turn,
)

SCHEMA = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}


class Files:
    """Receipts, reservations and a log of what was done, each durable before it returns."""

    def __init__(self, folder: Path, where: str) -> None:
        self.folder = folder
        self.where = where
        self.seen: dict[str, int] = {}

    def note(self, name: str, what: str) -> None:
        with (self.folder / f"{name}.log").open("a") as log:
            log.write(f"{what}\n")
            log.flush()
            os.fsync(log.fileno())

    def reached(self, point: str) -> None:
        self.seen[point] = self.seen.get(point, 0) + 1
        if self.where == f"{point}-{self.seen[point]}":
            os.kill(os.getpid(), signal.SIGKILL)

    def load(self, run: str, action: str, /) -> Receipt | None:
        path = self.folder / f"{run}.{action}.json"
        return msgspec.json.decode(path.read_bytes(), type=Receipt) if path.exists() else None

    def save(self, receipt: Receipt, /) -> None:
        path = self.folder / f"{receipt.run}.{receipt.action}.json"
        path.with_suffix(".new").write_bytes(msgspec.json.encode(receipt))
        path.with_suffix(".new").replace(path)
        self.reached("receipt" if receipt.finished else "mark")

    def reserve(self, reservation: str, _: Call, /) -> Any:
        self.note("reserved", reservation)
        return ALLOW

    def settle(self, settlement: Settlement, /) -> None:
        self.note("closed", settlement.reservation)

    def release(self, reservation: str, /) -> None:
        self.note("closed", reservation)

    def is_open(self, reservation: str, /) -> bool:
        return reservation in self.read("reserved") and reservation not in self.read("closed")

    def read(self, name: str) -> list[str]:
        path = self.folder / f"{name}.log"
        return path.read_text().splitlines() if path.exists() else []


def host_of(files: Files, *, repeatable: bool, version: int) -> ToolHost:
    def execute(call: Call) -> Any:
        files.note("executed", call.action)
        files.reached("tool")
        return {"page": call.arguments["page"], "lines": ["one", "two", "three"]}

    def before(proposed: Proposed) -> None:
        files.note("before", proposed.action)

    def after(seen: Projected) -> Project:
        files.note("after", seen.action)
        return Project({**seen.view, "lines": seen.view["lines"][:2]})

    tool = Tool("read_page", version, SCHEMA, execute, repeatable=repeatable)
    owner = Owner(lambda *_: ALLOW, lambda *_: ALLOW, files, files)
    return ToolHost(owner, {tool.name: tool}, before=[before], after=[after])


def main(folder: Path, where: str = "", *options: str) -> None:
    files = Files(folder, where)
    version = 2 if "newer" in options else 1
    host = host_of(files, repeatable="once" not in options, version=version)
    outcomes = [
        host.run(Turn("run-1"), Action(f"a{page}", "read_page", {"page": page}, f"call-{page}"))
        for page in (1, 2, 3)
    ]
    report = [outcome.answer for outcome in outcomes]
    (folder / "report.json").write_bytes(msgspec.json.encode(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
