"""What stays the runtime's: who may do what, which hooks there are, and what is left of the budget."""

from typing import Any, Final

from custody_toolchain.coverage import Coverage
from custody_toolchain.surface import Availability, OwnerFact, Use, Where
from custody_toolchain.tools import (
    ALLOW,
    Action,
    Allow,
    Call,
    Normalise,
    Owner,
    Project,
    Projected,
    Proposed,
    Refuse,
    ToolHost,
    Turn,
)

from .journal import Journal
from .tools import TOOLS, spelled_out, without_hashes

SEARCHES: Final = 1


class Gates:
    """Admission by what is available, authorisation by what was read, and hooks that leave a trace in the journal."""

    def __init__(self, journal: Journal, coverage: Coverage) -> None:
        self._journal = journal
        self._coverage = coverage

    def available(self, run: str, exchange: str) -> Availability:
        """Say what is available to the calls of one answer: of searches there are few, of reading there is no end."""
        where = Where(run=run, scope="reading", invocation=exchange, connection="recorded")
        availability = Availability(where)
        availability.tell(OwnerFact(where=where, search_budget=SEARCHES - self._journal.used("search")))
        return availability

    def admit(self, turn: Turn, action: Action) -> Allow | Refuse:
        """Let a call in if the owner's facts allow it; `turn.about` is the availability of this answer."""
        assert isinstance(turn.about, Availability)  # noqa: S101 - made above for each turn
        use = Use.SEARCH if action.tool == "search" else Use.READ_HELD
        refusal = turn.about.refusal(use, action.tool)
        return ALLOW if refusal is None else Refuse(refusal, "read on; reading is not limited")

    def authorise(self, _: Turn, call: Call) -> Allow | Refuse:
        """Let a report cite only bytes that some tool really gave."""
        unread = [each for each in call.arguments.get("citations", ()) if not self._was_read(each)]
        return Refuse("not_read", "read what you cite", retryable=True) if unread else ALLOW

    def _was_read(self, citation: Any) -> bool:
        known = self._coverage.of(citation["path"])
        start, stop = citation["offset"], citation["offset"] + len(citation["quote"].encode())
        return known is not None and any(begins <= start and stop <= ends for begins, ends in known.ranges)

    def before(self, proposed: Proposed) -> Normalise | None:
        """Have the tool's own table of aliases applied where a model calls an argument otherwise."""
        self._journal.note("hook", {"hook": "before", "action": proposed.action})
        changed = spelled_out(proposed.arguments) != dict(proposed.arguments)
        return Normalise("aliases") if changed and TOOLS[proposed.tool].rules else None

    def after(self, seen: Projected) -> Project | None:
        """Narrow the view further than the tool itself does."""
        self._journal.note("hook", {"hook": "after", "action": seen.action})
        return without_hashes(seen)

    def host(self, report: Any) -> ToolHost:
        """Return the one entry to all tools."""
        owner = Owner(self.admit, self.authorise, self._journal, self._journal)
        return ToolHost(owner, TOOLS, before=[self.before], after=[self.after], report=report)
