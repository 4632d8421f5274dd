"""Bring a database to the schema of `migrations/`: forward only, one transaction a file, every applied file remembered.

A start is refused where an applied file has changed. A database that is *ahead* of these files is fine: during a
deploy, code of release N works on the schema of release N+1 (expand first, contract a release later).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from store.errors import ConfigFaults

MIGRATIONS: Final = Path(__file__).parent.parent / "migrations"

# Any constant will do as long as every migrator uses the same one.
_ADVISORY_LOCK: Final = 0x637573746F6479
# What waits behind a migration that waits for a table waits too.
_LOCK_TIMEOUT: Final = "10s"

_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version     integer     NOT NULL CONSTRAINT schema_migrations_pkey PRIMARY KEY,
    name        text        NOT NULL,
    digest      text        NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """Digest by which a later change of an applied file is noticed."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations_in(directory: Path) -> list[Migration]:
    """Read the numbered files in order; a hole in the numbering is a fault."""
    found = []
    for path in sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql")):
        version, _, name = path.stem.partition("_")
        found.append(Migration(int(version), name, path.read_text("utf-8")))
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ConfigFaults([f"{directory.name}/ is not numbered 0001, 0002, … without holes"])
    return found


async def migrate(owner_url: str, directory: Path = MIGRATIONS) -> list[str]:
    """Apply what is missing and return the names of what was applied. Two migrators at once wait for each other."""
    connection = await asyncpg.connect(owner_url, timeout=10)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _ADVISORY_LOCK)
        # Only now: another migrator may take longer than that, and is waited for.
        await connection.execute("SELECT set_config('lock_timeout', $1, false)", _LOCK_TIMEOUT)
        await connection.execute(_LEDGER)
        applied = await _applied(connection)
        return [
            await _apply(connection, migration) for migration in _missing(migrations_in(directory), applied)
        ]
    finally:
        await connection.close()


async def schema_faults(
    connection: asyncpg.Connection | PoolConnectionProxy, directory: Path = MIGRATIONS
) -> list[str]:
    """Say what keeps this code from working on that schema; an empty list means ready."""
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return ["the database has no schema yet: run `python -m store migrate`"]
    try:
        missing = _missing(migrations_in(directory), await _applied(connection))
    except ConfigFaults as fault:
        return list(fault.faults)
    return [f"migration {migration.version:04d}_{migration.name} is not applied" for migration in missing]


async def _applied(connection: asyncpg.Connection | PoolConnectionProxy) -> dict[int, str]:
    rows = await connection.fetch("SELECT version, digest FROM schema_migrations ORDER BY version")
    return {row["version"]: row["digest"] for row in rows}


def _missing(files: list[Migration], applied: dict[int, str]) -> list[Migration]:
    known = {migration.version: migration for migration in files}
    for version, digest in applied.items():
        if version in known and known[version].digest != digest:
            raise ConfigFaults(
                [f"migration {version:04d}_{known[version].name} was changed after it was applied"]
            )
    return [migration for migration in files if migration.version not in applied]


async def _apply(connection: asyncpg.Connection, migration: Migration) -> str:
    async with connection.transaction():
        await connection.execute(migration.sql)
        await connection.execute(
            "INSERT INTO schema_migrations (version, name, digest) VALUES ($1, $2, $3)",
            migration.version,
            migration.name,
            migration.digest,
        )
    return f"{migration.version:04d}_{migration.name}"
