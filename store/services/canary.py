"""Each minute one part of ours goes the whole way: declared, admitted, queued, stored, read back, compared.

It lives in a scope of its own, which keeps content and metadata as shortly as can be. What it posts is random, so that
it can be told from every other and says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from policies.kinds import Capture, Completeness, Kind, Role
from policies.quantities import duration_text
from policies.reasons import Reason
from store import ids
from store.clock import monotonic, utc_now
from store.errors import Conflict, Corrupt, CustodyError, NotFound, Refused, Unavailable
from store.ids import ScopeId
from store.queue import RunKey
from store.services.admission import Admission, Sending
from store.services.closing import Closing
from store.services.content import ContentReads
from store.services.declaring import Declaration
from store.services.ingest import Body, Ingest
from store.services.keys import COMMAND_LINE, Caller
from store.services.outcomes import Outcomes
from store.services.paging import Reader
from store.services.runs import RunBook
from store.services.said import PartSaid
from store.services.scopes import ScopeBook

SCOPE: Final = "custody-self"

# Nobody holds a key of this id: a key's id is never all zeros.
_KEY_ID: Final = "0" * 16
_RETENTION_S: Final = 7_200
_METADATA_S: Final = 86_400
_STORED_WITHIN_S: Final = 20.0
_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Canary:
    """The services of the way."""

    scopes: ScopeBook
    runs: RunBook
    admission: Admission
    ingest: Ingest
    outcomes: Outcomes
    content: ContentReads
    closing: Closing
    # The longest retention that other scopes usually have: ours is no longer, or it would need spans of its own.
    usual_max_s: int

    @property
    def retention_s(self) -> int:
        """Return how long what it posts is kept."""
        return min(_RETENTION_S, self.usual_max_s)

    async def run(self) -> Mapping[str, int]:
        """Send one part the whole way; whatever stands against it is raised."""
        began, now = monotonic(), utc_now()
        scope = await self.scope()
        posted = ids.secret(_BYTES)
        await self._come_back(scope, RunKey(scope, self._run_of(now)), posted)
        await self._close_former(scope, now)
        return {"ms": round((monotonic() - began) * 1000)}

    async def scope(self) -> ScopeId:
        """Return our own scope, making it where there is none."""
        try:
            return (await self.scopes.by_name(SCOPE)).scope_id
        except NotFound:
            pass
        try:
            return (await self.scopes.create(SCOPE, self._policy(), COMMAND_LINE)).scope_id
        except Conflict:
            return (await self.scopes.by_name(SCOPE)).scope_id

    async def _come_back(self, scope: ScopeId, key: RunKey, posted: bytes) -> None:
        who = Caller(_KEY_ID, Role.RUNTIME, scope, frozenset())
        admitted = await self.runs.declare(who, scope, key.run, Declaration(retention_s=self.retention_s))
        if admitted.reason is not None:
            raise Refused(admitted.reason)
        sender = await self.admission.sender(Sending(_KEY_ID, scope), key.run, admitted.ticket)
        said = PartSaid(
            exchange="canary",
            attempt=ids.new_id().hex,
            kind=Kind.LOGICAL_REQUEST,
            completeness=Completeness.COMPLETE,
        )
        await self.admission.permit(sender, said, len(posted))
        (receipt,) = await self.ingest.capture(sender, [Body(said, posted)])
        if receipt.capture is Capture.NOT_CAPTURED:
            raise CustodyError(receipt.reason or Reason.INTERNAL)
        stored = await self.outcomes.awaited(key, receipt, _STORED_WITHIN_S)
        if stored.capture is not Capture.STORED or stored.evidence is None:
            raise Unavailable(stored.reason or Reason.STORE_UNAVAILABLE, "the canary was not stored in time")
        read = await self.content.read(Reader(scope, _KEY_ID, Role.REVIEWER), stored.evidence, "canary")
        if read.content != posted:
            raise Corrupt(Reason.INTEGRITY_MISMATCH)

    async def _close_former(self, scope: ScopeId, now: datetime) -> None:
        """Close the run before this one, if there was one, so that it does not count as never closed."""
        try:
            await self.closing.close(_KEY_ID, scope, self._run_of(now, before=1), {})
        except Refused as refusal:
            if refusal.reason is not Reason.RUN_NOT_ADMITTED:
                raise

    def _run_of(self, now: datetime, *, before: int = 0) -> str:
        """Name a run for each half of a retention: it lives well beyond the last part that goes into it."""
        return f"canary-{int(now.timestamp()) // max(1, self.retention_s // 2) - before}"

    def _policy(self) -> dict[str, object]:
        retention = duration_text(self.retention_s)
        return {
            "retention": {"default": retention, "max": retention},
            "metadata_retention": duration_text(max(_METADATA_S, self.retention_s)),
            "destroy_after": retention,
        }
