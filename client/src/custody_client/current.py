"""Which run is current, for adapters that are not handed one."""

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from custody_client.runs import Run

_current: Final[ContextVar["Run | None"]] = ContextVar("custody_run", default=None)


def current_run() -> "Run | None":
    """Return the run that was entered last in this context (thread or task), None if there is none."""
    return _current.get()


def enter(run: "Run") -> "Token[Run | None]":
    """Make a run current."""
    return _current.set(run)


def leave(token: "Token[Run | None]") -> None:
    """Make the run current that was before; in another context than that of `enter` there is nothing to go back to."""
    try:
        _current.reset(token)
    except ValueError:
        _current.set(None)
