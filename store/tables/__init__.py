"""Named static SQL, one file a table, beside the functions that map its rows to frozen structs; and nothing else.

A `.sql` file holds blocks that begin with `-- name: query_name`; the rest of that comment says what the query is for.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"^-- name: ([a-z0-9_]+)[^\n]*\n", re.MULTILINE)


def load(table: str) -> Mapping[str, str]:
    """Return the named queries of `<table>.sql`; a name given twice is a fault."""
    text = (Path(__file__).parent / f"{table}.sql").read_text("utf-8")
    pieces = _NAME.split(text)[1:]
    names, bodies = pieces[0::2], pieces[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{table}.sql names a query twice")
    return dict(zip(names, (body.strip() for body in bodies), strict=True))


def all_tables() -> list[str]:
    """Return every table that has queries; the tests prepare each of them against the migrated database."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.sql"))
