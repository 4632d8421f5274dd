"""What one task's requests carry: the last turns, and of their results as many as there is room for."""

from typing import Any, Final

import msgspec

from custody_toolchain.lineage import Lineage
from custody_toolchain.tools import Outcome

ROOM: Final = 2200  # bytes of results in one request
TURNS: Final = 2  # older ones are dropped, with their calls


class Result:
    """One result as requests may carry it: its text, and a note that stands for it."""

    def __init__(self, lineage: Lineage, outcome: Outcome) -> None:
        receipt = outcome.receipt
        self.action = receipt.action
        self.call_id = outcome.answer.call_id
        self.text = outcome.answer.text()
        self.note = self.text
        if outcome.answer.ok and receipt.result_ref is not None and receipt.form is not None:
            # From here on only these very objects are used: what is put together anew would be unknown.
            self.text = lineage.bind(self.text, receipt.result_ref, receipt.form)
            told = {"reference": receipt.action, "show": "read_tool_result"}
            self.note = lineage.reference(msgspec.json.encode(told).decode(), of=self.text)

    def message(self, *, whole: bool) -> dict[str, Any]:
        """Return the message that carries it. A call that came as markup has no id: its result is the user's to say."""
        content = self.text if whole else self.note
        if self.call_id is not None:
            return {"role": "tool", "tool_call_id": self.call_id, "content": content}
        named = {"type": "text", "text": f"Result of {self.action}:"}
        return {"role": "user", "content": [named, {"type": "text", "text": content}]}


class Context:
    """The messages of one task."""

    def __init__(self, lineage: Lineage, question: str) -> None:
        self._lineage = lineage
        self._head = [
            {"role": "system", "content": "Answer from the texts alone. Cite what you read, word for word."},
            {"role": "user", "content": question},
        ]
        self._turns: list[tuple[dict[str, Any], list[Result], str | None]] = []
        self._recalled: set[str] = set()

    def add(self, said: dict[str, Any], outcomes: list[Outcome], then: str | None = None) -> None:
        """Add a turn: what the model said, what came of its calls, and what it is told besides."""
        self._turns.append((said, [Result(self._lineage, outcome) for outcome in outcomes], then))
        for outcome in outcomes:
            if outcome.receipt.tool == "read_tool_result" and outcome.answer.ok:
                self._recalled.add(outcome.receipt.effective_arguments["action"])

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of the next request."""
        kept = self._turns[-TURNS:]
        whole = self._fitting([result for _, results, _ in reversed(kept) for result in results])
        messages = list(self._head)
        for said, results, then in kept:
            messages += [said, *(result.message(whole=result.action in whole) for result in results)]
            if then is not None:
                messages.append({"role": "user", "content": then})
        return messages

    def _fitting(self, newest_first: list[Result]) -> set[str]:
        """Choose what is carried whole: what was asked for again comes first, then what is newer."""
        whole, room = set(), ROOM
        for result in sorted(newest_first, key=lambda each: each.action not in self._recalled):
            size = len(result.text.encode())
            if size <= room:
                whole.add(result.action)
                room -= size
        return whole
