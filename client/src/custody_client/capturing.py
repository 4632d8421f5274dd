"""One capture on the caller's thread: is it allowed, once to bytes, is there room, enqueue. Nothing raises or waits."""

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from custody_client.accounts import PARKED, Account, Standing
from custody_client.content import NotObserved, TooLarge, Unserialisable, completeness_of, to_bytes
from custody_client.declarations import source_pairs
from custody_client.frames import Part, SourcePairs
from custody_client.settings import Source
from custody_client.words import (
    CLIENT_QUEUE_FULL,
    CLIENT_UNSERIALISABLE,
    COMPLETENESS,
    IDENTITY_CONFLICT,
    KIND_NOT_ADMITTED,
    NOT_OBSERVED,
    PART_TOO_LARGE,
    SOURCE_UNKNOWN,
    VANTAGES,
)

_MOST_TYPE_CHARACTERS: Final = 100
_OPAQUE: Final = "application/octet-stream"


class _Lost(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def capture(
    account: Account,
    standing: Standing,
    number: int,
    identity: tuple[str, str, str],
    content: Any,
    sources: Sequence[Source | str],
    said: tuple[str, str, str | None],
) -> None:
    """Take one observation that is numbered already; whatever happens, it ends as a part that waits or as a loss."""
    if standing is PARKED:
        account.come_back()  # and whoever answers for what came before the answer, answers for this too
        return
    try:
        reason = _taken(account, standing, number, identity, content, sources, said)
    except Exception as error:  # noqa: BLE001 - no exception reaches the caller
        account.office.trouble.note("capture", f"a capture failed: {type(error).__name__}")
        reason = NOT_OBSERVED
    except BaseException:
        # Somebody interrupts the caller, not us: it is numbered, so that it is missed.
        account.ledger.lose(number, NOT_OBSERVED)
        raise
    if reason is not None:
        account.ledger.lose(number, reason)
        account.mark()


def _taken(
    account: Account,
    standing: Standing,
    number: int,
    identity: tuple[str, str, str],
    content: Any,
    sources: Sequence[Source | str],
    said: tuple[str, str, str | None],
) -> str | None:
    """Return why it cannot be taken, or None once it waits."""
    exchange, attempt, kind = identity
    reason = _unfit(account, standing, identity)
    if reason is not None:
        return reason
    at = monotonic()
    try:
        pairs: SourcePairs = source_pairs(sources) if sources else ()
        vantage, content_type, completeness = said
        if completeness is None:
            completeness = completeness_of(content)
        data = _bytes_of(account, standing, content, content_type)
    except _Lost as loss:
        return loss.reason
    except (ValueError, TypeError, AttributeError):
        # What it depends on cannot be said, so that nobody could take it back.
        account.office.trouble.note("sources", "a capture names a source that is none")
        return SOURCE_UNKNOWN
    if vantage not in VANTAGES or completeness not in COMPLETENESS or not _is_type(content_type):
        vantage, content_type, completeness = _clear(account, vantage, content_type, completeness)
    size = len(data)
    if not account.room.take(size):
        return CLIENT_QUEUE_FULL
    account.taken.add(identity)
    account.inbox.append(
        Part(number, exchange, attempt, kind, data, at, content_type, completeness, vantage, pairs, size)
    )
    if not account.marked:
        account.mark()
    return None


def _unfit(account: Account, standing: Standing, identity: tuple[str, str, str]) -> str | None:
    """Return why content need not be looked at."""
    if identity[2] not in standing.kinds:
        return KIND_NOT_ADMITTED
    if identity in account.taken:
        account.office.trouble.note("identity", "an attempt's part of one kind was captured twice")
        return IDENTITY_CONFLICT
    return None if account.room.free() else CLIENT_QUEUE_FULL


def _bytes_of(account: Account, standing: Standing, content: Any, content_type: str) -> bytes:
    office = account.office
    try:
        return to_bytes(content, content_type, standing.part_bytes, office.bounds.serialise_s, office.trouble)
    except TooLarge:
        raise _Lost(PART_TOO_LARGE) from None
    except NotObserved:
        raise _Lost(NOT_OBSERVED) from None
    except Unserialisable as fault:
        office.trouble.note(CLIENT_UNSERIALISABLE, fault.told)
        raise _Lost(CLIENT_UNSERIALISABLE) from None


def _clear(account: Account, vantage: Any, content_type: Any, completeness: Any) -> tuple[str, str, str]:
    """Return words that are clear; an unclear one means less, never more."""
    account.office.trouble.note("words", "a capture says a vantage, completeness or type that is none")
    return (
        vantage if vantage in VANTAGES else "sdk",
        content_type if _is_type(content_type) else _OPAQUE,
        completeness if completeness in COMPLETENESS else "unknown",
    )


def _is_type(text: object) -> bool:
    return (
        isinstance(text, str) and len(text) <= _MOST_TYPE_CHARACTERS and text.isascii() and text.isprintable()
    )
