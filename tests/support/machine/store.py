"""The real thing: the service's own use cases, over a database, a queue, keys and a mirror of an example's own.

async with Store.fresh(base, url, valkey_url, directory) as store:
    await store.declare(0, "run-1", days=2)
"""

import asyncio
import shutil
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg

from policies.kinds import Kind, Role
from policies.revocation import Binding
from store import receipts
from store.clock import monotonic
from store.db import Database
from store.ids import ScopeId
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.mirror import Mirror
from store.queue import Entry, RunKey, Settlement
from store.services.admission import Sender
from store.services.buckets import ensure_buckets
from store.services.content import ContentReads
from store.services.declaring import Declaration
from store.services.expiry import Expiry
from store.services.ingest import Body
from store.services.keys import COMMAND_LINE, Caller
from store.services.paging import Reader
from store.services.persist import Persister
from store.services.publishing import Publishing, Round
from store.services.purge import Purge
from store.services.reads_open import ReadsOpen
from store.services.receipt_view import ReceiptView
from store.services.reconcile import Reconcile
from store.services.restore import Restore
from store.services.run_facts import RunFacts
from store.services.runs import Admission
from store.services.said import PartSaid
from store.services.sequencing import Sequencer
from store.services.standing import Duties
from store.services.write_batch import BatchWriter
from store.tickets import Ticket, TicketReader
from store.wiring import Services, open_services
from tests.support.api import settings_for
from tests.support.databases import at, drop, new_name
from tests.support.exporting import LOG
from tests.support.factories import SPAN_S
from tests.support.services import flush

LEASE: Final = timedelta(days=1)
POLICY: Final = {"retention": {"default": "1d", "max": "6d"}}
# What was closed an hour ago is destroyed in the first scope, and never in the second.
DESTROY_AFTER: Final = ("1h", "never")
# Nothing is waited for: a released hold ends with the next purge, and spans go as soon as they are over.
NO_GRACE: Final = 0
MOST_BYTES: Final = 1 << 20
MOST_DELIVERIES: Final = 3
_COMPARED: Final = (
    "UPDATE log_state SET compared_at = now() WHERE compared_on = this_database() AND stop IS NULL"
)


@dataclass
class Declared:
    """What a runtime has of a run."""

    scope: UUID
    run: str
    ticket: Ticket
    span: datetime


@dataclass
class Store:
    """`base` is a database with two scopes and their buckets, which is only copied, as is its key directory."""

    server_url: str
    valkey_url: str
    directory: Path
    name: str
    scopes: Sequence[UUID]
    runs: dict[str, Declared] = field(default_factory=dict)
    _exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    services: Services = field(init=False)
    owner: asyncpg.Connection = field(init=False)

    @property
    def url(self) -> str:
        return at(self.server_url, self.name)

    @property
    def keyring(self) -> Keyring:
        return self.services.keyring

    @property
    def duties(self) -> Database:
        assert self.services.duties_database is not None
        return self.services.duties_database

    @property
    def mirror(self) -> Mirror:
        return Mirror(self.directory / "mirror")

    # --- its database

    async def open(self) -> None:
        settings = settings_for(
            self.url, self.valkey_url, self.directory / "keys", mirror_dir=str(self.directory / "mirror")
        )
        self.services = await self._exits.enter_async_context(open_services(settings, duties=True))
        self.owner = await asyncpg.connect(self.url)
        self._exits.push_async_callback(self.owner.close)

    async def close(self) -> None:
        await self._exits.aclose()

    async def backup(self, name: str) -> None:
        """Copy the database as it is; nobody may be connected meanwhile."""
        await self.close()
        await copied(self.server_url, self.name, name)
        await self.open()

    async def go_back(self, name: str) -> None:
        """Put a backup in the database's place: another database, as its log's state must find out."""
        await self.close()
        await drop(self.server_url, self.name)
        await copied(self.server_url, name, self.name)
        await self.open()
        await self.owner.execute("UPDATE log_state SET compared_on = 'elsewhere'")

    async def drop(self, names: Iterable[str]) -> None:
        await self.close()
        for name in (self.name, *names):
            await drop(self.server_url, name)

    # --- runtimes

    def caller(self, scope: int) -> Caller:
        return Caller("0123456789abcdef", Role.RUNTIME, ScopeId(self.scopes[scope]), frozenset())

    async def declare(self, scope: int, run: str, **said: Any) -> Admission:
        found = await self.services.runs.declare(
            self.caller(scope), ScopeId(self.scopes[scope]), run, Declaration(**said)
        )
        if found.ticket is not None:
            reader = TicketReader(self.keyring.token_key("ticket"))
            end = found.row.standing.retain_until
            self.runs[run] = Declared(self.scopes[scope], run, reader.genuine(found.ticket), span_of(end))
        return found

    async def capture(
        self, run: str, exchange: str, content: bytes, bindings: Sequence[Binding] = ()
    ) -> ReceiptView:
        """What a runtime's post comes to once the guard has let it pass."""
        known = self.runs[run]
        ticket = known.ticket
        facts = RunFacts(
            ticket.run_uid, "open", ticket.retain_until, frozenset(), ticket.key_id, shared=False
        )
        sender = Sender(RunKey(known.scope, run), ticket.key_id, ticket, facts)
        said = PartSaid(exchange, "a-1", Kind.LOGICAL_REQUEST, bindings=tuple(bindings))
        (receipt,) = await self.services.ingest.capture(sender, [Body(said, content)])
        return receipt

    def evidence_of(self, receipt: ReceiptView, scope: int) -> UUID:
        """The id that a part will have."""
        key = self.keyring.token_key("receipt")
        return receipts.read(key, ScopeId(self.scopes[scope]), receipt.receipt).evidence

    async def write(self) -> None:
        """What another writer left, and then everything that waits, in a batch each."""
        queue = self.services.queue
        for entries in (await queue.reclaim(0, "machine", 0, 512), await queue.take(0, "machine", 512, 1)):
            await queue.settle(0, await self._written(entries))

    async def write_and_die(self) -> None:
        """What waits is committed, and nobody says so."""
        await self._written(await self.services.queue.take(0, "machine", 512, 1))

    async def _written(self, entries: Sequence[Entry]) -> Sequence[Settlement]:
        persister = Persister(self.services.database, self.keyring, most_bytes=MOST_BYTES)
        written = await BatchWriter(persister, max_deliveries=MOST_DELIVERIES).write(entries)
        assert (written.outage, written.waiting, written.at_fault) == (None, [], [])
        return written.settlements

    # --- duties

    def purging(self) -> Purge:
        return Purge(self.duties, self.keyring, self.services.queue, NO_GRACE)

    def expiring(self) -> Expiry:
        return Expiry(self.duties, self.keyring, self.services.queue, NO_GRACE)

    async def reconcile(self) -> None:
        at_once = timedelta(0)
        await Reconcile(self.duties, self.services.queue, at_once, timedelta(days=1)).run()

    async def sequence(self) -> dict[str, int]:
        """Where this database was ever compared, a moment ago: a publisher does so each second."""
        await self.owner.execute(_COMPARED)
        return dict(await Sequencer(self.duties, LEASE).run())

    async def publish(self) -> Round:
        publishing = Publishing(self.duties, self.mirror, LOG)
        return await publishing.round()

    async def standing(self, duty: str) -> dict[str, int]:
        """A duty as it is done under its lease, which looks whether it may be done at all."""
        duties = Duties(self.duties, self.services.queue, self.keyring, self.services.settings, None)
        return dict((await duties.perform(duty)).counts)

    def restoring(self) -> Restore:
        return Restore(
            self.duties, self.keyring, self.services.queue, self.mirror, self.purging(), self.expiring()
        )

    async def let_pass(self, spans: Iterable[datetime]) -> None:
        """Let spans be over, with the retention of the runs that end in them, as if time had gone on."""
        await self.owner.execute("ALTER TABLE buckets DROP CONSTRAINT IF EXISTS buckets_span_forward")
        for span in spans:
            await self.owner.execute(
                "UPDATE buckets SET span_end = now() - interval '1 second' WHERE span_start = $1", span
            )
            rows = await self.owner.fetch(
                "UPDATE runs SET retain_until = now() - interval '1 second',"
                " destroy_from = CASE WHEN destroy_from IS NOT NULL THEN now() - interval '1 second' END"
                " WHERE retain_until >= $1 AND retain_until < $2 AND retain_until > now() RETURNING scope_id, run",
                span, span + timedelta(seconds=SPAN_S),
            )  # fmt: skip
            over = datetime.now(UTC) - timedelta(seconds=1)
            for row in rows:
                await self.services.queue.narrow_run(RunKey(row["scope_id"], row["run"]), retain_until=over)

    # --- readers

    def reads(self) -> ContentReads:
        """As another process would read, which has looked at nothing yet."""
        reading = self.services.database.after(ReadsOpen(self.services.database, LEASE).require)
        return ContentReads(reading, self.keyring, self.services.access_log, self.services.metrics)

    def reader(self, scope: int, *, custodian: bool) -> Reader:
        role = Role.CUSTODIAN if custodian else Role.REVIEWER
        return Reader(ScopeId(self.scopes[scope]), "0123456789abcdef", role)


# --- what examples begin with


async def copied(server_url: str, name: str, to: str) -> None:
    connection = await asyncpg.connect(server_url)
    try:
        await connection.execute(f'CREATE DATABASE "{to}" TEMPLATE "{name}"')
    finally:
        await connection.close()


async def make_base(
    server_url: str, template: str, valkey_url: str, directory: Path
) -> tuple[str, list[UUID]]:
    """Make a database with two scopes, their buckets and keys; return its name and the scopes."""
    flush(valkey_url)
    keys = directory / "keys"
    keys.mkdir(mode=0o700)
    keyring = Keyring(FileKeyDirectory(keys), monotonic)
    keyring.create_token_keys()
    name = new_name()
    await copied(server_url, template, name)
    store = Store(server_url, valkey_url, directory, name, [])
    await store.open()
    try:
        scopes = []
        for number, destroy_after in enumerate(DESTROY_AFTER):
            policy = {**POLICY, "destroy_after": destroy_after}
            scope = await store.services.scopes.create(f"scope-{number}", policy, COMMAND_LINE)
            scopes.append(UUID(int=scope.scope_id.int))
        await ensure_buckets(store.duties, store.keyring, span_s=SPAN_S)
        store.keyring.create_intake_keys(datetime.now(UTC), 2)
        await Publishing(store.duties, store.mirror, LOG).begin()
        await store.sequence()
        await store.publish()
        return name, scopes
    finally:
        await store.close()


async def a_copy(base: "Base", server_url: str, valkey_url: str, directory: Path) -> Store:
    """A store of an example's own."""
    flush(valkey_url)
    await asyncio.to_thread(shutil.copytree, base.directory, directory)
    store = Store(server_url, valkey_url, directory, new_name(), base.scopes)
    await copied(server_url, base.name, store.name)
    await store.open()
    return store


@dataclass(frozen=True)
class Base:
    """A database and a directory that are only copied."""

    name: str
    directory: Path
    scopes: Sequence[UUID]


def span_of(instant: datetime) -> datetime:
    return datetime.fromtimestamp(instant.timestamp() // SPAN_S * SPAN_S, UTC)
