"""A runtime's own pieces, in memory, that write down each call and fail where a test wants it."""

import asyncio
from collections.abc import Callable
from typing import Any

from custody_toolchain.facts import Fact, StageFact
from custody_toolchain.tools import (
    ALLOW,
    Action,
    Call,
    Owner,
    Receipt,
    Refuse,
    Settlement,
    Tool,
    ToolHost,
    Turn,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ticker": {"type": "string", "enum": ["ACME", "INIT"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 30},
    },
    "required": ["ticker"],
}
ROWS = [{"day": day, "quote": None if day == 3 else day * 10} for day in range(1, 9)]
TURN = Turn("run-1")


class Runtime:
    """Admission, authorisation, budget, receipts and one tool; `fail` maps the name of a call to what it raises."""

    def __init__(self, *, later: bool = False) -> None:
        self.later = later
        self.calls: list[str] = []
        self.fail: dict[str, BaseException] = {}
        self.answers: dict[str, Any] = {}
        # Whether a save that raises has saved all the same.
        self.saves_and_raises = False
        self.kept: dict[tuple[str, str], Receipt] = {}
        self.saved: list[Receipt] = []
        # Which reservations were made and closed, in turn; a second closing would be one too many.
        self.book: list[tuple[str, str]] = []
        self.authorised: list[int] = []
        self.executed: list[Call] = []
        self.settlements: list[Settlement] = []
        self.facts: list[Fact] = []
        self.output: Any = {"rows": ROWS}

    def does(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that notes its call, fails if it is to, and works; asynchronous if `later`."""

        def at_once(*given: Any) -> Any:
            self.calls.append(name)
            done = work(*given)
            if name in self.fail:
                raise self.fail[name]
            return self.answers.get(name, done)

        async def awaited(*given: Any) -> Any:
            await asyncio.sleep(0)
            return at_once(*given)

        return awaited if self.later else at_once

    def owner(self) -> Owner:
        return Owner(
            admit=self.does("admit", lambda *_: ALLOW),
            authorise=self.does("authorise", self._authorise),
            receipts=_Receipts(self),
            reservations=_Reservations(self),
        )

    def _authorise(self, _: Turn, call: Call) -> Any:
        self.authorised.append(call.execution)
        return ALLOW

    def tool(self, **said: Any) -> Tool:
        declared = {"name": "quotes", "version": 2, "schema": SCHEMA, "rows": "/rows"}
        return Tool(execute=self.does("execute", self._execute), **{**declared, **said})

    def _execute(self, call: Call) -> Any:
        self.executed.append(call)
        return self.output

    def host(self, *tools: Tool, **said: Any) -> Any:
        mine = tools or (self.tool(),)
        return ToolHost(
            said.pop("owner", None) or self.owner(),
            {tool.name: tool for tool in mine},
            **{"report": self.facts.append, **said},
        )

    def stages(self) -> list[tuple[str, str]]:
        return [(fact.stage, fact.status) for fact in self.facts if isinstance(fact, StageFact)]

    @property
    def balanced(self) -> bool:
        """Whether each reservation was closed once, before it was made again; also one that may have been made."""
        for reservation in {reservation for _, reservation in self.book}:
            turns = [what for what, which in self.book if which == reservation]
            if turns != ["made", "closed"] * (len(turns) // 2):
                return False
        return True

    def is_open(self, reservation: str) -> bool:
        return [what for what, which in self.book if which == reservation][-1:] == ["made"]


class _Receipts:
    def __init__(self, runtime: Runtime) -> None:
        self.load = runtime.does("load", lambda run, action: runtime.kept.get((run, action)))

        def save(receipt: Receipt) -> None:
            if "save" in runtime.fail and not runtime.saves_and_raises:
                return
            runtime.kept[receipt.run, receipt.action] = receipt
            runtime.saved.append(receipt)

        self.save = runtime.does("save", save)


class _Reservations:
    def __init__(self, runtime: Runtime) -> None:
        self.reserve = runtime.does("reserve", lambda reservation, _: _allowed(runtime, reservation))

        def settle(settlement: Settlement) -> None:
            runtime.book.append(("closed", settlement.reservation))
            runtime.settlements.append(settlement)

        def release(reservation: str) -> None:
            runtime.book.append(("closed", reservation))

        self.settle = runtime.does("settle", settle)
        self.release = runtime.does("release", release)
        self.is_open = runtime.does("is_open", runtime.is_open)


def _allowed(runtime: Runtime, reservation: str) -> Any:
    # One that raises may have reserved, whatever it would have answered.
    if "reserve" in runtime.fail or not isinstance(runtime.answers.get("reserve"), Refuse):
        runtime.book.append(("made", reservation))
    return ALLOW


def action(name: str = "a1", **said: Any) -> Action:
    """Return an action of the model's, with a call id of its own."""
    return Action(
        **{"id": name, "tool": "quotes", "arguments": {"ticker": "ACME"}, "call_id": f"call-{name}", **said}
    )
