"""Every query is prepared against the migrated schema: the database checks its names, its types and its parameters."""

import asyncpg

from store.tables import all_tables, load


async def test_every_query_fits_the_schema(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    faults: dict[str, str] = {}
    prepared = 0
    try:
        for table in all_tables():
            for name, query in load(table).items():
                try:
                    await connection.prepare(query)
                except asyncpg.exceptions.PostgresError as fault:
                    faults[f"{table}.{name}"] = str(fault)
                prepared += 1
    finally:
        await connection.close()

    assert faults == {}
    assert prepared > 100


def test_no_query_takes_every_column() -> None:
    for table in all_tables():
        for name, query in load(table).items():
            assert "SELECT *" not in query.upper(), f"{table}.{name}"
