"""The one composition root: from settings to everything that a process uses. Nothing here decides anything.

Opening connects to nobody: a process starts, and answers what it can, also while Postgres or Redis is away.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from store import clock
from store.config import Settings
from store.db import DUTIES_ROLE, SERVICE_ROLE, Database
from store.errors import ConfigFaults
from store.forms import Secret
from store.key_directory import FileKeyDirectory, KeyDirectory
from store.keyring import Keyring
from store.log_tree.notes import Signer
from store.mirror import Mirror
from store.queue import Queue
from store.services import part_proofs
from store.services.access import AccessLog, AccessPages
from store.services.actions import ActionPages
from store.services.admission import Admission
from store.services.alarms import Alarms
from store.services.bodies import BodyBudget
from store.services.buckets import longest_retention_s
from store.services.canary import Canary
from store.services.closing import Closing
from store.services.console_sessions import ConsoleSessions
from store.services.content import ContentReads
from store.services.disk import Disk
from store.services.erasures import Erasures
from store.services.expiry import Expiry
from store.services.exports import Exports
from store.services.flushes import Flushes
from store.services.holds import Holds
from store.services.ingest import Ingest
from store.services.key_marks import make_keys, own_keys
from store.services.keys import KeyBook
from store.services.lens import Lens
from store.services.log_standing import LogStandings
from store.services.metrics import Metrics
from store.services.notes import Notes
from store.services.outcomes import Outcomes
from store.services.overview import Overview
from store.services.paging import Pager
from store.services.proofs import Proofs
from store.services.publishing import Publishing
from store.services.purge import Purge
from store.services.queue_depths import QueueHistory
from store.services.read_volume import ReadVolume
from store.services.readback import Readback
from store.services.reads_open import ReadsOpen
from store.services.receipt_view import ReceiptWriter
from store.services.restore import Restore
from store.services.run_lists import RunLists
from store.services.run_maps import RunMaps
from store.services.run_reads import RunReads
from store.services.runs import RunBook
from store.services.scopes import ScopeBook
from store.services.sources import SourceBook
from store.services.standing import Duties
from store.tickets import TicketReader

# How often it is written when keys were used last.
_USES_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers, workers and commands work with."""

    settings: Settings
    database: Database
    duties_database: Database | None
    queue: Queue
    keyring: Keyring
    metrics: Metrics
    scopes: ScopeBook
    keys: KeyBook
    console_sessions: ConsoleSessions
    runs: RunBook
    closing: Closing
    sources: SourceBook
    outcomes: Outcomes
    admission: Admission
    ingest: Ingest
    notes: Notes
    flushes: Flushes
    bodies: BodyBudget
    erasures: Erasures
    holds: Holds
    overview: Overview
    queue_history: QueueHistory
    alarms: Alarms
    readback: Readback
    run_reads: RunReads
    run_lists: RunLists
    run_maps: RunMaps
    lens: Lens
    content: ContentReads
    access_log: AccessLog
    accesses: AccessPages
    proofs: Proofs
    log_standing: LogStandings
    actions: ActionPages
    exports: Exports


@asynccontextmanager
async def open_services(settings: Settings, *, duties: bool = False) -> AsyncIterator[Services]:
    """Put everything together, and take it apart afterwards; `duties` adds the role that may change partitions."""
    async with AsyncExitStack() as stack:
        database = await _database(stack, settings.database_url, SERVICE_ROLE, settings.db_pool)
        duties_database = None
        if duties:
            duties_database = await _database(
                stack, settings.duties_database_url, DUTIES_ROLE, settings.db_pool
            )
        keyring = open_keyring(settings)
        await stack.enter_async_context(own_keys(database, keyring))
        queue = Queue.open(settings)
        stack.push_async_callback(queue.close)
        services = _services(settings, database, duties_database, queue, keyring)
        await stack.enter_async_context(_uses_written(services.keys))
        stack.push_async_callback(services.access_log.close)
        yield services


def duties_of(services: Services) -> Duties:
    """Return the standing duties, for services that were opened with `duties`."""
    if services.duties_database is None:
        raise ValueError("the services were opened without the duties' role")
    canary = canary_of(services).run if services.settings.canary else None
    return Duties(services.duties_database, services.queue, services.keyring, services.settings, canary)


def restore_of(services: Services) -> Restore:
    """Return what brings back what a backup lacks, for services that were opened with `duties`."""
    database, settings = services.duties_database, services.settings
    if database is None:
        raise ValueError("the services were opened without the duties' role")
    span_s = int(settings.bucket_span.total_seconds())
    return Restore(
        database,
        services.keyring,
        services.queue,
        Mirror(settings.mirror_dir),
        Purge(database, services.keyring, services.queue, settings.hold_grace.total_seconds(), span_s),
        Expiry(database, services.keyring, services.queue, span_s),
    )


def canary_of(services: Services) -> Canary:
    """Return what goes the whole way once a minute."""
    return Canary(
        scopes=services.scopes,
        runs=services.runs,
        admission=services.admission,
        ingest=services.ingest,
        outcomes=services.outcomes,
        content=services.content,
        closing=services.closing,
        usual_max_s=services.settings.scope_policy().retention_max_s,
    )


def key_directory(settings: Settings) -> KeyDirectory:
    """Return where the keys are. A signing key that lives apart has no copy where other processes would see it."""
    apart = settings.signing_keys_dir != settings.keys_dir / "signing"
    return FileKeyDirectory(
        settings.keys_dir,
        settings.keys_copy_dir,
        token=settings.token_keys_dir,
        signing=settings.signing_keys_dir if apart else None,
    )


def open_keyring(settings: Settings) -> Keyring:
    """Return the keys of this process. It makes none: without those of our signed texts it is in the wrong place."""
    keyring = Keyring(key_directory(settings), clock.monotonic)
    missing = keyring.missing_token_keys()
    if missing:
        named = f"{settings.token_keys_dir} has no key for {', '.join(missing)}"
        raise ConfigFaults(
            [
                f"{named}: is it mounted? In a new store, make the keys with `python -m store keys-at-rest init`"
            ]
        )
    return keyring


@asynccontextmanager
async def open_publishing(settings: Settings) -> AsyncIterator[tuple[Database, Publishing]]:
    """Put together what the publisher works with; ConfigFaults where the key that signs is not here."""
    seed = Keyring(key_directory(settings), clock.monotonic).signing_seed()
    if seed is None:
        missing = f"{settings.signing_keys_dir} has no key that signs the log"
        raise ConfigFaults([f"{missing}: `python -m store keys-at-rest init` makes it in a new store"])
    async with AsyncExitStack() as stack:
        database = await _database(stack, settings.duties_database_url, DUTIES_ROLE, 2)
        signer = Signer(settings.log_origin, seed)
        yield database, Publishing(database, Mirror(settings.mirror_dir), signer)


async def make_all_keys(settings: Settings, *, lost: bool = False) -> None:
    """Make the keys of a new store, where they are not there; only who sets a store up does. `lost`: see make_keys."""
    async with AsyncExitStack() as stack:
        database = await _database(stack, settings.database_url, SERVICE_ROLE, 1)
        await make_keys(database, Keyring(key_directory(settings), clock.monotonic), lost=lost)


def _services(
    settings: Settings, database: Database, duties_database: Database | None, queue: Queue, keyring: Keyring
) -> Services:
    span_s = int(settings.bucket_span.total_seconds())
    scopes = ScopeBook(database, settings.scope_policy, longest_s=longest_retention_s(span_s))
    runs = RunBook(
        database,
        queue,
        keyring,
        scopes,
        view_age=settings.run_view_age,
        ticket_lifetime=settings.ticket_lifetime,
        closing=settings.closing,
    )
    sources = SourceBook(database)
    receipts = ReceiptWriter(keyring.token_key("receipt"))
    outcomes = Outcomes(database, queue, keyring, scopes, receipts, settings.overdue_after)
    admission = Admission(
        TicketReader(keyring.token_key("ticket")),
        runs,
        scopes,
        sources,
        Disk(database, settings.disk_limit),
    )
    pager = Pager(lambda: keyring.token_key("cursor"))
    # Whoever shows evidence asks by this one.
    reading = database.after(ReadsOpen(database, settings.reads_lease).require)
    metrics, overview = Metrics(), Overview(database, settings.canary)
    keys = KeyBook(database, refresh=settings.key_refresh, grace=settings.key_grace)
    access_log = AccessLog(database, ReadVolume(database, metrics))
    notes = Notes(queue, keyring, runs)
    ingest = Ingest(notes, keyring, outcomes, receipts)
    return Services(
        settings=settings,
        database=database,
        duties_database=duties_database,
        queue=queue,
        keyring=keyring,
        metrics=metrics,
        scopes=scopes,
        keys=keys,
        console_sessions=ConsoleSessions(
            database, keys, idle=settings.console_idle, longest=settings.console_session
        ),
        runs=runs,
        closing=Closing(database, queue, runs, closing=settings.closing),
        sources=sources,
        outcomes=outcomes,
        admission=admission,
        ingest=ingest,
        notes=notes,
        flushes=Flushes(admission, ingest, notes),
        bodies=BodyBudget(settings.body_budget),
        erasures=Erasures(database, keyring, queue),
        holds=Holds(database),
        overview=overview,
        queue_history=QueueHistory(database),
        alarms=Alarms(database, queue, overview, settings),
        readback=Readback(reading, keyring, pager, part_proofs.state_of, examined=settings.page_examined),
        run_reads=RunReads(reading, pager, keyring, examined=settings.page_examined),
        run_lists=RunLists(reading, pager, examined=settings.page_examined),
        run_maps=RunMaps(reading, pager, keyring),
        lens=Lens(reading, pager),
        content=ContentReads(reading, keyring, access_log, metrics),
        access_log=access_log,
        accesses=AccessPages(reading, pager, examined=settings.page_examined),
        proofs=Proofs(reading),
        log_standing=LogStandings(database, keyring, lease_s=settings.reads_lease.total_seconds()),
        actions=ActionPages(database, pager),
        exports=Exports(reading, keyring, access_log, metrics),
    )


async def _database(stack: AsyncExitStack, url: Secret | None, role: str, size: int) -> Database:
    if url is None:
        raise ConfigFaults(
            ["CUSTODY_DATABASE_URL is not set, and only `up` and `demo` start a server of their own"]
        )
    database = await Database.open(url.reveal(), role=role, size=size)
    stack.push_async_callback(database.close)
    return database


@asynccontextmanager
async def _uses_written(keys: KeyBook) -> AsyncIterator[None]:
    """Write now and then, and once at the end, when keys were used last."""

    async def write() -> None:
        while True:
            await asyncio.sleep(_USES_EVERY_S)
            await keys.write_uses()

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await keys.write_uses()
