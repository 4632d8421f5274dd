"""What stays the runtime's: who may do what, what it costs, where receipts are kept. Here are only their shapes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from custody_toolchain.facts import Status

if TYPE_CHECKING:
    from custody_toolchain.tools.records import Action, Call, Receipt, Turn

MOST_SAID: Final = 512
_TIMEOUT_S: Final = 30.0


def said(text: object) -> str:
    """Return what is said to the model, at most 512 characters of it, and `?` for what is no character."""
    whole = text.encode("utf-8", "replace").decode() if isinstance(text, str) else ""
    return whole if len(whole) <= MOST_SAID else whole[: MOST_SAID - 1] + "…"


class Allow(msgspec.Struct, frozen=True, tag="allow"):
    """Go on."""


class Refuse(msgspec.Struct, frozen=True, tag="refuse"):
    """Go no further: `code` is a closed word of the owner's, `message` is for the model and holds no secret."""

    code: str
    message: str = ""
    retryable: bool = False


ALLOW: Final = Allow()


class Settlement(msgspec.Struct, frozen=True):
    """How what was reserved was used: the status of execution `execution`, and how long that took."""

    reservation: str
    run: str
    action: str
    execution: int
    status: Status
    duration_ms: int | None = None


class Receipts(Protocol):
    """The owner's receipts, one for each (run, action); each method may be asynchronous for `ToolHost.arun`.

    `save` is durable when it returns, and takes the place of the receipt that was there (the owner may keep that too).
    It is called twice for an action that is executed: with status `started` before, and with the outcome after. Where
    the first of these raises or is cancelled it is called once more, to save over it that nothing was started.

    `save` is not broken off where its caller is cancelled, and must not wait for long: `ToolHost.arun` cancels it after
    `Owner.timeout_s`, and takes it for one that raised. Nothing of it may go on after that, in a thread say, since it
    would be saved over what comes later; `ToolHost.run` waits as long as it takes.
    """

    def load(self, run: str, action: str, /) -> Any:
        """Return the latest Receipt of this action, or None."""

    def save(self, receipt: "Receipt", /) -> Any:
        """Keep this receipt."""


class Reservations(Protocol):
    """The owner's budget; each method may be asynchronous for `ToolHost.arun`.

    After each `reserve` that did not answer with a refusal exactly one of `settle` and `release` is called: also after
    one that raised, since it may have reserved all the same. An id that is not known is therefore no error.

    None of these three is broken off where its caller is cancelled, and `reserve` must not wait for room: where there
    is none, refuse, `retryable`. `ToolHost.arun` cancels a call after `Owner.timeout_s`, and takes it for one that
    raised; nothing of it may go on after that, in a thread say. `ToolHost.run` waits as long as it takes.
    """

    def reserve(self, reservation: str, call: "Call", /) -> Any:
        """Put aside what this call needs, under this id; ALLOW or a Refuse."""

    def settle(self, settlement: Settlement, /) -> Any:
        """The call was started; this is how it ended."""

    def release(self, reservation: str, /) -> Any:
        """The call was never started."""

    def is_open(self, reservation: str, /) -> Any:
        """Say whether a reservation is neither settled nor released: asked when a killed process is resumed."""


@dataclass(frozen=True)
class Owner:
    """The runtime's own pieces. Gates answer ALLOW or a Refuse; anything else, or raising, refuses.

    `admit(turn, action)` sees the action as the model asked for it; `authorise(turn, call)` sees the effective
    arguments, after hooks. `may_replay(turn, receipt)` is asked before an old result is given again; None: it may.

    `timeout_s` limits each awaited call that no cancellation breaks off: `reserve`, `settle`, `release` and `save`.
    After it the call is cancelled, and waited for, and counts as one that raised. None: it is waited for without end.
    """

    admit: Callable[["Turn", "Action"], Any]
    authorise: Callable[["Turn", "Call"], Any]
    receipts: Receipts
    reservations: Reservations | None = None
    may_replay: Callable[["Turn", "Receipt"], Any] | None = None
    timeout_s: float | None = _TIMEOUT_S
