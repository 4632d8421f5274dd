"""What the commands of `python -m store` do. Each answers by printing, and returns how the process ends."""

import argparse
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from policies.kinds import Role
from policies.quantities import duration
from store import logging, migrate
from store.config import Settings, from_environment, in_environment
from store.db import translated
from store.errors import Malformed
from store.mirror import Mirror
from store.services import verify as checking
from store.services.housekeeping import BucketKeys
from store.services.keys import COMMAND_LINE, Wanted
from store.services.scopes import Scope
from store.services.server_settings import suits
from store.up import StackFault, running_stack
from store.wiring import Services, duties_of, key_directory, make_all_keys, open_services

Act = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]

_OK: Final = 0
_FAULTS: Final = 1


def settings_of(said: argparse.Namespace) -> Settings:
    """Return the settings: of the environment, completed by the stack that runs in the data directory."""
    changes = {} if said.data_dir is None else {"CUSTODY_DATA_DIR": str(said.data_dir)}
    settings = from_environment(changes)
    if not in_environment("CUSTODY_DATABASE_URL"):
        found = running_stack(settings.data_dir)
        settings = from_environment({**found, **changes})
    logging.configure("error", sys.stderr)
    return settings


@asynccontextmanager
async def opened(said: argparse.Namespace, *, duties: bool = False) -> AsyncIterator[Services]:
    """Open the services that the command line reaches."""
    settings = settings_of(said)
    if settings.database_url is None or settings.redis_url is None:
        message = (
            f"nothing runs in {settings.data_dir}: start `python -m store up`, or set CUSTODY_DATABASE_URL"
        )
        raise StackFault(f"{message} and CUSTODY_REDIS_URL")
    async with open_services(settings, duties=duties) as services:
        yield services


async def migrate_schema(said: argparse.Namespace) -> int:
    """Apply what is missing of the schema."""
    settings = settings_of(said)
    url = settings.owner_database_url
    if url is None:
        raise StackFault("CUSTODY_DATABASE_URL is not set, and no stack runs in the data directory")
    with translated():
        applied = await migrate.migrate(url.reveal())
    _print("\n".join(f"applied {name}" for name in applied) or "nothing to apply")
    return _OK


async def init_keys(said: argparse.Namespace) -> int:
    """Make the keys that a new store needs; those that are there stay."""
    settings = settings_of(said)
    if settings.database_url is None:
        raise StackFault("CUSTODY_DATABASE_URL is not set, and no stack runs in the data directory")
    await make_all_keys(settings, lost=bool(said.keys_are_lost))
    _print(f"the keys are in {settings.token_keys_dir} and {settings.signing_keys_dir}")
    return _OK


async def check_config(said: argparse.Namespace) -> int:
    """Print the settings, then ask what they name; 1 where something does not suit. Warnings change nothing of that."""
    settings = settings_of(said)
    _print(settings.describe())
    _print(f"# the keys in {settings.keys_dir} make expiry final: keep them in no backup and no snapshot")
    faults, warnings = key_directory(settings).faults(), list[str]()
    if settings.database_url is not None and settings.redis_url is not None:
        async with open_services(settings) as services:
            faults += await services.queue.check()
            postgres = await suits(services.database, settings.db_pool)
            faults += postgres.faults
            warnings += postgres.warnings
            async with services.database.connection() as connection:
                faults += await migrate.schema_faults(connection) or await _lost_keys(services)
    for line in (*faults, *(f"warning: {warning}" for warning in warnings)):
        sys.stderr.write(f"custody: {line}\n")
    return _FAULTS if faults else _OK


async def _lost_keys(services: Services) -> list[str]:
    live, lost = await BucketKeys(services.database, services.keyring).look()
    if not lost:
        return []
    # All of them: this is the key directory of another store, or its disk is not mounted.
    counted = f"{len(lost)} of {len(live)} live buckets have no key"
    return [f"{counted} in {services.settings.keys_dir}: is it this store's, and mounted?"]


async def purge(said: argparse.Namespace) -> int:
    """Do every duty once, and say how each ended; 1 where one failed. A duty that another process does is no fault."""
    async with opened(said, duties=True) as services:
        outcomes = await duties_of(services).perform_all()
    for outcome in outcomes:
        _print(f"{outcome.duty:<12} {outcome}")
    return _FAULTS if any(outcome.failed for outcome in outcomes) else _OK


async def verify(said: argparse.Namespace) -> int:
    """Check everything that is stored; say what was found and what was not looked at. 1 where something is wrong."""
    async with opened(said) as services:
        mirror = Mirror(services.settings.mirror_dir)
        report = await checking.verify(services.database, services.keyring, services.queue, mirror)
    for what, count in sorted(report.checked.items()):
        _print(f"checked      {count:>9}  {what}")
    for what in report.not_checked:
        _print(f"not checked             {what}")
    for fault in report.faults:
        _print(f"FAULT  {fault.kind}  {fault.scope_id or ''}  {fault.id}")
    if report.unlisted:
        _print(f"FAULT  and {report.unlisted} more")
    _print("sound" if report.sound else f"{len(report.faults) + report.unlisted} faults")
    return _OK if report.sound else _FAULTS


async def create_key(said: argparse.Namespace) -> int:
    """Make a key and show it."""
    lifetime = _lifetime(said.expires)
    async with opened(said) as services:
        scope = None if said.scope is None else await services.scopes.by_name(said.scope)
        wanted = Wanted(
            Role(said.role),
            None if scope is None else scope.scope_id,
            lifetime,
            frozenset(said.clearance),
            said.note,
        )
        made = await services.keys.create(wanted, COMMAND_LINE)
    _print(made.text)
    return _OK


async def list_keys(said: argparse.Namespace) -> int:
    """List keys: id, role, scope, until when, and how they stand."""
    async with opened(said) as services:
        scopes = {scope.scope_id: scope.name for scope in await services.scopes.all_scopes()}
        only = None if said.scope is None else (await services.scopes.by_name(said.scope)).scope_id
        rows = await services.keys.listed(only)
    for row in rows:
        scope = "(whole store)" if row.scope_id is None else scopes.get(row.scope_id, str(row.scope_id))
        standing = "revoked" if row.revoked_at else "live" if row.confirmed_at else "unconfirmed"
        until = row.expires_at.date().isoformat()
        _print(
            f"{row.key_id}  {row.role.value:<9}  {scope:<20}  {until}  {standing:<11}  {row.note}".rstrip()
        )
    return _OK


async def rotate_key(said: argparse.Namespace) -> int:
    """Give a key a second secret and show it; the one before it stays good until it is retired."""
    async with opened(said) as services:
        made = await services.keys.rotate(said.key_id, None)
    _print(made.text)
    return _OK


async def retire_secret(said: argparse.Namespace) -> int:
    """End the older of two secrets; with one this changes nothing."""
    async with opened(said) as services:
        row = await services.keys.retire(said.key_id, None)
    _print(f"{row.key_id} has one secret")
    return _OK


async def revoke_key(said: argparse.Namespace) -> int:
    """End a key."""
    async with opened(said) as services:
        row = await services.keys.revoke(said.key_id, None)
    _print(f"{row.key_id} is revoked")
    return _OK


async def create_scope(said: argparse.Namespace) -> int:
    """Make a scope."""
    document = None if said.policy is None else _document(said.policy)
    async with opened(said) as services:
        scope = await services.scopes.create(said.name, document, COMMAND_LINE)
    _print(f"{scope.name}  {scope.scope_id}")
    return _OK


async def list_scopes(said: argparse.Namespace) -> int:
    """List scopes: name, id, version of the policy."""
    async with opened(said) as services:
        for scope in await services.scopes.all_scopes():
            _print(f"{scope.name:<24}  {scope.scope_id}  policy version {scope.version}")
    return _OK


async def scope_policy(said: argparse.Namespace) -> int:
    """Show a scope's policy as a document, or put another in its place."""
    document = None if said.policy is None else _document(said.policy)
    async with opened(said) as services:
        scope: Scope = await services.scopes.by_name(said.name)
        if document is not None:
            scope = await services.scopes.put_policy(scope.scope_id, document, COMMAND_LINE)
    _print(json.dumps({"version": scope.version, "policy": scope.policy.to_document()}, indent=2))
    return _OK


def _document(source: str) -> object:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
        return json.loads(text)
    except (OSError, ValueError) as fault:
        raise Malformed(
            detail=f"{source} is not a JSON file that can be read ({type(fault).__name__})"
        ) from None


def _lifetime(text: str) -> timedelta:
    try:
        return timedelta(seconds=duration(text))
    except ValueError as fault:
        raise Malformed(detail=f"--expires {fault}") from None


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
