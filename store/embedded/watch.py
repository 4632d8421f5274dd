"""Starts one server and stops it when standard input closes: the life line of whoever started us.

Run as a script, with nothing but the standard library. A pipe, and not only the kernel's parent-death signal, because
that signal follows the *thread* that forked, and is forgotten where a process changes its user.
"""

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIFE_LINE = 0


def run(spec: dict[str, Any]) -> int:
    """Start `spec["command"]`, write its pid, and stay until it or our own parent is gone."""
    wake = _wake_on_child_exit()
    child = _start(spec)
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    while child.poll() is None:
        ready, _, _ = select.select([_LIFE_LINE, wake], [], [])
        if _LIFE_LINE in ready:  # nobody ever writes there: readable means closed
            return _stop(child, spec["stop_signal"], spec["grace_s"])
        os.read(wake, 512)
    return child.returncode


def _wake_on_child_exit() -> int:
    """Make the end of a child readable on a file descriptor, so that one `select` waits for everything."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _start(spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    watcher = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def before_exec() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold what is in memory
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, spec["stop_signal"])
            if os.getppid() != watcher:
                os._exit(1)

    return subprocess.Popen(
        spec["command"],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        cwd=spec["directory"],
        env=spec["environment"],
        pass_fds=spec["keep_fds"],
        preexec_fn=before_exec,  # noqa: PLW1509 - there is one thread here
        **spec["account"],
    )


def _stop(child: subprocess.Popen[bytes], stop_signal: int, grace_s: float) -> int:
    child.send_signal(stop_signal)
    try:
        return child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1])))
