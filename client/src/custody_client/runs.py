"""A run as the runtime holds it: which exchanges it has, whether it is admitted, and its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from custody_client import current
from custody_client.attempts import Exchange


class Run:
    """One execution of the runtime's task; made by `Custody.run`. `with` makes it current, and closes it at the end."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id

    def exchange(self, exchange_id: str | None = None) -> Exchange:
        """Begin one logical model call; its id is minted where none is given."""
        return Exchange(self, exchange_id or "x")

    def admits(self, kind: str) -> bool:
        """Say whether content of this kind would be looked at now; adapters ask before they copy anything."""
        return False

    @contextmanager
    def active(self) -> Iterator[Self]:
        """Make the run current without closing it at the end."""
        token = current.enter(self)
        try:
            yield self
        finally:
            current.leave(token)

    def close(self) -> None:
        """Announce how much was observed, once all of it is delivered or told of. Waits for nothing."""

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
