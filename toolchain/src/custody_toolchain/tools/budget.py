"""What the owner puts aside for an action, and that it is closed exactly once, whatever happens."""

from collections.abc import Callable
from typing import Any, Final

from custody_toolchain.driving import Steps, ask
from custody_toolchain.facts import Stage, Status, fact_id
from custody_toolchain.tools.course import Course, Unusable, decided
from custody_toolchain.tools.owners import Settlement
from custody_toolchain.tools.records import Receipt, Step
from custody_toolchain.tools.values import frozen

_MOST_TRIES: Final = 3


class Budget:
    """The reservation of one action."""

    def __init__(self, course: Course) -> None:
        self._course = course
        # What has yet to be settled or released, and the receipt that says which; None: the one in the making.
        self._open: tuple[str, Receipt | None] | None = None

    def reserve(self, execution: int) -> Steps[Step]:
        """Put aside what this execution needs; RESERVED also where the owner has no reservations."""
        course, reservations = self._course, self._course.owner.reservations
        if reservations is None:
            return Step(Status.RESERVED)
        reservation = fact_id("reservation", *course.key, execution)
        course.note(reservation_id=reservation)
        call = course.call(execution, frozen(course.receipt.effective_arguments))
        reserve = self._once(reservations.reserve, (reservation, None))
        try:
            # To the end: one that still went on while it is released would be open for ever.
            answer = yield from course.to_the_end(reserve, reservation, call)
            step = decided(answer, "reservation_failed")
        except Exception as error:  # noqa: BLE001 - the owner's failure is told as one, never as a yes
            step = course.failed(error, "reservation_failed")
        if step.status is Status.REFUSED:
            self._open = None
        if step.status is Status.ADMITTED:
            step = Step(Status.RESERVED)
        course.note(reservation=step)
        yield from course.told(Stage.RESERVATION, step, execution=execution)
        return step

    def close_what_was_left_open(self, prior: Receipt) -> Steps[None]:
        """Settle a reservation whose process was killed before it could: the owner knows whether it is still open."""
        reservations, reservation = self._course.owner.reservations, prior.reservation_id
        if reservations is None or reservation is None or not (prior.execution or prior.never_started):
            return
        try:
            is_open = yield from ask(reservations.is_open, reservation)
        except Exception as error:
            step = self._course.failed(error, "reservations_unavailable", retryable=True)
            raise Unusable(Stage.REPLAY, step) from error
        if is_open is True:
            self._open = (reservation, prior)
            yield from self.settle()

    def settle(self) -> Steps[None]:
        """Settle what was started, release what was not: the owner is asked once for each reservation.

        An interrupt before it is asked does not keep it from being asked; after that, nothing is tried twice.
        """
        interrupt: BaseException | None = None
        for _ in range(_MOST_TRIES):
            if self._open is None:
                break
            try:
                yield from self._close(*self._open)
            except BaseException as error:  # noqa: BLE001 - raised again as soon as the owner was asked
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _close(self, reservation: str, prior: Receipt | None) -> Steps[None]:
        course, reservations = self._course, self._course.owner.reservations
        assert reservations is not None  # noqa: S101 - only what was reserved is open
        receipt = course.receipt if prior is None else prior
        try:
            if receipt.execution is None:
                yield from course.to_the_end(self._once(reservations.release, None), reservation)
                step = Step(Status.RELEASED)
            else:
                settlement = _settlement(reservation, receipt, receipt.execution)
                yield from course.to_the_end(self._once(reservations.settle, None), settlement)
                step = Step(Status.SETTLED)
        except Exception as error:  # noqa: BLE001 - whether it took effect is the owner's to find out
            step = course.failed(error, "settlement_failed")
        execution = receipt.executions or None
        yield from course.told(Stage.RESERVATION, step, to_the_end=True, execution=execution)

    def _once(
        self, function: Callable[..., Any], open_then: tuple[str, Receipt | None] | None
    ) -> Callable[..., Any]:
        """Return the function, noting what is open in the same moment in which it is called.

        One that reserves and raises may have reserved; one that closes and raises is not called again.
        """

        def note() -> None:
            self._open = open_then

        # One expression, of which `note` gives nothing: no interrupt comes between the note and the call.
        return lambda *given: note() or function(*given)  # type: ignore[func-returns-value,redundant-expr]


def _settlement(reservation: str, receipt: Receipt, execution: Step) -> Settlement:
    return Settlement(
        reservation, receipt.run, receipt.action, receipt.executions, execution.status, execution.duration_ms
    )
