"""Filters of a list as they stand in its address: read once, said again in links, never guessed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from urllib.parse import urlencode

from console.guards import SCOPE_PARAMETER, AnyRequest
from store.errors import Malformed
from store.services import questions
from store.services.paging import MOST, USUAL, Asked

_NUMBER: Final = re.compile("[0-9]{1,3}")
_PAGING: Final = ("from", "to", "order", "limit", "cursor")
_ORDERS: Final[Mapping[str, Literal["newest", "oldest"]]] = {"newest": "newest", "oldest": "oldest"}


@dataclass(frozen=True, slots=True)
class Filters:
    """What an address asked for; `said` is all of it but the cursor, without fields that were left empty."""

    said: Mapping[str, str]
    asked: Asked

    def get(self, name: str) -> str:
        """Return what a field of the form shows."""
        return self.said.get(name, "")

    def link(self, path: str, **changed: str | None) -> str:
        """Return an address with these filters and some of them changed; None takes one away."""
        named = {name: value for name, value in {**self.said, **changed}.items() if value}
        return f"{path}?{urlencode(named)}" if named else path

    def local(self, name: str) -> str:
        """Return an instant as a field for date and time shows it, in UTC; what cannot be shown so is left as it is."""
        at = self.asked.since if name == "from" else self.asked.until
        return self.get(name) if at is None else at.strftime("%Y-%m-%dT%H:%M:%S")


def filters(request: AnyRequest, *names: str) -> Filters:
    """Read the address of a list that offers filters of these names, and those of every list."""
    questions.only(request.url.query, {*names, *_PAGING, SCOPE_PARAMETER})
    given = {name: value.strip() for name, value in request.query_params.items()}
    said = {name: value for name, value in given.items() if value and name not in {"cursor", SCOPE_PARAMETER}}
    return Filters(said, _asked(said, given.get("cursor") or None))


def without(request: AnyRequest, names: Iterable[str]) -> Filters:
    """Return the fields as they were filled in, where they are no question: the form is shown with them again."""
    said = {name: value for name, value in request.query_params.items() if name in {*names, *_PAGING}}
    return Filters(said, Asked())


def _asked(said: Mapping[str, str], cursor: str | None) -> Asked:
    order = _ORDERS.get(said.get("order", "newest"))
    if order is None:
        raise Malformed(detail="order is newest or oldest")
    limit = said.get("limit", str(USUAL))
    if not _NUMBER.fullmatch(limit):
        raise Malformed(detail=f"limit is 1 to {MOST}")
    return questions.asked(order, int(limit), cursor, _utc(said.get("from")), _utc(said.get("to")))


def _utc(text: str | None) -> str | None:
    """Take a time without an offset, which is all that a browser's own field knows, for one in UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        return text
    return text + "Z" if at.tzinfo is None else text
