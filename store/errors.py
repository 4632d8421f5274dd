"""What can go wrong, one class per situation; the docstring of a class is its meaning.

    CustodyError
    ├── Unavailable      ├── Corrupt     ├── Malformed   ├── Unauthenticated
    ├── Conflict         ├── Refused     ├── NotFound    └── RowRefused
    │                    │   └── Gone
    ConfigFaults         (raised at start only, never an answer)

Messages hold reasons and our own words, never content, keys, tokens or values that came from a caller.
"""

from collections.abc import Sequence

from policies.reasons import Reason


class CustodyError(Exception):
    """Something that ends in an answer; `reason` is from the closed list.

    `unclear` says that some of it may have happened all the same: a commit got no answer, or had been answered before.
    """

    unclear = False

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail


class Unavailable(CustodyError):
    """A part of ours is away: an outage, never a refusal. Trying again makes sense.

    `cause` is the class name of what failed below, for the log.
    """

    def __init__(self, reason: Reason, cause: str = "") -> None:
        super().__init__(reason, cause)
        self.cause = cause


class Conflict(CustodyError):
    """It meets something that is already there and says otherwise; the first stays."""


class Corrupt(CustodyError):
    """What was stored is not what was committed to, or its key is lost; no bytes are given out."""


class Refused(CustodyError):
    """A policy said no; carries its reason across a call."""


class Gone(Refused):
    """A read refused for a reason by which the content is being or was destroyed: it will not come back."""


class RowRefused(CustodyError):
    """The database will never take this row, whatever it takes of others; `cause` names the constraint."""

    def __init__(self, cause: str) -> None:
        super().__init__(Reason.WRITE_FAILED, cause)
        self.cause = cause


class Malformed(CustodyError):
    """The request cannot be understood; nothing was decided about it."""

    def __init__(self, reason: Reason = Reason.MALFORMED_REQUEST, detail: str = "") -> None:
        super().__init__(reason, detail)


class NotFound(CustodyError):
    """There is no such thing for this viewer; the same for what never was and what is another scope's."""

    def __init__(self, reason: Reason = Reason.NOT_FOUND, detail: str = "") -> None:
        super().__init__(reason, detail)


class Unauthenticated(CustodyError):
    """No key, or none that we know and still accept."""

    def __init__(self, reason: Reason = Reason.UNAUTHENTICATED, detail: str = "") -> None:
        super().__init__(reason, detail)


class ConfigFaults(Exception):
    """Settings that cannot be worked with; every fault is listed, not only the first."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = list(faults)
