"""The tools that an owner admitted: a baseline that nothing can reach."""

import marshal
from typing import Any, Final, Self

import msgspec

from custody_toolchain.facts import Difference
from custody_toolchain.observing import Report
from custody_toolchain.surface.copies import MOST_TOOLS, Copier, NotJson, Unreadable
from custody_toolchain.surface.descriptors import Descriptor, read, tools_of
from custody_toolchain.surface.differences import differences, same

# In this version of marshal's format, equal bytes are equal values of the same plain types; other types are refused.
_FORMAT: Final = 2


class Surface:
    """The tools of a request as its owner admitted them, copied whole at once; made by `admit` only.

    Promised: no later change of what was handed over reaches the baseline, and `differences` names each difference of
    name, number, order, description, schema and further fields. Descriptors of the same content in another provider's
    format are the same. Not promised: a verdict on whether the tools are fit.
    """

    def __init__(self, tools: list[Any], report: Report | None) -> None:
        self._tools = tools
        self._written = marshal.dumps(tools, _FORMAT)
        self._descriptors = read(tools)
        self.report = report

    @classmethod
    def admit(cls, descriptors: Any, report: Report | None = None) -> Self:
        """Take tools as a baseline: a list of a provider's dicts, or a whole request that holds one.

        Unreadable if they are not JSON, refer to themselves, are too many (1,024 tools, 200,000 values) or too large
        (8 MiB of text, 64 levels), have no name, or two have the same.
        """
        tools = _listed(descriptors)
        if len(tools) > MOST_TOOLS:
            raise Unreadable(f"more than {MOST_TOOLS} tools")
        copier, copies = Copier(), []
        for at, tool in enumerate(tools):
            copies.append(copier.copy(tool))
            if copier.faults:
                raise Unreadable(f"tool {at} holds {copier.faults[0]}")
        _named(read(copies))
        return cls(copies, report)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the admitted tools, in order."""
        return tuple(each.name for each in self._descriptors)

    def descriptors(self) -> list[Descriptor]:
        """Return copies of the admitted tools in the normal form."""
        return read(self.tools())

    def tools(self) -> list[Any]:
        """Return a copy of the tools as they were admitted, which may be sent."""
        copied: list[Any] = Copier().copy(self._tools, -1)
        return copied

    def written_bytes(self) -> int:
        """Return how many bytes the tools have as JSON."""
        return len(msgspec.json.encode(self._tools))

    def differences(self, presented: Any) -> list[Difference]:
        """Return how tools, or those of a whole request, differ from what was admitted; none: they are the same.

        Whatever is wrong with them is a difference too; nothing is changed.
        """
        tools = _listed(presented)
        if self._is(tools):
            return []
        copier = Copier()
        copies = [copier.copy(tool) for tool in tools[: MOST_TOOLS + 1]]
        return differences(self._descriptors, read(copies))

    def count(self, presented: Any) -> int:
        """Return how many tools a request shows."""
        return len(_listed(presented))

    def _is(self, tools: Any) -> bool:
        """Say whether tools are surely the same, fast.

        The first comparison goes no deeper than what was admitted. The second knows True from 1, and what only says
        that it is equal; where keys are in another order, the third does.
        """
        try:
            if type(tools) is not list or tools != self._tools:
                return False
            return marshal.dumps(tools, _FORMAT) == self._written or same(self._tools, tools)
        except Exception:  # noqa: BLE001 - whatever cannot be compared this way is looked at closely
            return False


def _listed(given: Any) -> Any:
    """Return the list of tools in what is given; something else as one entry, which is no tool."""
    if given is None:
        return []
    if type(given) is dict:
        given = tools_of(given)
    return given if type(given) is list or type(given) is tuple else [given]


def _named(descriptors: list[Descriptor]) -> None:
    seen: set[str] = set()
    for at, each in enumerate(descriptors):
        if each.form["kind"] == "?" or isinstance(each.form.get("name"), NotJson) or each.name in ("", "?"):
            raise Unreadable(f"descriptor {at} is no tool with a name")
        if "name" in each.form and each.name in seen:
            raise Unreadable(f"descriptor {at} has the name of an earlier one")
        seen.add(each.name)
