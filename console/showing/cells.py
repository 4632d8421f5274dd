"""Metadata as lines of a file: CSV (RFC 4180) whose cells no spreadsheet takes for a formula, and JSON lines."""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

Row: TypeAlias = Mapping[str, Any]
"""A row by column, made of what JSON has."""

# What spreadsheets take for the beginning of a formula, their wide forms included; a blank before it does not help.
_FORMULA: Final = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_TEXT: Final = "'"


def csv_lines(rows: Sequence[Sequence[Any]]) -> bytes:
    """Return rows of cells as lines of CSV."""
    written = io.StringIO(newline="")
    # All in quotes: a spreadsheet that parts cells at another sign than the comma must not begin one inside of ours.
    lines = csv.writer(written, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    lines.writerows([cell(each) for each in row] for row in rows)
    return written.getvalue().encode()


def json_line(row: Row) -> bytes:
    """Return a row as a line of JSON: exactly what the row holds, for programs."""
    return msgspec.json.encode(row) + b"\n"


def cell(value: Any) -> str:
    """Return a value as a cell: nothing for None, and a text that could be a formula behind an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    # Our own numbers are numbers, also below zero.
    return str(value) if isinstance(value, int | float) else _safe(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return " ".join(f"{name}={each}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return " ".join(str(each) for each in value)
    return str(value)


def _safe(text: str) -> str:
    blanks = len(text) - len(text.lstrip())
    return _TEXT + text if _FORMULA.intersection(text[: blanks + 1]) else text
