"""How a refusal is answered, by whatever serves it: one status and one short text a reason."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from policies.reasons import READ_STATUS, STATUS, Reason, read_status

# Faults that the framework finds before any handler of ours runs, by the status that it gives them.
REASON_OF_STATUS: Final[Mapping[int, Reason]] = MappingProxyType(
    {
        401: Reason.UNAUTHENTICATED,
        403: Reason.PERMISSION_DENIED,
        404: Reason.NOT_FOUND,
        411: Reason.LENGTH_REQUIRED,
        415: Reason.UNSUPPORTED_MEDIA,
    }
)
_READS: Final = frozenset({"GET", "HEAD"})


def title(reason: Reason) -> str:
    """Return the short text of a reason; the same for every problem with that reason."""
    return reason.value.replace("_", " ").capitalize()


def status_of(reason: Reason, method: str, *, destroyed: bool = False) -> int:
    """Return the status of a reason as an answer to a call with this method; KeyError where it is no answer."""
    if reason not in READ_STATUS or (reason in STATUS and method not in _READS):
        return STATUS[reason]
    return read_status(reason, destroyed=destroyed)
