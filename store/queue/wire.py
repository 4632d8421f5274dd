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


def append_call(
    shard: ShardKeys, limits: ShardLimits, frames: Sequence[Frame]
) -> tuple[list[str], list[Any]]:
    """Return keys and arguments of the append script."""
    runs: dict[RunKey, int] = {}
    keys = [shard.entries, shard.pending, shard.outcomes]
    flat: list[Any] = []
    for frame in frames:
        key = frame.key
        run = runs.get(key)
        if run is None:
            run = runs[key] = len(runs) + 1
            keys += (shard.run(key), shard.scope(key.scope))
        if isinstance(frame, PartFrame):
            flat += _part(frame, run)
        else:
            flat += (frame.type, run, frame.header, frame.reason or "")
    return keys, [limits.parts, limits.bytes, len(runs), *(key.run for key in runs), *flat]


def _part(frame: PartFrame, run: int) -> tuple[Any, ...]:
    header = frame.header
    return (
        "part",
        run,
        f"i:{frame.exchange}/{frame.attempt}/{frame.kind}",
        f"{frame.evidence.hex}p{frame.key_id.hex()}{frame.digest.hex()}",
        frame.exact_bytes,
        frame.session or "",
        "" if frame.sequence is None else frame.sequence,
        header,
        "" if len(header) <= NOTE_BYTES else gap_header(header),
        frame.sealed,
    )


def read_answers(answers: Sequence[Any]) -> list[Answer]:
    """Read what the append script answered."""
    return [QUEUED if answer == 1 else ABSENT if answer == 0 else _other(answer) for answer in answers]


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
