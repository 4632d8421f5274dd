"""The batch: for each task ask, understand, act, and look whether what was promised is there."""

from collections.abc import Sequence
from pathlib import Path

from custody_toolchain.coverage import Coverage, Page
from custody_toolchain.delivery import Delivered
from custody_toolchain.intake import Outcome as Ended
from custody_toolchain.intake import Result, Step, Steps
from custody_toolchain.lineage import Lineage
from custody_toolchain.observing import Report
from custody_toolchain.tools import Action, Outcome, Turn

from . import delivering, model
from .asking import Change, Requests
from .captures import Captures
from .context import Context
from .journal import Journal
from .owner import Gates
from .tasks import LETTERS, TASKS, Task

MOST_TURNS = 12


class Batch:
    """One run over all tasks in a folder of its own; made again in the same folder, it goes on where it was."""

    def __init__(
        self,
        folder: Path,
        run: str,
        journal: Journal,
        report: Report,
        *,
        captures: Captures | None = None,
        extensions: Sequence[Change] = (),
        late: Sequence[Change] = (),
    ) -> None:
        self.folder = folder
        self.run = run
        self.journal = journal
        self.lineage = Lineage(run, report)
        self.coverage = Coverage(run, report=report)
        self.requests = Requests(journal, self.lineage, captures or Captures(), report, extensions, late)
        self._delivery = delivering.promised(folder, run, journal, self.coverage, report)
        self._gates = Gates(journal, self.coverage)
        self._host = self._gates.host(report)

    def play(self) -> Delivered:
        """Do all tasks, write the report and the manifest, and say what of it is there."""
        for task in TASKS:
            self._do(task)
        delivering.write_report(self.folder, self.journal)
        delivering.check_citations(self.folder, self._delivery)
        tools = self.requests.surface.names
        delivering.write_manifest(self.folder, self.run, self.journal, self.coverage, tools)
        return self._delivery.check()

    def _do(self, task: Task) -> None:
        context = Context(self.lineage, task.question)
        for turn in range(1, MOST_TURNS + 1):
            exchange = f"{task.name}-{turn}"
            answer = self.requests.ask(exchange, context.messages(), lambda: model.ask(task.name, turn))  # noqa: B023 - called at once
            result = answer.understood()
            outcomes = self._act(exchange, result)
            missing = "" if result.actions else self._missing(task, result)
            context.add(answer.message(), outcomes, missing or None)
            if not result.actions and not missing:
                return

    def _act(self, exchange: str, result: Result) -> list[Outcome]:
        """Take the actions of one answer through the host, in their order, and keep apart what became of each step."""
        steps, outcomes = Steps(result), []
        turn = Turn(self.run, self._gates.available(self.run, exchange))
        for each in result.actions:
            action = Action(f"{exchange}.{each.ordinal}", each.name, each.arguments, each.call_id)
            outcome = self._host.run(turn, action)
            outcomes.append(outcome)
            self._count(outcome)
            _record(steps, each.ordinal, outcome)
        self.journal.note("steps", {"exchange": exchange, "steps": steps.facts})
        return outcomes

    def _count(self, outcome: Outcome) -> None:
        """Count the pages that were given, from the receipt: so a replayed one counts as it did."""
        receipt = outcome.receipt
        if not outcome.answer.ok:
            return
        if receipt.tool == "search":
            for match in receipt.view["matches"]:
                self.coverage.offer(match["path"], match["offset"])
        if receipt.tool == "read_page":
            asked, given = receipt.effective_arguments, receipt.held
            self.coverage.read(
                Page(
                    given["path"],
                    asked_offset=asked["offset"],
                    asked_size=asked["size"],
                    offset=given["offset"],
                    size=given["size"],
                    next_offset=given["next_offset"],
                    eof=given["next_offset"] is None,
                    action=receipt.action,
                )
            )

    def _missing(self, task: Task, result: Result) -> str:
        """Return what the model is told of what is not there yet; empty if the task is done."""
        if result.refusal is not None:
            return f"Your answer could not be read: {result.refusal}. Say it again."
        missing = [each for each in self._delivery.check().missing if each.item in task.items]
        told = [f"{each.item}: {each.state}, {each.code}" for each in missing]
        known = self.coverage.of(LETTERS)
        if "letters-whole" in {each.item for each in missing} and known is not None:
            told += [f"bytes {start} to {stop} of {LETTERS} were not read" for start, stop in known.gaps]
        return "\n".join(["Not done yet.", *told]) if told else ""


def _record(steps: Steps, ordinal: int, outcome: Outcome) -> None:
    """Write down each step as what it was: a refusal is no failed execution."""
    receipt = outcome.receipt
    if receipt.execution is None:
        code = None if outcome.answer.refusal is None else outcome.answer.refusal.code
        steps.record(Step.POLICY_CHECK, Ended.REFUSED, ordinal, code)
        return
    steps.record(Step.POLICY_CHECK, Ended.DONE, ordinal)
    steps.record(Step.TOOL_RUN, Ended.DONE if receipt.has_held else Ended.FAILED, ordinal)
    if receipt.has_held:
        steps.record(Step.TOOL_COMMIT, Ended.DONE if outcome.persisted else Ended.FAILED, ordinal)
