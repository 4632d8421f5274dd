"""Whether Postgres is set as this service needs it. compose.yaml and the embedded server say the same, by a test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from store.db import Database
from store.tables import server_settings

# A failed CHECK prints the whole row, a logged statement its parameters: by these content would reach a log.
CONTENT: Final = {
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
# Texts of statements hold no content, since every value is a parameter; but nobody needs them in a log either.
STATEMENTS: Final = {
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
}
# A statement over many partitions locks each of them.
LOCKS: Final = 256
# Of the processes in compose.yaml: two apis, a console, two writers, and two of the duties.
_POOLS: Final = 7
_PUBLISHER: Final = 2
_RESERVED: Final = ("superuser_reserved_connections", "reserved_connections")
_ASKED: Final = (*CONTENT, *STATEMENTS, "max_locks_per_transaction", "max_connections", *_RESERVED)


@dataclass(frozen=True, slots=True)
class Suits:
    """What must be set otherwise, and what should be: a line each, empty where all is well."""

    faults: list[str]
    warnings: list[str]


async def suits(database: Database, pool: int) -> Suits:
    """Ask the server how it is set for this role and database; `pool` is CUSTODY_DB_POOL."""
    async with database.connection() as connection:
        told = await server_settings.told(connection, _ASKED)
    return Suits(list(_must(told)), list(_should(told, pool)))


def _must(told: Mapping[str, str]) -> Iterator[str]:
    for name, value in CONTENT.items():
        if (found := told.get(name, "unknown")) != value:
            yield f"Postgres would write content into its log: {name} is {found} and must be {value}"


def _should(told: Mapping[str, str], pool: int) -> Iterator[str]:
    for name, value in STATEMENTS.items():
        if (found := told.get(name, "unknown")) != value:
            yield f"Postgres writes statements into its log: {name} is {found} and should be {value}"
    locks = int(told["max_locks_per_transaction"])
    if locks < LOCKS:
        yield (
            f"Postgres may run out of locks, since a statement locks each span's partition: max_locks_per_transaction "
            f"is {locks} and should be {LOCKS}"
        )
    reserved = sum(int(told.get(name, "0")) for name in _RESERVED)
    connections, needed = int(told["max_connections"]), _POOLS * pool + _PUBLISHER + reserved
    if connections < needed:
        yield (
            f"Postgres may refuse connections: max_connections is {connections}, and two apis, a console, two writers, "
            f"duties and publisher take {needed} with CUSTODY_DB_POOL={pool} and what the server reserves"
        )
