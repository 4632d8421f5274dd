"""What fields of the desk's forms say. An empty field is one that was not filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from console.guards import AnyRequest, signed
from store.errors import Malformed
from store.ids import ScopeId
from store.services.listing import Listing, listing
from store.wiring import Services

MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as somebody filled it in, and what is wrong with it, a sentence by field; both empty before that."""

    said: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, usual: str = "") -> str:
        """Return what a field shows: what was filled in, however wrong, else what it usually begins with."""
        return self.said.get(name, usual)

    def wrong(self, faults: Mapping[str, str]) -> Self:
        """Return the same form with more that is wrong with it."""
        return replace(self, faults={**self.faults, **faults})


def filled(request: AnyRequest, *names: str) -> Filled:
    """Return the form that was sent; of what was ticked several times in it the page knows itself."""
    return Filled({name: field_of(request, name) for name in names})


def field_of(request: AnyRequest, name: str) -> str:
    """Return one field without spaces around it; Malformed where it is there twice."""
    found = signed(request).form.getall(name, [])
    if len(found) > 1:
        raise Malformed(detail=f"{name} is there twice in the form")
    return str(found[0]).strip() if found else ""


def chosen(request: AnyRequest, name: str) -> list[str]:
    """Return what was ticked of several."""
    return [str(each) for each in signed(request).form.getall(name, [])]


def words(text: str) -> list[str]:
    """Return what stands between spaces and commas."""
    return text.replace(",", " ").split()


def scope_id(request: AnyRequest) -> ScopeId | None:
    """Return the scope that is looked at; None for an operator of the whole store who has chosen none."""
    scope = signed(request).scope
    return None if scope is None else scope.scope_id


def paged(request: AnyRequest, opened: Services, name: str) -> Listing:
    """Begin to read a list of the scope."""
    return listing(signed(request).reader, opened.keyring, name)
