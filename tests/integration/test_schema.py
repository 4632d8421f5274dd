"""The schema against what is said of it: docs/data.md, the closed words of policies/, and the rights of the roles."""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import asyncpg
import pytest

from policies import kinds
from policies.facts import FactType
from policies.reasons import OUTCOMES

DATA = Path(__file__).parents[2] / "docs" / "data.md"

# What somebody's words, or a size, could be in.
COLUMNS = """
SELECT class.relname AS table, attribute.attname AS column
FROM pg_class AS class
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
WHERE schema.nspname IN ('public', 'spans') AND class.relkind IN ('r', 'p') AND NOT class.relispartition
    AND attribute.attnum > 0 AND NOT attribute.attisdropped
    AND (attribute.attname ~ '(bytes|size)' OR format_type(attribute.atttypid, NULL) IN
        ('bytea', 'text', 'jsonb', 'text[]', 'bytea[]', 'int8multirange', 'integer[]'))
"""
TABLES = """
SELECT relname FROM pg_class
WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
"""
WORDS = "SELECT conname, pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conname LIKE '%_closed'"

ROWS = {
    "buckets": """
        INSERT INTO buckets (scope_id, bucket_id, span_start, span_end, state)
        VALUES ($1, gen_random_uuid(), now(), now() + interval '1 day', $2)
    """,
    "parts": """
        INSERT INTO parts (scope_id, evidence, run_uid, exchange, attempt, kind, bucket_id, span_start, size_class,
            media_type, completeness, vantage, received_at, stored_at, commitment, meta_commitment, meta_opening, state,
            purge_reason)
        VALUES ($1, gen_random_uuid(), gen_random_uuid(), 'x', 'a', 'logical-request', gen_random_uuid(), now(), 256,
            'text/plain', 'complete', 'sdk', now(), now(), sha256(''), sha256(''), sha256(''), $2, 'erased')
    """,
}

CLOSED: dict[str, Iterable[StrEnum]] = {
    "api_keys_role_closed": kinds.Role,
    "runs_state_closed": kinds.RunState,
    "runs_mode_closed": kinds.Mode,
    "runs_content_closed": kinds.Content,
    "runs_kinds_closed": kinds.Kind,
    "attempts_dispatch_closed": kinds.Dispatch,
    "facts_type_closed": FactType,
    "attempts_settlement_closed": kinds.Settlement,
    "parts_kind_closed": kinds.Kind,
    "parts_completeness_closed": kinds.Completeness,
    "parts_vantage_closed": kinds.Vantage,
    "parts_state_closed": kinds.PartState,
    "gaps_said_by_closed": kinds.SaidBy,
    "gaps_kind_closed": kinds.Kind,
    "gaps_reason_closed": OUTCOMES,
}


def listed() -> set[tuple[str, str]]:
    """What docs/data.md lists."""
    rows = [line.split("|")[1:-1] for line in DATA.read_text().splitlines() if line.startswith("| `")]
    return {(row[0].strip(" `"), column) for row in rows for cell in row[1:] for column in cell.split()}


def listed_tables() -> set[str]:
    """The tables of it, those included of which no column can carry anything."""
    return {
        line.split("|")[1].strip(" `") for line in DATA.read_text().splitlines() if line.startswith("| `")
    }


def listed_callers() -> set[tuple[str, str]]:
    """The columns of it that hold what a caller wrote."""
    rows = [line.split("|")[1:-1] for line in DATA.read_text().splitlines() if line.startswith("| `")]
    return {(row[0].strip(" `"), column) for row in rows for column in row[4].split()}


async def test_every_column_that_can_carry_something_is_listed_with_what_it_may_hold(
    database_url: str,
) -> None:
    connection = await asyncpg.connect(database_url)
    found = {(row["table"], row["column"]) for row in await connection.fetch(COLUMNS)}
    tables = {row["relname"] for row in await connection.fetch(TABLES)}
    await connection.close()
    assert found == listed()
    assert tables == listed_tables()


def test_content_and_what_it_could_be_guessed_from_are_in_bodies_only() -> None:
    rows = [line.split("|")[1:-1] for line in DATA.read_text().splitlines() if line.startswith("| `")]
    assert [row[0].strip() for row in rows if row[1].strip() or row[2].strip()] == ["`bodies`"]


async def test_closed_words_are_the_same_in_the_schema_and_in_the_policies(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    checks = {
        row["conname"]: set(re.findall(r"'([^']+)'::text", row["text"]))
        for row in await connection.fetch(WORDS)
    }
    await connection.close()
    for name, words in CLOSED.items():
        assert checks[name] == {word.value for word in words}, name


APPEND_ONLY = {
    "accesses": "scope_id",
    "operator_actions": "scope_id",
    "source_sets": "scope_id",
    "log_entries": "leaf",
    "log_tiles": "hashes",
    "log_checkpoints": "note",
}


@pytest.mark.parametrize(
    ("role", "table", "column"),
    [
        *((role, *each) for role in ("custody_service", "custody_duties") for each in APPEND_ONLY.items()),
        # The duties take from the queue what they append to the log.
        ("custody_service", "log_queue", "leaf"),
    ],
)
async def test_nobody_but_the_owner_changes_what_is_append_only(
    database_url: str, role: str, table: str, column: str
) -> None:
    connection = await asyncpg.connect(database_url, server_settings={"role": role})
    try:
        for statement in (
            f"UPDATE {table} SET {column} = {column}",  # noqa: S608 - a test's own names
            f"DELETE FROM {table}",  # noqa: S608 - a test's own names
            f"TRUNCATE {table}",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize("role", ["custody_service", "custody_duties"])
async def test_where_the_log_ends_goes_forward_only(database_url: str, role: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE log_state SET size = 7")
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("UPDATE log_state SET size = 6")
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("INSERT INTO log_state (one) VALUES (false)")
    await connection.execute(f"SET ROLE {role}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("DELETE FROM log_state")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("UPDATE log_queue SET leaf = leaf")
    if role == "custody_service":
        for statement in ("UPDATE log_state SET stop = NULL", "INSERT INTO log_checkpoints VALUES (1, '')"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    await connection.close()


async def test_the_service_may_not_touch_partitions_or_the_schema(database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings={"role": "custody_service"})
    try:
        for statement in (
            "CREATE TABLE spans.mine (x int)",
            "CREATE TABLE mine (x int)",
            "DROP TABLE bodies",
            "UPDATE bodies SET wrapped = wrapped",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("table", "before", "after"),
    [
        ("parts", "purging", "stored"), ("parts", "purged", "purging"), ("parts", "stored", "purged"),
        ("buckets", "expired", "live"), ("buckets", "destroyed", "expired"),
    ],
)  # fmt: skip
async def test_states_go_forward_only(database_url: str, table: str, before: str, after: str) -> None:
    connection = await asyncpg.connect(database_url)
    scope = await connection.fetchval(
        "INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)"
        " VALUES (gen_random_uuid(), 's', '{}', 1, 1) RETURNING scope_id"
    )
    await connection.execute(ROWS[table], scope, before)
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(f"UPDATE {table} SET state = $1", after)  # noqa: S608 - a test's own names
    await connection.close()
