"""Exchanges and attempts: where captures are made. Nothing here raises into the caller, waits, or is awaited."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from custody_client.runs import Run
    from custody_client.settings import Source


class Exchange:
    """One logical model call within a run; usable with `with` and `async with`, which only read well."""

    __slots__ = ("_attempts", "exchange_id", "run")

    def __init__(self, run: "Run", exchange_id: str) -> None:
        self.run = run
        self.exchange_id = exchange_id
        self._attempts = 0

    def attempt(self, attempt_id: str | None = None) -> "Attempt":
        """Begin one physical try; named "1", "2", … where no id is given."""
        self._attempts += 1
        return Attempt(self, str(self._attempts) if attempt_id is None else attempt_id)

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

    __slots__ = ("attempt_id", "exchange", "run")

    def __init__(self, exchange: Exchange, attempt_id: str) -> None:
        self.exchange = exchange
        self.run = exchange.run
        self.attempt_id = attempt_id

    def capture_request(
        self,
        content: Any,
        *,
        sources: "Sequence[Source | str]" = (),
        vantage: str = "sdk",
        content_type: str = "application/json",
        completeness: str = "complete",
    ) -> None:
        """Capture what was handed to the model: bytes as they are, a value that becomes JSON, or a callable for it.

        A callable is called only once the run is admitted; if it is not, content is not touched at all.
        """

    def capture_output(
        self,
        content: Any,
        *,
        sources: "Sequence[Source | str]" = (),
        vantage: str = "sdk",
        content_type: str = "application/json",
        completeness: str | None = None,
    ) -> None:
        """Capture what could be seen of the answer, as `capture_request` does.

        What has `encode() -> bytes` (an `Assembler`) is taken by that; its `completeness` stands where none is given.
        """

    def dispatched(self) -> None:
        """Say that the call was sent."""

    def not_dispatched(self) -> None:
        """Say that the call was not sent."""

    def settled(self, settlement: str) -> None:
        """Say how the call ended for its owner: `completed`, `failed` or `cancelled`; the first word stays."""

    def refer(
        self, *, trace: str | None = None, response: str | None = None, request: str | None = None
    ) -> None:
        """Name ids of others by which the attempt can be found; at most four, of at most 200 bytes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
