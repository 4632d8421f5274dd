"""A run as the runtime holds it: which exchanges it has, whether it is admitted, and its end."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import Token
from itertools import count
from types import TracebackType
from typing import Final, Self

from custody_client import current
from custody_client.accounts import Account
from custody_client.attempts import Exchange
from custody_client.words import is_id

_MOST_NAMED: Final = 4096


class Run:
    """One execution of the runtime's task; made by `Custody.run`. `with` makes it current, and closes it at the end.

    A process that is forked has the run too, under a session of its own; closing it there ends only that session, as
    long as the process lives from which it was forked. That names the session when it closes the run.
    """

    def __init__(self, run_id: str, account: Account) -> None:
        self.run_id = run_id
        self._account = account
        self._tokens: list[Token[Run | None]] = []
        # How many attempts exchanges have that the runtime named, so that one that is begun again goes on counting.
        self._named: dict[str, count[int]] = {}

    def exchange(self, exchange_id: str | None = None) -> Exchange:
        """Begin one logical model call; its id is minted where none is given."""
        account = self._account
        if exchange_id is None:
            return Exchange(self, account, "x-" + os.urandom(8).hex(), count(1))
        if not is_id(exchange_id):
            account.office.trouble.note("ids", "the id of an exchange is 1 to 128 of A-Z a-z 0-9 . _ : -")
            return Exchange(self, account.office.nowhere, "", count(1))
        attempts = self._named.get(exchange_id)
        if attempts is None:
            if len(self._named) >= _MOST_NAMED:
                del self._named[next(iter(self._named))]
            attempts = self._named.setdefault(exchange_id, count(1))
        return Exchange(self, account, exchange_id, attempts)

    def admits(self, kind: str) -> bool:
        """Say whether content of this kind would be looked at now; adapters ask before they copy anything."""
        standing = self._account.standing
        return standing is not None and kind in standing.kinds

    def report(self, facts: Iterable[bytes]) -> None:
        """Have small typed facts of a toolchain told, each the JSON of one, of at most 1 KiB. Waits for nothing.

        They hold no content and are no observations: what is lost of them is counted (`facts_lost`), and told nobody.
        """
        try:
            self._account.report(facts)
        except Exception as error:  # noqa: BLE001 - whatever was handed in, the runtime goes on
            self._account.office.trouble.note("facts", f"facts were not taken: {type(error).__name__}")

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
        self._account.close()

    def __enter__(self) -> Self:
        self._tokens.append(current.enter(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tokens:
            current.leave(self._tokens.pop())
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
