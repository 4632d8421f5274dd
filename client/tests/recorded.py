"""A run that writes down what adapters do to it, in place of the core's: no thread, no service, the same promises."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import msgspec

from custody_client.content import NotObserved

KINDS = frozenset({"logical-request", "observable-output"})


class Untouchable:
    """Content that may not be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"looked at {name} of what is not admitted")


@dataclass
class Part:
    """One part as it was captured."""

    vantage: str
    completeness: str
    body: bytes

    @property
    def content(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Attempt:
    """What was said of one attempt."""

    attempt_id: str
    run: "_Run"
    request: Part | None = None
    output: Part | None = None
    refused: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    dispatch: str = "unknown"
    settlement: str = "unknown"
    references: dict[str, str] = field(default_factory=dict)

    def capture_request(
        self, content: Any, *, vantage: str = "sdk", completeness: str = "complete", **_: Any
    ) -> None:
        assert self.request is None, "two requests of one attempt"
        self.request = self._part("logical-request", content, vantage, completeness)

    def capture_output(
        self, content: Any, *, vantage: str = "sdk", completeness: str | None = None, **_: Any
    ) -> None:
        assert self.output is None, "two outputs of one attempt"
        told = str(completeness or getattr(content, "completeness", "complete"))
        self.output = self._part("observable-output", content, vantage, told)

    def _part(self, kind: str, content: Any, vantage: str, completeness: str) -> Part | None:
        if not self.run.admits(kind):
            self.refused.append(kind)
            return None
        if hasattr(content, "encode") and not isinstance(content, str):
            content = content.encode()
        elif callable(content):
            try:
                content = content()
            except NotObserved:
                self.unseen.append(kind)
                return None
        return Part(
            vantage, completeness, content if isinstance(content, bytes) else msgspec.json.encode(content)
        )

    def dispatched(self) -> None:
        self.dispatch = "dispatched"

    def not_dispatched(self) -> None:
        self.dispatch = "not_dispatched"

    def settled(self, settlement: str) -> None:
        assert self.settlement == "unknown", "settled twice"
        self.settlement = settlement

    def refer(self, **references: str | None) -> None:
        self.references.update({name: value for name, value in references.items() if value})


@dataclass
class Exchange:
    """One exchange and its attempts."""

    run: "_Run"
    exchange_id: str
    attempts: list[Attempt] = field(default_factory=list)

    def attempt(self, attempt_id: str | None = None) -> Attempt:
        self.attempts.append(Attempt(attempt_id or str(len(self.attempts) + 1), self.run))
        return self.attempts[-1]


class _Run:
    """A run that admits what it is told to."""

    _numbers = itertools.count(1)

    def __init__(self, *, admitted: frozenset[str] = KINDS) -> None:
        self.run_id = f"recorded-{next(self._numbers)}"
        self.admitted = admitted
        self.exchanges: list[Exchange] = []

    def admits(self, kind: str) -> bool:
        return kind in self.admitted

    def exchange(self, exchange_id: str | None = None) -> Exchange:
        self.exchanges.append(Exchange(self, exchange_id or f"e{len(self.exchanges) + 1}"))
        return self.exchanges[-1]

    @property
    def attempts(self) -> list[Attempt]:
        """Of the only exchange."""
        (exchange,) = self.exchanges
        return exchange.attempts

    @property
    def attempt(self) -> Attempt:
        (attempt,) = self.attempts
        return attempt

    def everything(self) -> bytes:
        """All that was captured or said, as bytes to be searched."""
        parts = [
            part.body
            for exchange in self.exchanges
            for attempt in exchange.attempts
            for part in (attempt.request, attempt.output)
            if part is not None
        ]
        said = [repr(attempt.references) for exchange in self.exchanges for attempt in exchange.attempts]
        return b"\n".join(parts) + "\n".join(said).encode()


def recorded(*, admitted: frozenset[str] = KINDS) -> Any:
    """Make such a run; to whoever takes a run it is one."""
    return _Run(admitted=admitted)
