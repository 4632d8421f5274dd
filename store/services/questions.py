"""What was asked for, from the texts of an address: references, instants, pages, and nothing that is not offered."""

from collections.abc import Collection
from datetime import UTC, datetime
from urllib.parse import parse_qsl
from uuid import UUID

from store.errors import Malformed, NotFound
from store.services.paging import USUAL, Asked
from store.tables.pages import Order


def only(query: str, offered: Collection[str]) -> None:
    """Refuse parameters of a query that are not offered, and ones said twice: a filter that is ignored misleads."""
    named = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
    if len(named) > len(set(named)) or not set(named) <= set(offered):
        raise Malformed(
            detail=f"this call takes, each at most once: {', '.join(sorted(offered)) or 'no parameter'}"
        )


def asked(
    order: Order = "newest",
    limit: int = USUAL,
    cursor: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Asked:
    """Return how a page was asked for."""
    return Asked(order, limit, cursor, _instant("from", since), _instant("to", until))


def evidence_of(text: str) -> UUID:
    """Return an evidence reference; what is none is not found, like one that never was."""
    try:
        evidence = UUID(text)
    except ValueError:
        raise NotFound from None
    if str(evidence) != text.lower():
        raise NotFound
    return evidence


def evidence_named(text: str) -> UUID:
    """Return an evidence reference of a list that somebody wrote; Malformed for what is none."""
    try:
        return evidence_of(text)
    except NotFound:
        raise Malformed(detail="evidence is a list of evidence references") from None


def label_named(text: str | None) -> str | None:
    """Return a label that is looked for; Malformed for what no run can have."""
    # Not every text can be asked of the database.
    if text is not None and not text.isprintable():
        raise Malformed(detail="a label is printable")
    return text


def _instant(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        # In a query, a plus sign that nobody escaped arrives as a space.
        instant = datetime.fromisoformat(text.replace(" ", "+"))
        if instant.tzinfo is None:
            raise Malformed(detail=f"{name} needs an offset from UTC")
        return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        # OverflowError: its offset leads out of the calendar.
        raise Malformed(detail=f"{name} is not a time of RFC 3339") from None
