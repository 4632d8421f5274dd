"""What a process says, as its log would hold it."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from store import logging


@contextmanager
def heard() -> Iterator[io.StringIO]:
    """Listen to the log for a while: which test configured it before does not matter."""
    lines = io.StringIO()
    logging.configure("info", lines)
    try:
        yield lines
    finally:
        logging.configure("info", sys.__stdout__)
