"""Commands: which were run, by which build, on which inputs, and which are not run again unchanged."""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from custody_toolchain.delivery.changes import Changes
from custody_toolchain.delivery.failures import Failure, Output, bounded
from custody_toolchain.delivery.files import version_of
from custody_toolchain.facts import now
from custody_toolchain.locking import OneAtATime

_RETRIES: Final = 2
_MOST_KEPT: Final = 1024
_MOST_MESSAGE: Final = 512


def in_order(texts: Iterable[str]) -> tuple[str, ...]:
    """Return arguments or paths as a tuple: a list of the same is the same. TypeError for one text."""
    if isinstance(texts, str):
        raise TypeError("arguments are several texts, not one text")
    return tuple(texts)


class Command(msgspec.Struct, frozen=True):
    """A command line, where it runs, and which files it depends on besides those that its arguments name."""

    argv: tuple[str, ...]
    cwd: str = "."
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "argv", in_order(self.argv))
        msgspec.structs.force_setattr(self, "inputs", in_order(self.inputs))
        if not self.argv:
            raise ValueError("a command has at least a name")


class Build(msgspec.Struct, frozen=True):
    """What ran a command: where its program is, of which commit, and when that process was started."""

    path: str
    commit: str | None = None
    started_at: datetime | None = None


class Begun(msgspec.Struct, frozen=True):
    """A command that may run now; `inputs`: the files it depends on, with their SHA-256 (None: not readable)."""

    command: Command
    number: int
    inputs: dict[str, str | None]
    started_at: datetime
    build: Build | None = None


class Ran(msgspec.Struct, frozen=True):
    """A command that has ended: with an exit code, or with a failure before it had one."""

    begun: Begun
    ended_at: datetime
    exit_code: int | None
    output: Output
    failure: Failure | None = None
    # Watched files that have changed while this ran: path -> SHA-256 afterwards. Nobody else is known to have written
    # those in `made`; of the others somebody may have.
    made: dict[str, str] = {}
    maker_unknown: dict[str, str] = {}
    # The files it depends on, as they were at its end; and those that somebody else may have changed while it ran.
    inputs_after: dict[str, str | None] = {}
    inputs_disputed: frozenset[str] = frozenset()

    @property
    def inputs_unchanged(self) -> bool:
        """Whether every file that it depended on is still as it was; one that it changed itself: as it left it."""
        return inputs_of(self.begun.command) == self.inputs_after


class Stopped(msgspec.Struct, frozen=True):
    """A command that is not to run: `unchanged_retry` or `retry_budget`, and the failure that it had."""

    code: str
    failure: Failure
    failures: int


class _Tries(msgspec.Struct):
    failures: int = 0
    last: Failure | None = None


class _UnderWay(msgspec.Struct):
    """A command that has begun: watched files before it, since when, and whether no other was under way with it."""

    watched: dict[str, str | None]
    moment: int
    alone: bool


class Commands(OneAtATime):
    """A ledger of commands.

    Promised: a command that failed and is not retryable is not begun again while its line, folder and inputs are the
    same; one that is retryable is begun again at most `retries` times. Inputs are the files it was declared to depend
    on and those that its arguments name; as the command left them they are the same, too. Not promised: that nothing
    else has changed (environment, network, clock), nor who changed a file: what changes while a command runs counts as
    changed by it, unless another command is under way at the same time, or `changes` noted a write of that file.
    Commands may begin and end on any thread; one that never ends is under way for ever.
    """

    def __init__(
        self,
        *,
        retries: int = _RETRIES,
        watched: tuple[str, ...] = (),
        expected: tuple[tuple[Command, int], ...] = (),
        changes: Changes | None = None,
    ) -> None:
        """`watched`: files of which it is noted whether a command has changed them; `changes`: who else writes files.

        `expected`: with which exit code a command line in a folder is to end (with one of several, if it is there more
        than once); all others with 0.
        """
        super().__init__()
        self._retries = retries
        self._watched = watched
        self._expected = expected
        self._tries: dict[str, _Tries] = {}
        self._number = 0
        self._changes = changes if changes is not None else Changes()
        self._under_way: dict[int, _UnderWay] = {}
        self._ended = 0
        self.ran: list[Ran] = []

    def begin(self, command: Command, *, build: Build | None = None) -> Begun | Stopped:
        """Ask whether a command may run, right before it does; whoever is told Stopped changes something first."""
        # Files are read outside the lock: others need not wait for that.
        moment = self._changes.moment()
        with self._lock:
            ended = self._ended
        inputs = inputs_of(command)
        fingerprint = _fingerprint(command, inputs)
        with self._lock:
            stopped = self._stopped(fingerprint)
        if stopped is not None:
            return stopped
        before = _hashes(self._watched)
        with self._lock:
            self._number += 1
            number = self._number
            alone = not self._under_way and self._ended == ended
            for other in self._under_way.values():
                other.alone = False
            self._under_way[number] = _UnderWay(before, moment, alone)
            _bound(self._under_way)
        return Begun(command, number, inputs, now(), build)

    def _stopped(self, fingerprint: str) -> Stopped | None:
        tries = self._tries.get(fingerprint)
        if tries is None or tries.last is None:
            return None
        if not tries.last.retryable:
            return Stopped("unchanged_retry", tries.last, tries.failures)
        if tries.failures > self._retries:
            return Stopped("retry_budget", tries.last, tries.failures)
        return None

    def end(
        self,
        begun: Begun,
        *,
        exit_code: int | None = None,
        output: bytes = b"",
        error_code: str | None = None,
        retryable: bool = False,
        message: str = "",
        timeout_ms: int | None = None,
        stage: str = "run",
    ) -> Ran:
        """Note how a command ended.

        It failed if its exit code is not the expected one, or there is none, or `error_code` is said.
        """
        shown = bounded(output)
        failure = None
        if error_code is not None or exit_code not in self._expected_of(begun.command):
            failure = Failure(
                tool=Path(begun.command.argv[0]).name,
                stage=stage,
                error_code=error_code or ("exit_code" if exit_code is not None else "no_exit_code"),
                retryable=retryable,
                message=message[:_MOST_MESSAGE],
                exit_code=exit_code,
                timeout_ms=timeout_ms,
                output=shown,
            )
        ran = self._with_files(Ran(begun, now(), exit_code, shown, failure))
        before = _fingerprint(begun.command, begun.inputs)
        after = _fingerprint(begun.command, _left_by(ran))
        with self._lock:
            self.ran = [*self.ran[-_MOST_KEPT + 1 :], ran]
            self._remember(before, after, failure)
        return ran

    def runs(self, argv: tuple[str, ...], cwd: str | Path) -> list[Ran]:
        """Return all runs of this command line in this folder, oldest first."""
        line = in_order(argv)
        return [ran for ran in self.ran if _is_line(ran.begun.command, line, cwd)]

    def _expected_of(self, command: Command) -> set[int]:
        codes = {code for known, code in self._expected if _is_line(known, command.argv, command.cwd)}
        return codes or {0}

    def _with_files(self, ran: Ran) -> Ran:
        """Say which files have changed, and of which of them nobody else is known to be the author."""
        begun = ran.begun
        inputs, watched = inputs_of(begun.command), _hashes(self._watched)
        with self._lock:
            # Only now: who begins while files are read is under way with it.
            under_way = self._under_way.pop(begun.number, None)
            self._ended += 1
        here = Path(begun.command.cwd)
        changed = _changed(begun.inputs, inputs)
        disputed = frozenset(path for path in changed if self._is_disputed(under_way, here / path))
        before = under_way.watched if under_way is not None else watched
        made = {path: sha for path, sha in watched.items() if sha is not None and sha != before[path]}
        others = {path: sha for path, sha in made.items() if self._is_disputed(under_way, Path(path))}
        return msgspec.structs.replace(
            ran,
            made={path: sha for path, sha in made.items() if path not in others},
            maker_unknown=others,
            inputs_after=inputs,
            inputs_disputed=disputed,
        )

    def _is_disputed(self, under_way: _UnderWay | None, path: Path) -> bool:
        if under_way is None or not under_way.alone:
            return True
        return self._changes.written_since(path, under_way.moment)

    def _remember(self, before: str, after: str, failure: Failure | None) -> None:
        tries = self._tries.get(before)
        if failure is None:
            if tries is not None:
                # For all states of its files in which it was tried.
                tries.last = None
            return
        if tries is None or tries.last is None:
            tries = self._tries[before] = _Tries()
        tries.failures += 1
        tries.last = failure
        known = self._tries.get(after)
        if known is None or known.last is None:
            self._tries[after] = tries
        _bound(self._tries)


def _changed(before: dict[str, str | None], after: dict[str, str | None]) -> set[str]:
    """Return which files are there no more, or only now, or have other bytes."""
    return {path for path, _ in before.items() ^ after.items()}


def _left_by(ran: Ran) -> dict[str, str | None]:
    """Return its inputs as the command left them; what somebody else may have changed is as it was before."""
    before = {path: sha for path, sha in ran.begun.inputs.items() if path in ran.inputs_disputed}
    after = {path: sha for path, sha in ran.inputs_after.items() if path not in ran.inputs_disputed}
    return before | after


def _bound(kept: dict[int, _UnderWay] | dict[str, _Tries]) -> None:
    while len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]  # type: ignore[arg-type] # its own key


def _is_line(command: Command, argv: tuple[str, ...], cwd: str | Path) -> bool:
    return command.argv == argv and Path(command.cwd).absolute() == Path(cwd).absolute()


def inputs_of(command: Command) -> dict[str, str | None]:
    """Return the files on which a command depends, as they are now."""
    here = Path(command.cwd)
    named = [argument for argument in command.argv if _is_file(here, argument)]
    paths = dict.fromkeys([*named, *command.inputs])
    return {path: _sha256(here / path) for path in paths}


def _is_file(here: Path, argument: str) -> bool:
    try:
        return (here / argument).is_file()
    except (OSError, ValueError):
        # Too long for a path, or with a NUL: an argument, and no file.
        return False


def _sha256(path: Path) -> str | None:
    try:
        version = version_of(path)
    except OSError:
        # What we may not read is no input that we could compare, and no evidence.
        return None
    return version.sha256 if version is not None else None


def _hashes(paths: tuple[str, ...]) -> dict[str, str | None]:
    return {path: _sha256(Path(path)) for path in paths}


def _fingerprint(command: Command, inputs: dict[str, str | None]) -> str:
    # Not by msgspec: a file's name need not be Unicode, and Python has half a surrogate pair for what is none in it.
    told = json.dumps([command.argv, str(Path(command.cwd).absolute()), sorted(inputs.items())])
    return hashlib.sha256(told.encode()).hexdigest()
