"""A flush: an array of frames `[type, header map, bytes?]` in MessagePack, each decided and answered on its own.

The header of a frame decides before its bytes are looked at; a frame that is not a frame does not fail the others.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from policies.decisions import Refuse
from policies.kinds import Completeness, Content, Dispatch, Kind, Settlement, Vantage
from policies.reasons import CLIENT_REASONS, Reason
from policies.sequences import LAST_SEQUENCE, SequenceSet
from store.errors import CustodyError, Malformed
from store.ids import caller_id
from store.services.admission import Admission, Sender
from store.services.ingest import Body, Ingest
from store.services.notes import Gap, Notes
from store.services.receipt_view import NoteView, ReceiptView
from store.services.said import (
    OPAQUE,
    PartSaid,
    StateSaid,
    bindings_of,
    captured_at,
    content_digest,
    media_type,
    part_said,
    state_said,
)

_outer: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
# Content comes as a view into the flush: no copy before the policies have decided.
_frame: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw, memoryview | None])
_short_frame: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_said: Final = msgspec.msgpack.Decoder(dict[str, Any])

_TEXTS: Final = (
    "session",
    "content-type",
    "content-digest",
    "completeness",
    "captured-at",
    "vantage",
    "dispatch",
    "settlement",
    "content",
)


class _Plain(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, gc=False):
    """A part's header as nearly every one is: known names only, each value of the type and words it should have."""

    exchange: str
    attempt: str
    kind: Kind
    session: str | None = None
    sequence: Annotated[int, msgspec.Meta(ge=1, le=LAST_SEQUENCE)] | None = None
    sources: list[tuple[str, int | None]] | None = None
    content_type: str = OPAQUE
    content_digest: str | None = None
    completeness: Completeness = Completeness.UNKNOWN
    captured_at: str | None = None
    vantage: Vantage = Vantage.SDK
    dispatch: Dispatch = Dispatch.UNKNOWN
    settlement: Settlement = Settlement.UNKNOWN
    content: Content = Content.ALLOW


Frame = Body | StateSaid | Gap
FrameView = ReceiptView | NoteView


def split(flush: bytes | memoryview, most_frames: int) -> list[msgspec.Raw]:
    """Return the frames of a flush, undecoded; Malformed if it is no array of at most `most_frames`."""
    try:
        frames = _outer.decode(flush)
    except (msgspec.DecodeError, RecursionError):
        raise Malformed(detail="a flush is a MessagePack array of frames") from None
    if len(frames) > most_frames:
        raise Malformed(detail=f"a flush holds at most {most_frames} frames")
    return frames


class Flushes:
    """Takes flushes, each of one sender."""

    def __init__(self, admission: Admission, ingest: Ingest, notes: Notes) -> None:
        self._admission = admission
        self._ingest = ingest
        self._notes = notes

    async def take(self, sender: Sender, session: str | None, raw: list[msgspec.Raw]) -> list[FrameView]:
        """Answer every frame, in order. All of them go to the queue together, which makes it one call."""
        frames = [_read(each, session) for each in raw]
        bodies = [await self._decided(sender, frame) for frame in frames if isinstance(frame, Body)]
        if len(bodies) == len(frames):
            return [*await self._ingest.capture(sender, bodies)]
        notes = [self._note(sender, frame) for frame in frames if not isinstance(frame, Body)]
        receipts, views = await asyncio.gather(self._ingest.capture(sender, bodies), asyncio.gather(*notes))
        of_bodies, of_notes = iter(receipts), iter(views)
        return [next(of_bodies) if isinstance(frame, Body) else next(of_notes) for frame in frames]

    async def _decided(self, sender: Sender, body: Body) -> Body:
        decision = await self._admission.decide(sender, body.said, len(body.content))
        if isinstance(decision, Refuse):
            return Body(body.said, b"", decision.reason)
        return body

    async def _note(self, sender: Sender, frame: StateSaid | Gap | CustodyError) -> NoteView:
        if isinstance(frame, CustodyError):
            return NoteView("unknown", recorded=False, reason=frame.reason)
        if isinstance(frame, Gap):
            (view,) = await self._notes.report(sender.key, sender.view.run_uid, [frame])
            return view
        return await self._notes.state(sender, frame)


def _read(raw: msgspec.Raw, session: str | None) -> Frame | CustodyError:
    """Read one frame, or return the error that is its answer."""
    try:
        kind, said, content = _parts_of(raw)
        if kind == "part":
            if content is None:
                # Nothing is not the same as an empty part, which has empty bytes.
                raise Malformed(detail="a part frame has bytes")
            return Body(_part(said, session), content)
        if kind == "state":
            return state_said(msgspec.convert(said, StateSaid))
        if kind == "gap":
            return gap_said(said.get("session", session), said.get("sequences"), said.get("reason"))
    except (msgspec.MsgspecError, CustodyError, RecursionError):
        return CustodyError(Reason.ENCODING_FAILED)
    return CustodyError(Reason.ENCODING_FAILED)


def _parts_of(raw: msgspec.Raw) -> tuple[str, Mapping[str, Any], memoryview | None]:
    try:
        kind, said, content = _frame.decode(raw)
    except msgspec.ValidationError:
        (kind, said), content = _short_frame.decode(raw), None
    return kind, _once(said), content


def _once(raw: msgspec.Raw) -> Mapping[str, Any]:
    """Read a frame's header map; one that names something twice has two readers and two meanings."""
    said = _said.decode(raw)
    header = memoryview(raw)
    size = _LENGTHS.get(header[0], 0)
    length = int.from_bytes(header[1 : 1 + size]) if size else header[0] & _FIXED_MAP
    if length != len(said):
        raise Malformed(detail="a frame names something twice")
    return said


def _part(said: Mapping[str, Any], session: str | None) -> PartSaid:
    try:
        plain = msgspec.convert(said, _Plain)
    except msgspec.ValidationError:
        return _carefully(said, session)
    session = session if plain.session is None else plain.session
    if session is None and plain.sequence is not None:
        return _carefully(said, session)
    return PartSaid(
        caller_id(plain.exchange),
        caller_id(plain.attempt),
        plain.kind,
        None if session is None else caller_id(session),
        plain.sequence,
        media_type(plain.content_type),
        content_digest(plain.content_digest),
        bindings_of(plain.sources) if plain.sources else (),
        plain.completeness,
        captured_at(plain.captured_at),
        plain.vantage,
        plain.dispatch,
        plain.settlement,
        plain.content,
    )


def _carefully(said: Mapping[str, Any], session: str | None) -> PartSaid:
    """Read a header of which something is not as it should be: name by name, the unclear as the stricter word."""
    texts = {name: _clear(said[name]) for name in _TEXTS if said.get(name) is not None}
    if "content" in said:
        # Also a nil: whatever is meant by it, it does not allow.
        texts["content"] = _clear(said["content"])
    if session is not None:
        texts.setdefault("session", session)
    if said.get("sequence") is not None:
        texts["sequence"] = str(said["sequence"])
    part = part_said(_text(said, "exchange"), _text(said, "attempt"), _text(said, "kind"), texts)
    sources = said.get("sources")
    if sources is None:
        return part
    if not isinstance(sources, list) or not all(
        isinstance(pair, list) and len(pair) == _PAIR for pair in sources
    ):
        raise Malformed(detail="sources are pairs of id and version or null")
    return msgspec.structs.replace(part, bindings=bindings_of([(pair[0], pair[1]) for pair in sources]))


def _clear(value: object) -> str:
    """Return a text; for anything else one that is no word, no id and no digest."""
    return value if isinstance(value, str) else _UNCLEAR


def gap_said(session: object, sequences: object, reason: object) -> Gap:
    """Check one report of the runtime's own losses."""
    if not isinstance(session, str) or not isinstance(sequences, str) or not isinstance(reason, str):
        raise Malformed(detail="a gap has session, sequences and reason")
    if reason not in CLIENT_REASONS:
        raise Malformed(detail="that is no reason that a runtime can say")
    try:
        numbers = SequenceSet.from_text(sequences)
    except ValueError:
        raise Malformed(detail="sequences are ranges such as 1-3,7") from None
    return Gap(caller_id(session), numbers, Reason(reason))


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise Malformed(detail=f"a part frame names its {name}")
    return value


_PAIR: Final = 2
_UNCLEAR: Final = "?"
# The first byte of a MessagePack map says how long it is, or how many bytes after it do.
_FIXED_MAP: Final = 0x0F
_LENGTHS: Final = {0xDE: 2, 0xDF: 4}
