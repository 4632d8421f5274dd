"""What a declaration makes of a run: the first one fixes it, every later one can only narrow it.

Nothing here is written or asked; store.services.runs brings the rows and takes them away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from policies import admission
from policies.admission import Wish
from policies.decisions import Refuse
from policies.kinds import Content, Mode, RunState
from policies.reasons import Reason
from policies.revocation import Binding
from store import commitments
from store.errors import CustodyError, Malformed
from store.ids import ScopeId, new_run_uid
from store.keyring import Keyring
from store.services import marks
from store.services.scopes import Scope
from store.tables.runs import RunRow
from store.tables.source_sets import SourceSet

MAX_SOURCES: Final = 32
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one declaration says; None is "not said". Labels, sources and subject are checked already."""

    mode: Mode = Mode.NORMAL
    content: Content | None = None
    retention_s: int | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    sources: frozenset[Binding] = frozenset()
    subject: str | None = None
    shared: bool | None = None
    erase: bool = False

    @property
    def wish(self) -> Wish:
        """What of it the policies decide on."""
        return Wish(self.mode, self.content, self.retention_s)


def declared(
    keyring: Keyring, scope: Scope, key_id: str, run: str, said: Declaration, now: datetime
) -> RunRow:
    """Return the row of a run that nobody has declared before."""
    drawn = commitments.drawn(keyring.token_key("sampling"), scope.scope_id, run)
    standing = admission.declare(scope.policy, said.wish, drawn, now)
    # A temporary run leaves its id, its mode and counts, nothing else.
    kept = said if standing.mode is Mode.NORMAL else Declaration()
    return RunRow(
        run_uid=new_run_uid(), run=run, state=RunState.OPEN, erased=said.erase, standing=standing,
        shared=said.shared is True, owner_key=key_id, policy_version=scope.version, labels=_labels(kept.labels),
        subject=_subject(keyring, scope.scope_id, kept.subject),
        default_set=_set_id(keyring, scope.scope_id, kept.sources),
        sources=kept.sources, declared_at=now, closing_at=None, closed_at=None, never_closed=False, now=now,
    )  # fmt: skip


def narrowed(keyring: Keyring, scope: Scope, row: RunRow, said: Declaration) -> RunRow:
    """Return what a later declaration leaves of a run. Labels and subject are set once, sources are a union.

    One that turned temporary keeps what it had said before: what it stored stays, and must stay findable for erasure.
    """
    standing = admission.narrow(row.standing, scope.policy, said.wish, row.now, row.declared_at)
    kept = said if standing.mode is Mode.NORMAL else Declaration()
    sources = row.sources | kept.sources
    if len(sources) > MAX_SOURCES:
        raise Malformed(detail=f"at most {MAX_SOURCES} sources over all declarations of a run")
    return replace(
        row,
        standing=standing,
        erased=row.erased or said.erase,
        shared=row.shared and said.shared is not False,
        policy_version=max(row.policy_version, scope.version),
        labels=row.labels or _labels(kept.labels),
        subject=row.subject or _subject(keyring, scope.scope_id, kept.subject),
        sources=sources,
        default_set=_set_id(keyring, scope.scope_id, sources),
    )


def owned(row: RunRow, key_id: str) -> RunRow:
    """Return the run if this key may speak for it: the one that declared it, or any of the scope if it is shared."""
    if row.owner_key != key_id and not row.shared:
        raise CustodyError(Reason.PERMISSION_DENIED, "another key declared this run, and did not share it")
    return row


def queue_state(row: RunRow) -> str:
    """Return the run's state as the queue knows it: `open`, `closing`, or the reason why it takes no more parts."""
    if row.erased:
        return Reason.ERASED.value
    if row.state is RunState.CLOSED:
        return Reason.RUN_CLOSED.value
    decision = admission.admitted(row.standing, row.now)
    return decision.reason.value if isinstance(decision, Refuse) else row.state.value


def refusal(row: RunRow) -> Reason | None:
    """Return why the run's content may not be captured, if so; a closing run still takes what was on its way."""
    state = queue_state(row)
    return None if state in (RunState.OPEN, RunState.CLOSING) else Reason(state)


def source_set(scope: ScopeId, row: RunRow) -> SourceSet | None:
    """Return the row that the run's default sources point to, if it has any."""
    if row.default_set is None:
        return None
    ordered = marks.in_order(row.sources)
    return SourceSet(
        scope, row.default_set, [each.source for each in ordered], [each.version for each in ordered]
    )


def _set_id(keyring: Keyring, scope: ScopeId, sources: frozenset[Binding]) -> bytes | None:
    return marks.source_set_id(keyring.token_key("lookup"), scope, sources) if sources else None


def _subject(keyring: Keyring, scope: ScopeId, subject: str | None) -> bytes | None:
    if subject is None:
        return None
    return commitments.lookup_hash(keyring.token_key("lookup"), "subject", scope, subject.encode())


def _labels(labels: Mapping[str, str]) -> tuple[str, ...]:
    # A name holds no "=", so that the first one separates.
    return tuple(sorted(f"{name}={value}" for name, value in labels.items()))
