"""A runtime that keeps its own books: what it numbered, what it was told of each, and whether the store's books agree.

The store's word about one number is read from the outside: rows of parts, ranges of gaps, entries that still wait.
Redis is read before Postgres, so that what leaves the one is always seen in the other.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import httpx
import msgspec

from policies.kinds import PartState
from store.queue import GapHeader, PartHeader, entries
from store.services import sizes
from store.services.verify import verify
from tests.support.stack import Stack, until

REQUEST: Final = "logical-request"
OUTPUT: Final = "observable-output"
UNANSWERED: Final = "unanswered"
QUEUED: Final = "queued"
STORED: Final = "stored"
LOST: Final = "not_captured"
SESSION: Final = "session-1"


@dataclass
class Said:
    """One observation, and the last answer about it."""

    sequence: int
    exchange: str
    content: bytes
    kind: str = REQUEST
    attempt: str = "attempt-1"
    capture: str = UNANSWERED
    reason: str | None = None
    recorded: bool = False
    receipt: str = ""
    status: int = 0

    def took(self, receipt: Mapping[str, Any]) -> None:
        self.capture, self.reason = receipt["capture"], receipt["reason"]
        self.recorded, self.receipt = receipt["recorded"], receipt["receipt"]


@dataclass
class Runtime:
    """One run of one key, with one session."""

    client: httpx.AsyncClient
    key: Mapping[str, str]
    scope: UUID
    run: str
    session: str = SESSION
    ticket: str = ""
    said: dict[int, Said] = field(default_factory=dict)

    async def declare(self, **wishes: Any) -> dict[str, Any]:
        answer = await self.client.put(f"/v1/runs/{self.run}", json=wishes, headers=self.key)
        assert answer.status_code in (200, 201, 202), answer.text
        admission: dict[str, Any] = answer.json()
        self.ticket = admission["ticket"] or self.ticket
        return admission

    def observe(self, content: bytes, **named: Any) -> Said:
        """Number one observation."""
        sequence = len(self.said) + 1
        said = Said(sequence, named.pop("exchange", f"exchange-{sequence}"), content, **named)
        self.said[sequence] = said
        return said

    def headers(self, said: Said) -> dict[str, str]:
        return {
            **self.key,
            "Custody-Ticket": self.ticket,
            "Custody-Session": self.session,
            "Custody-Sequence": str(said.sequence),
            "Content-Type": "application/json",
        }

    def path(self, said: Said) -> str:
        return f"/v1/runs/{self.run}/exchanges/{said.exchange}/attempts/{said.attempt}/parts/{said.kind}"

    async def put(self, said: Said, **headers: str) -> Said:
        """Post one part; what is not answered stays `unanswered`."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            answer = await self.client.put(
                self.path(said), content=said.content, headers={**self.headers(said), **more}
            )
        except httpx.TransportError:
            return said
        said.status = answer.status_code
        found = answer.json()
        if "capture" in found or "receipt" in found:
            said.took(found if "capture" in found else found["receipt"])
        else:
            said.capture, said.reason, said.recorded = LOST, found["reason"], found.get("recorded", False)
        return said

    async def flush(self, said: Sequence[Said]) -> Sequence[Said]:
        """Post several in one request."""
        frames = [["part", {
            "exchange": each.exchange, "attempt": each.attempt, "kind": each.kind, "sequence": each.sequence,
            "content-type": "application/json",
        }, each.content] for each in said]  # fmt: skip
        headers = {
            **self.key,
            "Custody-Ticket": self.ticket,
            "Custody-Session": self.session,
            "Custody-Sequences": f"{said[0].sequence}-{said[-1].sequence}",
            "Content-Type": "application/msgpack",
        }
        try:
            answer = await self.client.post(
                f"/v1/runs/{self.run}/frames", content=msgspec.msgpack.encode(frames), headers=headers
            )
        except httpx.TransportError:
            return said
        found = answer.json()
        for at, each in enumerate(said):
            each.status = answer.status_code
            if "receipts" in found:
                each.took(found["receipts"][at])
            else:
                each.capture, each.reason, each.recorded = LOST, found["reason"], found.get("recorded", False)
        return said

    async def report(self, said: Sequence[Said], reason: str = "client_transport") -> None:
        """Tell the store of what it will not remember by itself."""
        sequences = ",".join(str(each.sequence) for each in said)
        gaps = [{"session": self.session, "sequences": sequences, "reason": reason}]
        answer = await self.client.post(
            f"/v1/runs/{self.run}/gaps",
            json={"gaps": gaps},
            headers={**self.key, "Custody-Ticket": self.ticket},
        )
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        assert answer.json()["gaps"][0]["recorded"], answer.text

    async def receipt(self, said: Said) -> dict[str, Any]:
        answer = await self.client.get(f"/v1/receipts/{said.receipt}", headers=self.key)
        assert answer.status_code == httpx.codes.OK, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def close(self) -> dict[str, Any]:
        answer = await self.client.post(
            f"/v1/runs/{self.run}/close", json={"sessions": {self.session: len(self.said)}}, headers=self.key
        )
        assert answer.status_code in (200, 202), answer.text
        standing: dict[str, Any] = answer.json()
        return standing

    @property
    def last(self) -> Said:
        return self.said[len(self.said)]

    def counts(self) -> Counter[str]:
        """How many of each answer: `queued`, `stored`, `unanswered`, or the reason."""
        return Counter(each.reason or each.capture for each in self.said.values())

    def told(self, *captures: str) -> list[Said]:
        return [each for each in self.said.values() if each.capture in captures]


@dataclass
class Books:
    """What the store holds of one run and session, by number; `merged` counts what it keeps without one."""

    stored: dict[int, UUID] = field(default_factory=dict)
    gaps: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    waiting_gaps: dict[int, set[str]] = field(default_factory=dict)
    merged: int = 0

    @property
    def known(self) -> set[int]:
        return {*self.stored, *self.gaps, *self.waiting, *self.waiting_gaps}

    def by_outcome(self) -> Counter[str]:
        """Each number once: stored, else waiting, else the reason of its gap (store before client before count)."""
        counts: Counter[str] = Counter()
        for sequence in self.known:
            counts[self.outcome(sequence)] += 1
        counts["merged"] = self.merged
        return +counts

    def outcome(self, sequence: int) -> str:
        if sequence in self.stored:
            return STORED
        if sequence in self.waiting:
            return QUEUED
        if gaps := self.gaps.get(sequence):
            order = ["store", "client", "count"]
            return min(gaps, key=lambda gap: order.index(gap[0]))[1]
        return min(self.waiting_gaps.get(sequence, {"nothing"}))


async def books_of(stack: Stack, runtime: Runtime) -> Books:
    """Read what the store knows of a runtime's numbers, in both of the places where it may be."""
    books = Books()
    _read_queue(stack, runtime, books)
    for row in await stack.rows(
        "SELECT p.sequence, p.evidence, p.state FROM parts p JOIN runs r USING (scope_id, run_uid)"
        " WHERE scope_id = $1 AND r.run = $2 AND p.session = $3",
        runtime.scope, runtime.run, runtime.session,
    ):  # fmt: skip
        assert row["sequence"] not in books.stored, f"number {row['sequence']} is stored twice"
        assert row["state"] == PartState.STORED
        books.stored[row["sequence"]] = row["evidence"]
    for row in await stack.rows(
        "SELECT g.said_by, g.reason, g.sequences, g.merged, g.session FROM gaps g JOIN runs r USING (scope_id, run_uid)"
        " WHERE scope_id = $1 AND r.run = $2 AND g.exchange IS NULL",
        runtime.scope, runtime.run,
    ):  # fmt: skip
        books.merged += row["merged"]
        for span in row["sequences"] or () if row["session"] == runtime.session else ():
            for sequence in range(span.lower, span.upper):
                books.gaps.setdefault(sequence, set()).add((row["said_by"], row["reason"]))
    return books


def _read_queue(stack: Stack, runtime: Runtime, books: Books) -> None:
    with stack.redis() as client:
        for entry_id, fields in client.xrange("custody:{q0}:entries"):
            entry = entries.read(entry_id, fields, 1)
            assert entry is not None
            header = entry.header
            if (
                entry.key != (runtime.scope, runtime.run)
                or getattr(header, "session", None) != runtime.session
            ):
                continue
            if isinstance(header, PartHeader) and header.sequence is not None:
                books.waiting.add(header.sequence)
            elif isinstance(header, GapHeader) and header.first is not None and header.last is not None:
                reason = header.reason if entry.reason is None else entry.reason.value
                for sequence in range(header.first, header.last + 1):
                    books.waiting_gaps.setdefault(sequence, set()).add(reason or "")


def agree(runtime: Runtime, books: Books, *, merged: bool = False) -> None:
    """Compare both books: every answer holds, nothing is there that was not sent, and all numbers add up."""
    strange = books.known - runtime.said.keys()
    assert not strange, f"numbers that nobody sent: {sorted(strange)}"
    missing = []
    for said in runtime.said.values():
        outcome = books.outcome(said.sequence)
        if said.capture in (QUEUED, STORED):
            if said.sequence not in books.known:
                missing.append((said.sequence, said.capture, outcome))
            if said.capture == STORED:
                assert outcome == STORED, (said.sequence, outcome)
        elif said.capture == LOST and said.recorded:
            # Posted again it may have been stored; else the reason stands, until one that is nearer to the truth.
            if said.sequence not in books.known:
                missing.append((said.sequence, said.reason or "", outcome))
        elif said.capture == LOST:
            assert outcome in ("nothing", STORED, QUEUED, "client_transport"), (
                said.sequence,
                said.reason,
                outcome,
            )
    if merged:
        assert len(missing) <= books.merged, (missing, books.merged)
    else:
        assert not missing, missing
        assert not books.merged
    unknown = runtime.said.keys() - books.known
    assert sum(books.by_outcome().values()) + len(unknown) - (books.merged if merged else 0) == len(
        runtime.said
    )


async def drained(stack: Stack, within_s: float = 20.0) -> None:
    """Wait until nothing waits any more."""

    async def look() -> bool:
        with stack.redis() as client:
            return bool(client.xlen("custody:{q0}:entries") == 0)

    await until(look, "the queue is empty", within_s)


async def nothing_reserved(stack: Stack) -> None:
    """All reservations are back: of the shard, of scopes, of runs; and runs count what is stored of them."""
    stored = {
        f"custody:{{q0}}:run:{row['scope_id'].hex}:{row['run']}": row
        for row in await stack.rows(
            "SELECT r.scope_id, r.run, count(p.evidence) AS parts,"
            " coalesce(array_agg(b.evidence) FILTER (WHERE b.evidence IS NOT NULL), '{}') AS bodies,"
            " array_agg(b.exact_bytes) FILTER (WHERE b.evidence IS NOT NULL) AS resting"
            " FROM runs r LEFT JOIN parts p USING (scope_id, run_uid)"
            " LEFT JOIN bodies b ON b.span_start = p.span_start AND b.scope_id = p.scope_id AND b.evidence = p.evidence"
            " GROUP BY r.scope_id, r.run"
        )
    }
    lookup = (await stack.services()).keyring.token_key("lookup")
    with stack.redis() as client:
        assert client.xlen("custody:{q0}:entries") == 0
        if client.exists("custody:{q0}:entries"):
            assert client.xpending("custody:{q0}:entries", "writers")["pending"] == 0
        shard = client.hgetall("custody:{q0}:pending")
        assert {int(value) for value in shard.values()} <= {0}, shard
        assert not client.keys("custody:{q0}:scope:*")
        for key in client.keys("custody:{q0}:run:*"):
            # One of its fields is no text: whose the run is.
            run = {
                name.decode(): value.decode(errors="replace") for name, value in client.hgetall(key).items()
            }
            assert {run["wparts"], run["wbytes"], run["wnotes"]} == {"0"}, (key, run)
            identities = [value for name, value in run.items() if name.startswith("i:")]
            assert all(value.endswith("s") for value in identities), identities
            row = stored[key.decode()]
            # What was destroyed is not subtracted while the run goes on.
            if len(row["bodies"]) == row["parts"]:
                stays = zip(row["bodies"], row["resting"] or (), strict=True)
                size = sum(sizes.exact(lookup, evidence, resting) for evidence, resting in stays)
                assert (int(run["parts"]), int(run["bytes"])) == (row["parts"], size), key


async def sound(stack: Stack) -> None:
    """Everything that is stored is what it was committed to, and no reservation is left over."""
    await nothing_reserved(stack)
    services = await stack.services()
    report = await verify(services.database, services.keyring, services.queue)
    assert report.sound, report.faults
