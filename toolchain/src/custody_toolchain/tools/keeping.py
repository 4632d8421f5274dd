"""The owner's receipts: what is there already, the mark before an execution, and what is saved after it."""

import msgspec

from custody_toolchain.driving import Steps, ask, unless_cancelled
from custody_toolchain.facts import Stage, Status
from custody_toolchain.tools.course import Course, Unusable, failed, refused
from custody_toolchain.tools.records import Receipt, Step
from custody_toolchain.tools.values import NotJson, same


class Keeping:
    """The receipt of one action, as it is and as it was."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self.prior: Receipt | None = None
        self.persisted = False

    def load(self) -> Steps[Receipt | None]:
        """Find the receipt that is there; Unusable if nobody can tell, or it is of something else."""
        course = self._course
        unsaved = course.fittings.unsaved.get(course.key)
        if unsaved is not None:
            self.prior = unsaved.own_copy()
            return self.prior
        try:
            prior = yield from ask(course.owner.receipts.load, *course.key)
        except Exception as error:
            # Without them nobody knows whether it was executed before.
            step = course.failed(error, "receipts_unavailable", retryable=True)
            raise Unusable(Stage.REPLAY, step) from error
        if prior is None:
            return None
        if not isinstance(prior, Receipt) or (prior.run, prior.action) != course.key:
            raise Unusable(Stage.REPLAY, failed("not_that_receipt"))
        try:
            self.prior = prior.own_copy()
        except NotJson as error:
            # No host ever saved one like it: whatever it is, it says nothing of what was executed.
            raise Unusable(Stage.REPLAY, failed("not_that_receipt")) from error
        return self.prior

    def same_action(self, prior: Receipt) -> None:
        """Refuse where one id means two actions, or where something was done under another version of the schema."""
        mine = self._course.receipt
        if (prior.tool, prior.call_id) != (mine.tool, mine.call_id) or not same(
            prior.original_arguments, mine.original_arguments
        ):
            raise Unusable(Stage.REPLAY, refused("identity_conflict"))
        # A start that was broken off gave nothing that another version could misread.
        if not prior.never_started and prior.schema_version != mine.schema_version:
            raise Unusable(Stage.REPLAY, refused("schema_version"))

    def replayed(self, prior: Receipt) -> Steps[None]:
        """Take the receipt that is there for this action's; one that could not be saved is saved now, if it can be."""
        self._course.receipt, self.persisted = prior, True
        if self._course.fittings.unsaved.get(self._course.key) is not None:
            yield from self.save()

    def mark(self, execution: int) -> Steps[None]:
        """Save that it is about to be started; without that nothing is, since nobody could tell afterwards."""
        course, unmarked = self._course, self._course.receipt
        started = Step(Status.STARTED, "outcome_unknown")
        mark = msgspec.structs.replace(unmarked, executions=execution, execution=started)
        try:
            # To the end: one that still went on would be saved over what a later run of this action has saved.
            yield from course.to_the_end(course.owner.receipts.save, mark.own_copy())
            yield from unless_cancelled()
            course.fittings.unsaved.saved(course.key, mark)
            course.receipt = mark
        except BaseException as error:
            course.receipt = unmarked
            yield from self._save_over_the_mark(unmarked)
            if not isinstance(error, Exception):
                raise
            step = course.failed(error, "receipts_unavailable", retryable=True)
            raise Unusable(Stage.PERSISTENCE, step) from error

    def _save_over_the_mark(self, unmarked: Receipt) -> Steps[None]:
        """Save what was there before, or that nothing was started: a save that raised may have saved its mark."""
        course = self._course
        true = unmarked if self.prior is None else self.prior
        try:
            yield from course.to_the_end(course.owner.receipts.save, true.own_copy())
        except BaseException as error:
            course.fittings.unsaved.keep(course.key, true)
            if not isinstance(error, Exception):
                raise
            return
        course.fittings.unsaved.saved(course.key, true)

    def save_refusal(self, step: Step) -> Steps[None]:
        """Save a final no. One that may be retried, and an outage, leave the action as if it had not been asked for.

        Saved over is a start that was broken off, and nothing that says of an execution.
        """
        nothing_done = self.prior is None or self.prior.never_started
        if nothing_done and step.status is Status.REFUSED and not step.retryable:
            yield from self.save()

    def save(self) -> Steps[None]:
        """Save the receipt; one that cannot be is kept in this process, so that nothing is executed again for it."""
        course = self._course
        execution = course.receipt.executions or None
        try:
            yield from course.to_the_end(course.owner.receipts.save, course.receipt.own_copy())
        except BaseException as error:
            course.fittings.unsaved.keep(course.key, course.receipt)
            self.persisted = False
            step = course.failed(error, "receipts_unavailable", retryable=True)
            yield from course.told(Stage.PERSISTENCE, step, to_the_end=True, execution=execution)
            if not isinstance(error, Exception):
                raise
            return
        course.fittings.unsaved.saved(course.key, course.receipt)
        self.persisted = True
        course.telling.stage(Stage.PERSISTENCE, Step(Status.PERSISTED), execution=execution)
