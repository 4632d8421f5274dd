"""One request on its way to dispatch: both checks, and what its owner is told if it is refused."""

import threading
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from custody_toolchain.driving import Steps, adrive, ask, drive
from custody_toolchain.facts import (
    MOST_DIFFERENCES,
    Check,
    Difference,
    NotAFact,
    SurfaceFact,
    Verdict,
    encode,
    fact_id,
    now,
)
from custody_toolchain.ids import checked_id
from custody_toolchain.observing import Guarded
from custody_toolchain.surface.admitted import Surface

_LONGEST_NAME: Final = 128


class Reason(StrEnum):
    """Why a request was refused."""

    TOOLS_CHANGED = "tools_changed"
    NO_ROOM = "no_room"
    EARLY_CHECK_MISSING = "early_check_missing"
    # Something raised while it was checked: nobody knows, so it is not dispatched.
    NOT_CHECKED = "not_checked"


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """What a request's owner is told, so that its reservation closes; this one request, and nothing else."""

    exchange: str
    attempt: str | None
    reason: Reason
    check: Check
    differences: tuple[Difference, ...] = ()
    settlement: Literal["pre_dispatch_rejected"] = "pre_dispatch_rejected"
    dispatch: Literal["not_dispatched"] = "not_dispatched"


class PreDispatchRejected(Exception):
    """The request must not be sent. Its owner was told; `settlement_failed` says whether that itself failed.

    Every later check says the same; one on another thread, while the owner is still being told, says False.
    """

    def __init__(self, rejection: Rejection, *, settlement_failed: bool = False) -> None:
        changes = ", ".join(sorted({each.change.value for each in rejection.differences}))
        super().__init__(f"{rejection.reason.value} ({changes})" if changes else rejection.reason.value)
        self.rejection = rejection
        self.settlement_failed = settlement_failed


class _Checks:
    """What both kinds of guard share: judging, and being refused once."""

    def __init__(
        self,
        surface: Surface,
        exchange: str,
        settle: Callable[[Rejection], object | Awaitable[object]],
        attempt: str | None = None,
    ) -> None:
        self._surface = surface
        self._settle = settle
        self._settlement_failed = False
        self._exchange = checked_id(exchange, "an exchange's id")
        self._attempt = None if attempt is None else checked_id(attempt, "an attempt's id")
        self._lock = threading.Lock()
        self._early = False
        self._final = False
        self._rejection: Rejection | None = None
        self._guarded = Guarded(surface.report)

    @property
    def reports_failed(self) -> int:
        """How many times the report raised; no verdict is another for it."""
        return self._guarded.failed

    @property
    def passed(self) -> bool:
        """Whether both checks were made and passed: only then may the request be dispatched."""
        return self._early and self._final and self._rejection is None

    @property
    def rejection(self) -> Rejection | None:
        """Why the request was refused; None if it was not."""
        return self._rejection

    def _end(self, rejection: Rejection | None, to_settle: bool) -> Steps[None]:  # noqa: FBT001 - a pair from _refuse
        """Raise if the request is refused, after its owner was told; a telling that was begun is brought to its end."""
        if rejection is None:
            return
        if to_settle:
            try:
                yield from ask(self._settle, rejection, to_the_end=True)
            except BaseException as error:
                self._settlement_failed = True
                if not isinstance(error, Exception):
                    raise
                raise PreDispatchRejected(rejection, settlement_failed=True) from error
        raise PreDispatchRejected(rejection, settlement_failed=self._settlement_failed)

    def _judge(self, check: Check, presented: Any) -> tuple[Rejection | None, bool]:
        """Return why the request is refused, and whether its owner has yet to be told."""
        try:
            found = self._surface.differences(presented)
            self._tell(
                check, Verdict.MISMATCH if found else Verdict.MATCH, self._surface.count(presented), found
            )
        except Exception:  # noqa: BLE001 - whatever it was, what was not checked is not sent
            self._tell_unchecked(check)
            return self._refuse(Reason.NOT_CHECKED, check, ())
        if found:
            return self._refuse(Reason.TOOLS_CHANGED, check, found)
        if check is Check.FINAL and not self._early:
            self._tell_unchecked(Check.EARLY)
            return self._refuse(Reason.EARLY_CHECK_MISSING, Check.EARLY, ())
        if check is Check.EARLY:
            self._early = True
        else:
            self._final = True
        return self._rejection, False

    def _fitting(
        self, budget: int, measure: Callable[[list[Any]], int] | None
    ) -> tuple[Rejection | None, bool]:
        surface = self._surface
        try:
            needed = surface.written_bytes() if measure is None else measure(surface.tools())
            fits = needed <= budget
        except Exception:  # noqa: BLE001 - as above
            self._tell_unchecked(Check.EARLY)
            return self._refuse(Reason.NOT_CHECKED, Check.EARLY, ())
        if fits:
            return self._rejection, False
        self._tell(Check.EARLY, Verdict.CAPACITY, len(surface.names), ())
        return self._refuse(Reason.NO_ROOM, Check.EARLY, ())

    def _refuse(self, reason: Reason, check: Check, found: Iterable[Difference]) -> tuple[Rejection, bool]:
        with self._lock:
            if self._rejection is not None:
                return self._rejection, False
            self._rejection = Rejection(
                exchange=self._exchange,
                attempt=self._attempt,
                reason=reason,
                check=check,
                differences=tuple(found),
            )
            return self._rejection, True

    def _tell_unchecked(self, check: Check) -> None:
        self._tell(check, Verdict.NOT_CHECKED, len(self._surface.names), ())

    def _tell(self, check: Check, verdict: Verdict, tools: int, found: Iterable[Difference]) -> None:
        self._guarded.tell(lambda: self._fact(check, verdict, tools, found))

    def _fact(self, check: Check, verdict: Verdict, tools: int, found: Iterable[Difference]) -> SurfaceFact:
        attempt = () if self._attempt is None else (self._attempt,)
        return _bounded(
            SurfaceFact(
                fact=fact_id("surface", check.value, verdict.value, self._exchange, *attempt),
                at=now(),
                exchange=self._exchange,
                check=check,
                verdict=verdict,
                tools=tools,
                attempt=self._attempt,
                differences=tuple(map(_sayable, found)),
            )
        )


class Guard(_Checks):
    """Lets one request pass to its dispatch, or refuses it; made by `guard` for each.

    Promised: where a check or `fit` does not pass, `settle` is called once with the Rejection, and PreDispatchRejected
    is raised, then and at every later check, also if `settle` raises or gives what must be awaited. Not promised: that
    a request is held back whose runtime does not call both checks, or sends although one of them raised.
    """

    def check_early(self, presented: Any) -> None:
        """Check tools after extensions had their say, and before the owner itself looks at them again."""
        drive(self._end(*self._judge(Check.EARLY, presented)))

    def check_final(self, presented: Any) -> None:
        """Check tools after all preparation, as they will be given to the provider's serialiser."""
        drive(self._end(*self._judge(Check.FINAL, presented)))

    def fit(self, budget: int, measure: Callable[[list[Any]], int] | None = None) -> None:
        """Refuse the request if the admitted tools do not all fit; none is ever left out.

        `measure` takes them all and returns what they need, in the budget's unit; without it, that is bytes of JSON.
        """
        drive(self._end(*self._fitting(budget, measure)))


class AsyncGuard(_Checks):
    """A Guard whose checks are awaited (asyncio); `settle` may be asynchronous or not.

    A settlement that was begun is brought to its end also where its check is cancelled, which is raised only then.
    """

    async def check_early(self, presented: Any) -> None:
        """Check tools after extensions had their say, and before the owner itself looks at them again."""
        await adrive(self._end(*self._judge(Check.EARLY, presented)))

    async def check_final(self, presented: Any) -> None:
        """Check tools after all preparation, as they will be given to the provider's serialiser."""
        await adrive(self._end(*self._judge(Check.FINAL, presented)))

    async def fit(self, budget: int, measure: Callable[[list[Any]], int] | None = None) -> None:
        """Refuse the request if the admitted tools do not all fit, as `Guard.fit` does."""
        await adrive(self._end(*self._fitting(budget, measure)))


def _sayable(difference: Difference) -> Difference:
    """Return a difference as a fact can hold it."""
    return Difference(
        difference.change,
        _short(difference.tool) or "?",
        None if difference.now is None else _short(difference.now) or "?",
        None if difference.at is None else _short(difference.at),
    )


def _short(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


def _bounded(fact: SurfaceFact) -> SurfaceFact:
    """Leave out differences, the last first, until the fact is small enough; those are counted."""
    everything = fact.differences
    for named in range(min(len(everything), MOST_DIFFERENCES), -1, -1):
        fact = msgspec.structs.replace(fact, differences=everything[:named], more=len(everything) - named)
        try:
            encode(fact)
        except NotAFact:
            continue
        break
    return fact
