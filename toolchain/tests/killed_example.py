"""The example, killed: `python -m toolchain.tests.killed_example KIND N …`, with the example's own arguments.

SIGKILL comes right after the N-th line of that kind is on the disk, in its journal.
"""

import os
import signal
import sys

from toolchain.examples.research_batch.__main__ import main
from toolchain.examples.research_batch.journal import Journal


def kill_after(kind: str, number: int) -> None:
    note, seen = Journal.note, 0

    def noted(self: Journal, which: str, what: object) -> None:
        nonlocal seen
        note(self, which, what)
        seen += which == kind
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.note = noted  # type: ignore[method-assign,assignment] # the example itself knows of no such thing


if __name__ == "__main__":
    kill_after(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
