"""What the model is shown of tools is what the owner admitted, or the request is not dispatched.

Promised: a request whose tools differ in any way from those that were admitted (number, order, names, descriptions,
schemas, every other field) is refused before its dispatch, its owner is told so once, and nothing else is touched. Not
promised: that the admitted tools are good ones, or that nobody changes a request after its final check. This is no
registry of tools and no store of permissions: what is admitted, and what is available, the owner says.
"""

from custody_toolchain.surface.admitted import Surface
from custody_toolchain.surface.availability import Availability, OwnerFact, Unavailable, Use, Where
from custody_toolchain.surface.copies import Unreadable
from custody_toolchain.surface.descriptors import Descriptor, tools_of
from custody_toolchain.surface.guards import AsyncGuard, Guard, PreDispatchRejected, Reason, Rejection

__all__ = [
    "AsyncGuard",
    "Availability",
    "Descriptor",
    "Guard",
    "OwnerFact",
    "PreDispatchRejected",
    "Reason",
    "Rejection",
    "Surface",
    "Unavailable",
    "Unreadable",
    "Use",
    "Where",
    "tools_of",
]
