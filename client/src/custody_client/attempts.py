"""Exchanges and attempts: where captures are made. Nothing here raises into the caller, waits, or is awaited."""

from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from custody_client.capturing import capture
from custody_client.frames import State
from custody_client.settings import Source
from custody_client.words import LOGICAL_REQUEST, OBSERVABLE_OUTPUT, SETTLEMENTS, is_id

if TYPE_CHECKING:
    from custody_client.accounts import Account
    from custody_client.runs import Run

_MOST_REF_BYTES: Final = 200
# What ends a call from outside, beside the two of the language itself: asyncio's and trio's, by name.
_CANCELLED: Final = frozenset({"CancelledError", "Cancelled"})


class Exchange:
    """One logical model call within a run; usable with `with` and `async with`, which only read well."""

    __slots__ = ("_account", "_attempts", "exchange_id", "run")

    def __init__(self, run: "Run", account: "Account", exchange_id: str, attempts: "count[int]") -> None:
        self.run = run
        self.exchange_id = exchange_id
        self._account = account
        self._attempts = attempts

    def attempt(self, attempt_id: str | None = None) -> "Attempt":
        """Begin one physical try; named "1", "2", … where no id is given."""
        account = self._account
        if attempt_id is None:
            attempt_id = str(next(self._attempts))
        elif not is_id(attempt_id):
            account.office.trouble.note("ids", "the id of an attempt is 1 to 128 of A-Z a-z 0-9 . _ : -")
            account, attempt_id = account.office.nowhere, ""
        return Attempt(self, account, attempt_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Attempt:
    """One physical try of an exchange. Leaving its `with` by an exception settles it `failed` or `cancelled`."""

    __slots__ = ("_account", "_settled", "attempt_id", "exchange", "run")

    def __init__(self, exchange: Exchange, account: "Account", attempt_id: str) -> None:
        self.exchange = exchange
        self.run = exchange.run
        self.attempt_id = attempt_id
        self._account = account
        self._settled = False

    def capture_request(
        self,
        content: Any,
        *,
        sources: Sequence[Source | str] = (),
        vantage: str = "sdk",
        content_type: str = "application/json",
        completeness: str = "complete",
    ) -> None:
        """Capture what was handed to the model: bytes as they are, a value that becomes JSON, or a callable for it.

        A callable is called only once the run is admitted; if it is not, content is not touched at all. What is
        changed after this returns does not change what was captured.
        """
        account = self._account
        # The number first: whoever turns the run's standing afterwards knows which numbers he answers for.
        number = next(account.numbers)
        standing = account.standing
        if standing is not None:
            identity = (self.exchange.exchange_id, self.attempt_id, LOGICAL_REQUEST)
            try:
                capture(
                    account,
                    standing,
                    number,
                    identity,
                    content,
                    sources,
                    (vantage, content_type, completeness),
                )
            except Exception:  # noqa: BLE001 - the end of the stack, where no call works any more, not even one of C
                account.missed = (number, account.missed)

    def capture_output(
        self,
        content: Any,
        *,
        sources: Sequence[Source | str] = (),
        vantage: str = "sdk",
        content_type: str = "application/json",
        completeness: str | None = None,
    ) -> None:
        """Capture what could be seen of the answer, as `capture_request` does.

        What has `encode() -> bytes` (an `Assembler`) is taken by that; its `completeness` stands where none is given.
        """
        account = self._account
        number = next(account.numbers)
        standing = account.standing
        if standing is not None:
            identity = (self.exchange.exchange_id, self.attempt_id, OBSERVABLE_OUTPUT)
            try:
                capture(
                    account,
                    standing,
                    number,
                    identity,
                    content,
                    sources,
                    (vantage, content_type, completeness),
                )
            except Exception:  # noqa: BLE001 - as in `capture_request`
                account.missed = (number, account.missed)

    def dispatched(self) -> None:
        """Say that the call was sent."""
        self._account.say(State(self.exchange.exchange_id, self.attempt_id, dispatch="dispatched"))

    def not_dispatched(self) -> None:
        """Say that the call was not sent."""
        self._account.say(State(self.exchange.exchange_id, self.attempt_id, dispatch="not_dispatched"))

    def settled(self, settlement: str) -> None:
        """Say how the call ended for its owner: `completed`, `failed` or `cancelled`; the first word stays."""
        if not _is_settlement(settlement):
            self._account.office.trouble.note("words", "a settlement is completed, failed or cancelled")
            return
        if not self._settled:
            self._settled = True
            self._account.say(State(self.exchange.exchange_id, self.attempt_id, settlement=settlement))

    def refer(
        self, *, trace: str | None = None, response: str | None = None, request: str | None = None
    ) -> None:
        """Name ids of others by which the attempt can be found; at most four, of at most 200 bytes."""
        refs = tuple(each for each in (trace, response, request) if _is_reference(each))
        if len(refs) < sum(each is not None for each in (trace, response, request)):
            self._account.office.trouble.note("refs", "a reference is a text of 1 to 200 bytes")
        if refs:
            self._account.say(State(self.exchange.exchange_id, self.attempt_id, refs=refs))  # type: ignore[arg-type] # texts, as was looked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.settled("cancelled" if _is_cancellation(kind) else "failed")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _is_settlement(text: object) -> bool:
    return isinstance(text, str) and text in SETTLEMENTS


def _is_cancellation(kind: type[BaseException]) -> bool:
    return issubclass(kind, (KeyboardInterrupt, GeneratorExit)) or kind.__name__ in _CANCELLED


def _is_reference(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        return 0 < len(text.encode()) <= _MOST_REF_BYTES
    except UnicodeEncodeError:
        return False
