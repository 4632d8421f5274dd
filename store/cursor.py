"""Cursors: where a page ended, signed, and good only for the same question by the same key."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from policies.reasons import Reason
from store import errors, tokens
from store.encoding import lp

PREFIX: Final = "cc1."
LIFETIME: Final = timedelta(hours=24)

# How far the clocks of two of our machines may be apart.
_SKEW: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Question:
    """What a cursor is bound to: nothing of it stands in the text.

    `page` names the list, `filter` holds its filters by name, as given; `order` is `newest` or `oldest`.
    """

    scope: UUID
    key_id: str
    clearances: frozenset[str]
    page: str
    filter: tuple[tuple[str, str], ...]
    order: str

    def bytes(self) -> bytes:
        """Return the same bytes for the same question, whatever the order in which it was put."""
        clearances = lp(*(tag.encode() for tag in sorted(self.clearances)))
        filters = lp(*(text.encode() for pair in sorted(self.filter) for text in pair))
        head = (self.scope.bytes, self.key_id.encode(), self.page.encode(), self.order.encode())
        return lp(*head, clearances, filters)


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last row of a page: the next page begins after (`last_at`, `last_id`)."""

    last_at: datetime
    last_id: UUID
    issued_at: datetime


class IdentityCursor(msgspec.Struct, frozen=True, array_like=True):
    """The last identity of a page that is ordered by identity."""

    exchange: str
    attempt: str
    kind: str
    issued_at: datetime


_Any = TypeVar("_Any", Cursor, IdentityCursor)

_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: Final = msgspec.msgpack.Decoder(Cursor)
_identity_decoder: Final = msgspec.msgpack.Decoder(IdentityCursor)


def sign(key: bytes, question: Question, cursor: Cursor | IdentityCursor) -> str:
    """Return the text of a cursor."""
    return tokens.sign(PREFIX, key, _encoder.encode(cursor), question.bytes())


def read(key: bytes, question: Question, text: str, now: datetime) -> Cursor:
    """Return the cursor of a text; Malformed if it was not given for this question, or over 24 h ago."""
    return _read(_decoder, key, question, text, now)


def read_identity(key: bytes, question: Question, text: str, now: datetime) -> IdentityCursor:
    """Do the same for a page that is ordered by identity."""
    return _read(_identity_decoder, key, question, text, now)


def _read(
    decoder: "msgspec.msgpack.Decoder[_Any]", key: bytes, question: Question, text: str, now: datetime
) -> _Any:
    payload = tokens.verified(PREFIX, key, text, question.bytes())
    if payload is None:
        raise errors.Malformed(Reason.CURSOR_INVALID)
    try:
        cursor = decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise errors.Malformed(Reason.CURSOR_INVALID) from error
    if not -_SKEW <= now - cursor.issued_at <= LIFETIME:
        raise errors.Malformed(Reason.CURSOR_INVALID)
    return cursor
