"""What goes to the queue besides parts: gaps, what a runtime says of its attempts, and facts of its toolchain.

Whether the store will remember a note is its whole answer; if not, the runtime keeps it and tells it again.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import SaidBy
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store import commitments
from store.clock import utc_now
from store.errors import Unavailable
from store.ids import new_id
from store.keyring import Keyring
from store.queue import ABSENT, Answer, Frame, NoteFrame, Queue, RunKey, entries
from store.queue.entries import FactHeader, GapHeader, StateHeader
from store.services.admission import Sender
from store.services.receipt_view import NoteView, minted_us
from store.services.runs import RunBook
from store.services.said import PartSaid, StateSaid

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EXPIRED: Final = Answer("refused", Reason.RETENTION_EXPIRED)


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Numbers of a session that will not come, and why."""

    session: str
    sequences: SequenceSet
    reason: Reason


class Notes:
    """Puts frames into the queue for one api process."""

    def __init__(self, queue: Queue, keyring: Keyring, runs: RunBook) -> None:
        self._queue = queue
        self._keyring = keyring
        self._runs = runs

    async def append(self, key: RunKey, frames: Sequence[Frame]) -> list[Answer]:
        """Append frames of one run; where the queue lost or forgot it, open it again once."""
        answers = await self._queue.append(frames)
        absent = [index for index, answer in enumerate(answers) if answer is ABSENT]
        if absent and await self._runs.reopen(key) is not None:
            again = await self._queue.append([frames[index] for index in absent])
            for index, answer in zip(absent, again, strict=True):
                # Of the runs that there are, the queue holds all but those past their retention.
                answers[index] = _EXPIRED if answer is ABSENT else answer
        return answers

    async def record(self, frames: Sequence[NoteFrame]) -> list[Reason | None]:
        """Queue notes of one run, and say of each why the store will not remember it; None if it will."""
        if not frames:
            return []
        try:
            answers = await self.append(frames[0].key, frames)
        except Unavailable as outage:
            return [outage.reason] * len(frames)
        return [None if answer.outcome == "queued" else reason_of(answer) for answer in answers]

    async def refuse_range(self, key: RunKey, run_uid: UUID | None, gap: Gap) -> bool:
        """Record the numbers of a flush that was refused unread; False if the store will not remember."""
        if run_uid is None:
            return False
        unsaid = await self.record(_range_frames(key, run_uid, gap, SaidBy.STORE, utc_now()))
        return not any(unsaid)

    async def report(self, key: RunKey, run_uid: UUID, gaps: Sequence[Gap]) -> list[NoteView]:
        """Take the runtime's own losses; a union, so that a repeat changes nothing."""
        now = utc_now()
        frames = [_range_frames(key, run_uid, gap, SaidBy.CLIENT, now) for gap in gaps]
        unsaid = iter(await self.record(list(chain.from_iterable(frames))))
        return [_note("gap", [next(unsaid) for _ in each]) for each in frames]

    async def state(self, sender: Sender, said: StateSaid) -> NoteView:
        """Take what the runtime says of an attempt; ids of others become keyed hashes here and go no further."""
        header = StateHeader(
            scope=sender.key.scope.bytes,
            run_uid=sender.view.run_uid.bytes,
            run=sender.key.run,
            exchange=said.exchange,
            attempt=said.attempt,
            dispatch=said.dispatch,
            settlement=said.settlement,
            refs=[self._ref(sender.key.scope, ref) for ref in said.refs],
            at=microseconds(utc_now()),
        )
        return _note(
            "state", await self.record([NoteFrame(sender.key, "state", entries.encode(header), None)])
        )

    async def facts(self, sender: Sender, told: Sequence[bytes | Reason]) -> list[NoteView]:
        """Take facts as the store writes them; what is none has its reason, and takes no other with it."""
        frames = [_fact_frame(sender, each) for each in told if isinstance(each, bytes)]
        unsaid = iter(await self.record(frames))
        return [_note("fact", [next(unsaid) if isinstance(each, bytes) else each]) for each in told]

    def _ref(self, scope: UUID, ref: str) -> bytes:
        return commitments.lookup_hash(self._keyring.token_key("lookup"), "ref", scope, ref.encode())


def refusal_frame(key: RunKey, run_uid: UUID, said: PartSaid, reason: Reason, evidence: UUID) -> NoteFrame:
    """Return the gap of an observation that the store refuses; its receipt has the id `evidence`."""
    header = GapHeader(
        scope=key.scope.bytes,
        run_uid=run_uid.bytes,
        run=key.run,
        said_by=SaidBy.STORE,
        reason=reason,
        session=said.session,
        first=said.sequence,
        last=said.sequence,
        exchange=said.exchange,
        attempt=said.attempt,
        kind=said.kind,
        at=minted_us(evidence),
    )
    return NoteFrame(key, "gap", entries.encode(header), reason)


def reason_of(answer: Answer) -> Reason:
    """Return why a frame was not taken; a run that nobody knows has no reason of its own."""
    return answer.reason or Reason.RUN_NOT_ADMITTED


def microseconds(instant: datetime) -> int:
    """Return a time as headers carry it, in whole numbers: a float of this size is off by one now and then."""
    return (instant - _EPOCH) // _MICROSECOND


def _range_frames(key: RunKey, run_uid: UUID, gap: Gap, said_by: SaidBy, now: datetime) -> list[NoteFrame]:
    def header(first: int, last: int) -> GapHeader:
        return GapHeader(
            scope=key.scope.bytes,
            run_uid=run_uid.bytes,
            run=key.run,
            said_by=said_by,
            reason=gap.reason,
            session=gap.session,
            first=first,
            last=last,
            exchange=None,
            attempt=None,
            kind=None,
            at=microseconds(now),
        )

    return [
        NoteFrame(key, "gap", entries.encode(header(start, stop - 1)), gap.reason)
        for start, stop in gap.sequences.ranges
    ]


def _fact_frame(sender: Sender, body: bytes) -> NoteFrame:
    header = FactHeader(
        scope=sender.key.scope.bytes,
        run_uid=sender.view.run_uid.bytes,
        run=sender.key.run,
        fact_uid=new_id().bytes,
        body=body,
    )
    return NoteFrame(sender.key, "fact", entries.encode(header))


def _note(kind: str, unsaid: Iterable[Reason | None]) -> NoteView:
    """Answer one note, which may have become several entries: recorded is only what is recorded whole."""
    reason = next((each for each in unsaid if each is not None), None)
    return NoteView(kind, recorded=reason is None, reason=reason)
