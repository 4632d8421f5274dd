"""How frames become the arguments of the append script, and its answers ours. Runs for every frame: kept plain."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from policies.limits import NOTE_BYTES, ShardLimits
from policies.reasons import Reason
from store.queue.entries import gap_header
from store.queue.frames import ABSENT, QUEUED, Answer, Frame, NoteFrame, PartFrame
from store.queue.keys import RunKey, ShardKeys

# Positions in an identity: evidence, then `s`, or `p` with key id and digest, each in hex.
_MARK: Final = 32
_KEY: Final = 33
_DIGEST: Final = 49

_encoder: Final = msgspec.msgpack.Encoder()

_REASONS: Final = {reason.value.encode(): reason for reason in Reason}


class _Run:
    """What goes to one run: the places of its frames among all, parts first, their facts, and their bytes."""

    __slots__ = ("fields", "note_places", "notes", "notes_bytes", "part_places", "parts", "parts_bytes")

    def __init__(self) -> None:
        self.part_places: list[int] = []
        self.note_places: list[int] = []
        self.fields: list[str] = []
        self.parts: list[str | int] = []
        self.notes: list[str | int] = []
        self.parts_bytes: list[bytes] = []
        self.notes_bytes: list[bytes] = []

    def add_part(self, place: int, frame: PartFrame) -> None:
        """Add a part."""
        header, sealed = frame.header, frame.sealed
        gap = b"" if len(header) <= NOTE_BYTES else gap_header(header)
        self.part_places.append(place)
        self.fields.append(f"i:{frame.exchange}/{frame.attempt}/{frame.kind}")
        self.parts += (
            f"{frame.evidence.hex}p{frame.key_id.hex()}{frame.digest.hex()}",
            frame.exact_bytes,
            frame.session or "",
            "" if frame.sequence is None else frame.sequence,
            len(header),
            len(gap),
            len(sealed),
        )
        self.parts_bytes += (header, gap, sealed)

    def add_note(self, place: int, frame: NoteFrame) -> None:
        """Add a note."""
        self.note_places.append(place)
        self.notes += (frame.type, frame.reason or "", len(frame.header))
        self.notes_bytes.append(frame.header)

    def arguments(self, name: str) -> tuple[bytes, bytes]:
        """Return the facts in one list, and the bytes one behind the other."""
        counts = len(self.part_places), len(self.note_places)
        facts = _encoder.encode([name, *counts, *self.fields, *self.parts, *self.notes])
        return facts, b"".join(self.parts_bytes + self.notes_bytes)


def append_call(
    shard: ShardKeys, limits: ShardLimits, frames: Iterable[Frame]
) -> tuple[list[str], list[bytes | int], list[int]]:
    """Return keys and arguments of the append script, and which frame each of its answers will be about."""
    runs: dict[RunKey, _Run] = {}
    key, run = None, _Run()
    for place, frame in enumerate(frames):
        # One caller's frames bring one and the same key.
        if frame.key is not key:
            key = frame.key
            run = runs.setdefault(key, _Run())
        if isinstance(frame, PartFrame):
            run.add_part(place, frame)
        else:
            run.add_note(place, frame)
    keys = [shard.entries, shard.pending, shard.outcomes]
    arguments: list[bytes | int] = [limits.parts, limits.bytes, limits.notes]
    places: list[int] = []
    for key, run in runs.items():
        keys += (shard.run(key), shard.scope(key.scope))
        arguments += run.arguments(key.run)
        places += run.part_places
        places += run.note_places
    return keys, arguments, places


def read_answers(answers: Sequence[Any], places: Sequence[int]) -> list[Answer]:
    """Read what the append script answered, in the order of the frames."""
    found = [ABSENT] * len(places)
    for place, answer in zip(places, answers, strict=True):
        found[place] = QUEUED if answer == 1 else ABSENT if answer == 0 else _other(answer)
    return found


def _other(answer: bytes) -> Answer:
    if answer.startswith(b"x"):
        return read_identity(answer[1:])
    # A state that is no reason would be a fault of ours; it must not be read as any other answer.
    return Answer("refused", _REASONS[answer[2:]], recorded=answer[1:2] == b"1")


def read_identity(value: bytes) -> Answer:
    """Read an identity of a run's hash."""
    text = value.decode()
    evidence = UUID(text[:_MARK])
    if text[_MARK] == "s":
        return Answer("exists", evidence=evidence)
    key_and_digest = text.partition(":")[0]
    return Answer(
        "exists",
        evidence=evidence,
        pending=True,
        key_id=bytes.fromhex(key_and_digest[_KEY:_DIGEST]),
        digest=bytes.fromhex(key_and_digest[_DIGEST:]),
    )
