"""Whether what was promised at the start is there, with evidence of this task."""

import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from custody_toolchain.delivery.changes import Changes
from custody_toolchain.delivery.commands import Command, Commands, Ran
from custody_toolchain.delivery.files import FileVersion, opened, version_of, version_of_bytes
from custody_toolchain.delivery.items import (
    CommandItem,
    Delivered,
    Evidence,
    FileItem,
    Item,
    ItemReport,
    PredicateItem,
    Started,
    Verdict,
)
from custody_toolchain.driving import Steps, adrive, ask, drive
from custody_toolchain.facts import DeliveryFact, ItemKind, ItemState, code_of, fact_id, now
from custody_toolchain.ids import checked_id
from custody_toolchain.observing import Guarded, Report

# Some file systems note times in steps of two seconds.
_CLOCK_STEP_S: Final = 2.0


class _Found(Exception):
    """An item's state is known, and no further step is needed."""

    def __init__(self, state: ItemState, code: str | None, evidence: Evidence) -> None:
        super().__init__(code)
        self.state = state
        self.code = code
        self.evidence = evidence


class Delivery:
    """Acceptance items of one task, stated at its start.

    Promised: a file counts only if it was made or changed since the start, a command only if it was run here, with the
    exit code that was asked for and with inputs that are still the same, or as it left them; what is not met is listed
    with a closed word. Not promised: that the content is right beyond what the given parsers and predicates look at;
    nor who wrote a file: what changes while a command runs is its own where nobody else is known to be at work.
    """

    def __init__(
        self,
        run: str,
        items: Sequence[Item],
        *,
        folder: str | Path = ".",
        fresh: bool = False,
        started: Started | None = None,
        retries: int = 2,
        report: Report | None = None,
    ) -> None:
        """State the items, of which there is at least one (ValueError), and look at what is there now.

        `folder` is where paths and working folders begin; `fresh`: make it, FileExistsError if it is there. `started`:
        what the process before this one had found at the start, where a task is resumed.
        """
        checked_id(run, "a run's id")
        self._items = tuple(items)
        _stated_once(self._items)
        self._folder = Path(folder)
        if fresh:
            self._folder.mkdir(parents=True)
        paths = [item.path for item in self._items if isinstance(item, FileItem)]
        self.started = started or Started(
            run, now(), {path: version_of(self._folder / path) for path in paths}
        )
        if self.started.run != run or not self.started.before.keys() >= set(paths):
            raise ValueError("what was found at the start is of another task")
        self.changes = Changes()
        self.commands = Commands(
            retries=retries,
            watched=tuple(str(self._folder / path) for path in paths),
            expected=tuple(
                _expected(item, self._folder) for item in self._items if isinstance(item, CommandItem)
            ),
            changes=self.changes,
        )
        self._guarded = Guarded(report)
        self._session = secrets.token_hex(4)
        self._checks = 0

    @property
    def reports_failed(self) -> int:
        """How many times the report raised; no item has another state for it."""
        return self._guarded.failed

    def check(self, *, action: str | None = None) -> Delivered:
        """Look at every item; what parsers and predicates raise is a state of their item. Files are read and hashed."""
        return drive(self._check(action))

    async def acheck(self, *, action: str | None = None) -> Delivered:
        """Do the same, and await what predicates and parsers give; files are read on the loop."""
        return await adrive(self._check(action))

    def _check(self, action: str | None) -> Steps[Delivered]:
        if action is not None:
            checked_id(action, "an action's id")
        self._checks += 1
        reports = []
        for item in self._items:
            found = yield from self._look(item)
            reports.append(found)
            self._tell(found, action, self._checks)
        return Delivered(tuple(reports))

    def _look(self, item: Item) -> Steps[ItemReport]:
        kind = _kind(item)
        try:
            if isinstance(item, FileItem):
                yield from self._file(item)
            elif isinstance(item, CommandItem):
                self._command(item)
            else:
                yield from _predicate(item)
        except _Found as found:
            return ItemReport(item.id, kind, found.state, found.code, found.evidence)
        raise AssertionError("every item is found in some state")

    def _file(self, item: FileItem) -> Steps[None]:
        before = self.started.before[item.path]
        evidence = Evidence(before=before)
        path = self._folder / item.path
        self._of_this_task(path, evidence)
        try:
            data = _read(path, item.most_bytes)
        except OSError:
            raise _Found(ItemState.FAILED, "not_opened", evidence) from None
        if len(data) > item.most_bytes:
            raise _Found(ItemState.FAILED, "too_large", Evidence(before=before, opened=True))
        after = version_of_bytes(data)
        evidence = Evidence(before=before, after=after, opened=True)
        if after == before:
            raise _Found(ItemState.MISSING, "older_file", evidence)
        if after.size < item.least_bytes:
            raise _Found(ItemState.FAILED, "too_small", evidence)
        maker_known = item.made_by is None or self._made_by(item, item.made_by, after, evidence)
        try:
            yield from _parsed(item, data, Evidence(before=before, after=after, opened=True, parsed=True))
        except _Found as found:
            if found.state is ItemState.MET and not maker_known:
                raise _Found(ItemState.PARTIAL, "maker_unknown", found.evidence) from None
            raise

    def _of_this_task(self, path: Path, evidence: Evidence) -> None:
        """Refuse what a name leads to that is no file of this task: nothing, a link, a file from before the start."""
        try:
            found = path.lstat()
        except OSError:
            raise _Found(ItemState.MISSING, "not_there", evidence) from None
        if not stat.S_ISREG(found.st_mode):
            code = "link" if stat.S_ISLNK(found.st_mode) else "no_file"
            raise _Found(ItemState.FAILED, code, evidence)
        if found.st_mtime < self.started.at.timestamp() - _CLOCK_STEP_S:
            # Moved here, say: it was not there before, and is older all the same.
            raise _Found(ItemState.MISSING, "older_file", evidence)

    def _made_by(self, item: FileItem, maker: str, after: FileVersion, evidence: Evidence) -> bool:
        """Refuse bytes that were not written during a run of that command; say whether nobody else may have."""
        command = next(other for other in self._items if other.id == maker)
        runs = self._runs_of(command) if isinstance(command, CommandItem) else []
        if not runs:
            raise _Found(ItemState.MISSING, "not_run", evidence)
        path = str(self._folder / item.path)
        # A later run that wrote the very same bytes again has changed nothing.
        changed = [ran for ran in runs if path in ran.made or path in ran.maker_unknown]
        if not changed:
            raise _Found(ItemState.MISSING, "not_made_by_it", evidence)
        made = changed[-1].made.get(path)
        if after.sha256 not in {made, changed[-1].maker_unknown.get(path)}:
            raise _Found(ItemState.MISSING, "changed_since", evidence)
        return made is not None

    def _runs_of(self, item: CommandItem) -> list[Ran]:
        """Return the runs of a command that ended as they should, oldest first."""
        every = self.commands.runs(item.argv, self._folder / item.cwd)
        return [ran for ran in every if ran.exit_code == item.exit_code]

    def _command(self, item: CommandItem) -> None:
        runs = self.commands.runs(item.argv, self._folder / item.cwd)
        if not runs:
            raise _Found(ItemState.MISSING, "not_run", Evidence())
        ran = runs[-1]
        evidence = Evidence(
            exit_code=ran.exit_code,
            started_at=ran.begun.started_at,
            ended_at=ran.ended_at,
            build=ran.begun.build,
        )
        if ran.exit_code != item.exit_code:
            code = "exit_code" if ran.exit_code is not None else "no_exit_code"
            raise _Found(ItemState.FAILED, code, evidence)
        if not ran.inputs_unchanged:
            raise _Found(ItemState.MISSING, "changed_since", evidence)
        if ran.inputs_disputed:
            raise _Found(ItemState.PARTIAL, "maker_unknown", evidence)
        if item.build_known and ran.begun.build is None:
            raise _Found(ItemState.PARTIAL, "build_unknown", evidence)
        raise _Found(ItemState.MET, None, evidence)

    def _tell(self, found: ItemReport, action: str | None, number: int) -> None:
        after = found.evidence.after
        self._guarded.tell(
            lambda: DeliveryFact(
                fact=fact_id("delivery", found.item, self._session, number),
                at=now(),
                item=found.item,
                kind=found.kind,
                state=found.state,
                code=code_of(found.code),
                size=after.size if after is not None else None,
                exit_code=found.evidence.exit_code,
                action=action,
            )
        )


def _stated_once(items: tuple[Item, ...]) -> None:
    if not items:
        raise ValueError("a task promises at least one item: of nothing nobody can say that it is done")
    ids = [item.id for item in items]
    if len(set(ids)) != len(ids):
        raise ValueError("two items have the same id")
    commands = {item.id for item in items if isinstance(item, CommandItem)}
    makers = {item.made_by for item in items if isinstance(item, FileItem)} - {None}
    if not makers <= commands:
        raise ValueError("a file is made by a command that is an item too")


def _expected(item: CommandItem, folder: Path) -> tuple[Command, int]:
    return Command(item.argv, str(folder / item.cwd)), item.exit_code


def _kind(item: Item) -> ItemKind:
    if isinstance(item, FileItem):
        return ItemKind.FILE
    return ItemKind.COMMAND if isinstance(item, CommandItem) else ItemKind.PREDICATE


def _read(path: Path, most: int) -> bytes:
    """Read a regular file, and no more than one byte beyond what is parsed; never through a link."""
    with opened(path, follow=False) as file:
        return file.read(most + 1)


def _parsed(item: FileItem, data: bytes, evidence: Evidence) -> Steps[None]:
    if item.parse is None:
        raise _Found(ItemState.MET, None, _but(evidence, parsed=None))
    try:
        said = yield from ask(item.parse, data)
    except Exception:  # noqa: BLE001 - whatever a parser raises, it was not parsed
        raise _Found(ItemState.FAILED, "not_parsed", _but(evidence, parsed=False)) from None
    if isinstance(said, Verdict):
        raise _Found(said.state, said.code, evidence)
    if said is False:
        # A check in a parser's place, say: its no is no yes.
        raise _Found(ItemState.FAILED, "not_parsed", _but(evidence, parsed=False))
    raise _Found(ItemState.MET, None, evidence)


def _but(evidence: Evidence, *, parsed: bool | None) -> Evidence:
    return Evidence(before=evidence.before, after=evidence.after, opened=True, parsed=parsed)


def _predicate(item: PredicateItem) -> Steps[None]:
    try:
        said: Any = yield from ask(item.check)
    except Exception:  # noqa: BLE001 - a predicate that fails says nothing of the thing
        raise _Found(ItemState.FAILED, "predicate_raised", Evidence()) from None
    if isinstance(said, Verdict):
        raise _Found(said.state, said.code, Evidence())
    if said is True:
        raise _Found(ItemState.MET, None, Evidence())
    if said is False:
        raise _Found(ItemState.MISSING, "not_so", Evidence())
    raise _Found(ItemState.FAILED, "no_verdict", Evidence())
