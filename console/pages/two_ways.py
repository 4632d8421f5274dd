"""What lists that can be paged both ways have in their address: filters, and a cursor forth or back."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from console.guards import SCOPE_PARAMETER, AnyRequest
from store.services import questions
from store.services.paging import Asked
from store.services.run_lists import TwoWays

# What a field for date and time sends: an instant without an offset, which here is one of UTC.
_LOCAL: Final = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?")
_CURSORS: Final = ("cursor", "back")


@dataclass(frozen=True, slots=True)
class Turned:
    """One page as its address asks for it; `said` is what was filled in, without fields that were left empty."""

    path: str
    said: Mapping[str, str]
    asked: Asked
    back: bool

    def get(self, name: str) -> str:
        """Return what a field shows."""
        return self.said.get(name, "")

    def link(self, **changed: str | None) -> str:
        """Return the address of the first page with these filters and some of them changed; None takes one away."""
        return self._at(self.path, {**self.said, **changed})

    def file(self, path: str, scope: str | None) -> str:
        """Return the address of the whole list as a file, with these filters, and in a scope where one is named."""
        return self._at(path, {**self.said, SCOPE_PARAMETER: scope})

    @staticmethod
    def _at(path: str, said: Mapping[str, str | None]) -> str:
        named = {name: value for name, value in said.items() if value}
        return f"{path}?{urlencode(named)}" if named else path

    def links(self, ways: TwoWays) -> dict[str, str | None]:
        """Return where the pages before and after this one are."""
        return {
            "previous": None if ways.previous is None else self.link(back=ways.previous),
            "next": None if ways.next is None else self.link(cursor=ways.next),
            "first": self.link() if self.asked.cursor else None,
        }


def turned(request: AnyRequest, limit: int, *names: str) -> Turned:
    """Read the address of a list that is narrowed by fields of these names; Malformed for any other."""
    questions.only(request.url.query, {*names, *_CURSORS, SCOPE_PARAMETER})
    given = {name: value.strip() for name, value in request.query_params.items()}
    said = {name: given[name] for name in names if given.get(name)}
    times = {name: _instant(said.get(name)) for name in ("from", "to")}
    asked = questions.asked(since=times["from"], until=times["to"])
    back = given.get("back") or None
    return Turned(
        request.url.path,
        said,
        replace(asked, limit=limit, cursor=back or given.get("cursor") or None),
        bool(back),
    )


def _instant(text: str | None) -> str | None:
    if text is None or not _LOCAL.fullmatch(text):
        return text
    return text + ("+00:00" if "T" in text else "T00:00:00+00:00")
