"""Frames, headers and runs for the tests of the write queue."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from policies.limits import RunLimits, ScopeLimits
from policies.reasons import Reason
from store.queue import (
    FactHeader,
    GapHeader,
    NoteFrame,
    PartFrame,
    PartHeader,
    Queue,
    RunKey,
    StateHeader,
    encode,
)

RUN_UID = UUID(int=7)
KEY_ID = bytes.fromhex("0102030405060708")
FAR = datetime.now(UTC) + timedelta(days=30)


def new_key(run: str = "r") -> RunKey:
    """A run in a scope of its own."""
    return RunKey(uuid4(), run)


async def open_run(queue: Queue, key: RunKey, **facts: Any) -> None:
    """Let the queue know a run with default limits, or those named."""
    given: dict[str, Any] = {
        "run_uid": RUN_UID, "state": "open", "policy_version": 1, "retain_until": FAR, "temporary": False,
        "run_limits": RunLimits(), "scope_limits": ScopeLimits(),
    }  # fmt: skip
    await queue.open_run(key, **(given | facts))


def part(
    key: RunKey,
    exchange: str = "x",
    *,
    attempt: str = "a",
    kind: str = "logical-request",
    evidence: UUID | None = None,
    exact: int = 100,
    sealed: int = 160,
    session: str | None = None,
    sequence: int | None = None,
    digest: bytes = b"\x01" * 8,
    sources: list[tuple[str, int | None]] | None = None,
) -> PartFrame:
    """A part whose sealed body is made up."""
    evidence = evidence or uuid4()
    header = PartHeader(
        key.scope.bytes, RUN_UID.bytes, key.run, exchange, attempt, kind, evidence.bytes, session, sequence,
        "application/json", "complete", "sdk", None, 1_790_000_000_000_000, "unknown", "unknown", sources or [],
        1, KEY_ID,
    )  # fmt: skip
    return PartFrame(
        key, exchange, attempt, kind, evidence, encode(header), b"\x01" * sealed, exact, KEY_ID, digest,
        session, sequence,
    )  # fmt: skip


def state(key: RunKey, exchange: str = "x", attempt: str = "a") -> NoteFrame:
    """An attempt state."""
    header = StateHeader(
        key.scope.bytes,
        RUN_UID.bytes,
        key.run,
        exchange,
        attempt,
        "dispatched",
        "completed",
        [b"\x02" * 32],
        5,
    )
    return NoteFrame(key, "state", encode(header))


def gap(key: RunKey, reason: Reason | None = None) -> NoteFrame:
    """A gap that the client says, or with a reason the store."""
    header = GapHeader(
        key.scope.bytes, RUN_UID.bytes, key.run, "client", Reason.CLIENT_QUEUE_FULL.value, "s", 3, 9,
        None, None, None, 5,
    )  # fmt: skip
    return NoteFrame(key, "gap", encode(header), reason)


def fact(key: RunKey, body: bytes = b"{}") -> NoteFrame:
    """A fact; the queue does not look into it."""
    header = FactHeader(key.scope.bytes, RUN_UID.bytes, key.run, uuid4().bytes, body)
    return NoteFrame(key, "fact", encode(header))


async def keys_in(queue: Queue) -> list[str]:
    """Names of all keys in the queue's database."""
    return sorted(key.decode() for key in await queue._links.calls.keys("*"))


async def fields_of(queue: Queue, name: str) -> dict[str, str]:
    """A hash as text."""
    fields = await queue._links.calls.execute_command("HGETALL", name)
    return {field.decode(): value.decode() for field, value in fields.items()}
