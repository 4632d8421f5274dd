"""How frames become the arguments of the append script, and its answers ours. Runs for every frame: kept plain."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from policies.limits import NOTE_BYTES, ShardLimits
from policies.reasons import Reason
from store.queue.entries import gap_header
from store.queue.frames import ABSENT, QUEUED, Answer, Frame, PartFrame
from store.queue.keys import RunKey, ShardKeys

# Positions in an identity: evidence, then `s`, or `p` with key id and digest, each in hex.
_MARK: Final = 32
_KEY: Final = 33
_DIGEST: Final = 49

_REASONS: Final = {reason.value.encode(): reason for reason in Reason}


class _Run:
    """What goes to one run: the places of its frames among all, parts first, and the arguments."""

    __slots__ = ("fields", "note_places", "notes", "part_places", "parts")

    def __init__(self) -> None:
        self.part_places: list[int] = []
        self.note_places: list[int] = []
        self.fields: list[str] = []
        self.parts: list[Any] = []
        self.notes: list[Any] = []


def append_call(
    shard: ShardKeys, limits: ShardLimits, frames: Sequence[Frame]
) -> tuple[list[str], list[Any], list[int]]:
    """Return keys and arguments of the append script, and which frame each of its answers will be about."""
    runs: dict[RunKey, _Run] = {}
    for place, frame in enumerate(frames):
        run = runs.get(frame.key)
        if run is None:
            run = runs[frame.key] = _Run()
        if isinstance(frame, PartFrame):
            run.part_places.append(place)
            run.fields.append(f"i:{frame.exchange}/{frame.attempt}/{frame.kind}")
            run.parts += _part(frame)
        else:
            run.note_places.append(place)
            run.notes += (frame.type, frame.header, frame.reason or "")
    keys = [shard.entries, shard.pending, shard.outcomes]
    arguments: list[Any] = [limits.parts, limits.bytes, limits.notes]
    places: list[int] = []
    for key, run in runs.items():
        keys += (shard.run(key), shard.scope(key.scope))
        arguments += (key.run, len(run.part_places), len(run.note_places), *run.fields)
        arguments += run.parts
        arguments += run.notes
        places += run.part_places
        places += run.note_places
    return keys, arguments, places


def _part(frame: PartFrame) -> tuple[Any, ...]:
    header = frame.header
    return (
        f"{frame.evidence.hex}p{frame.key_id.hex()}{frame.digest.hex()}",
        frame.exact_bytes,
        frame.session or "",
        "" if frame.sequence is None else frame.sequence,
        header,
        "" if len(header) <= NOTE_BYTES else gap_header(header),
        frame.sealed,
    )


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
