"""The stack's own processes: started, watched, started again after a crash, and stopped in order."""

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from store.clock import monotonic
from store.up.place import log_of

ROOT: Final = Path(__file__).resolve().parent.parent.parent

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
# A process that ran so long before it fell does not fall at once again.
_STEADY_S: Final = 60.0
_STOP_S: Final = 15.0
_PR_SET_PDEATHSIG: Final = 1

Say = Callable[[str], None]


@dataclass(slots=True)
class Child:
    """One process of ours, kept alive until it is told to stop."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    say: Say
    process: Process | None = None
    falls: int = 0
    stopping: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int | None:
        """Return the id of the process that runs now."""
        return None if self.process is None else self.process.pid

    async def keep(self) -> None:
        """Start it, and start it again with growing pauses whenever it ends by itself."""
        pause_s = _FIRST_PAUSE_S
        while not self.stopping:
            began = monotonic()
            self.process = await self._start()
            code = await self.process.wait()
            if self.stopping:
                return
            # A server's own workers outlive it and would keep its port: they share its group.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.falls += 1
            self.changed.set()
            pause_s = (
                _FIRST_PAUSE_S if monotonic() - began > _STEADY_S else min(2 * pause_s, _LONGEST_PAUSE_S)
            )
            self.say(f"{self.name} {_ended(code)}; started again in {pause_s:g} s (see {self._log()})")
            await asyncio.sleep(pause_s)

    async def stop(self) -> None:
        """Ask it to finish, and end it where it does not."""
        self.stopping = True
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            self.say(f"{self.name} does not stop; it is killed")
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def last_words(self) -> str:
        """Return the last line that it logged."""
        lines = self._log().read_text("utf-8", "replace").splitlines() if self._log().exists() else []
        return lines[-1] if lines else "it said nothing"

    def _log(self) -> Path:
        return log_of(self.directory, self.name)

    async def _start(self) -> Process:
        log = os.open(self._log(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # A session of its own: Ctrl-C reaches us alone, and we stop all in order.
            return await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT,
                env=dict(self.environment), start_new_session=True, preexec_fn=_end_with(os.getpid()),
            )  # fmt: skip
        finally:
            os.close(log)


def _ended(code: int) -> str:
    return f"ended with {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _end_with(parent: int) -> Callable[[], None]:
    """Let the kernel end a child with us, also where we are killed."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def before_exec() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

    return before_exec


# One arena for all threads: with several, bodies that came and went leave each of them as large as its worst moment.
MEMORY: Final = {"MALLOC_ARENA_MAX": "1"}


def commands(
    host: str, port: int, *, duties: bool, console: tuple[str, int] | None = None
) -> dict[str, list[str]]:
    """Return the command line of each process; they are stopped in this order. `console` is where that listens."""
    python = sys.executable
    named = {"api": _served("store.api.app:create_app", host, port)}
    if console is not None:
        named["console"] = _served("console.app:create_app", *console)
    named["writer"] = [python, "-m", "workers", "write"]
    if duties:
        named["duties"] = [python, "-m", "arq", "workers.duties.Settings"]
    # Last, so that it still signs what the others have done.
    named["publisher"] = [python, "-m", "workers", "publish"]
    return named


def _served(app: str, host: str, port: int) -> list[str]:
    return [
        sys.executable, "-m", "granian", "--interface", "asgi", "--factory", "--loop", "uvloop", "--no-ws",
        "--host", host, "--port", str(port), "--workers", "1",
        # Idle connections count against it too: far more of them than requests are worked on at once.
        "--backlog", "4096", "--backpressure", "4096",
        # What a connection may hold of a body that nobody has asked for yet; the headers must fit too.
        "--http1-buffer-size", "18432",
        "--no-access-log", "--log-level", "warning", "--workers-kill-timeout", "10", app,
    ]  # fmt: skip
