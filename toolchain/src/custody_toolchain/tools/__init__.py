"""One entry for read-like tools; what is the runtime's (permissions, budgets, receipts, tools) stays the runtime's."""

from custody_toolchain.driving import WouldWaitForEver
from custody_toolchain.tools.host import ToolHost, WithinItself, audit, by_call_id
from custody_toolchain.tools.owners import ALLOW, Allow, Owner, Receipts, Refuse, Reservations, Settlement
from custody_toolchain.tools.projection import Altered, narrowed
from custody_toolchain.tools.records import (
    Action,
    Answer,
    Block,
    Call,
    Failure,
    Held,
    Normalise,
    Outcome,
    Project,
    Projected,
    Proposed,
    Receipt,
    Refusal,
    Step,
    Tool,
    ToolFailed,
    Turn,
    Withhold,
)
from custody_toolchain.tools.schema import Fault, Schema, UnsupportedSchema
from custody_toolchain.tools.values import NotJson

__all__ = [
    "ALLOW",
    "Action",
    "Allow",
    "Altered",
    "Answer",
    "Block",
    "Call",
    "Failure",
    "Fault",
    "Held",
    "Normalise",
    "NotJson",
    "Outcome",
    "Owner",
    "Project",
    "Projected",
    "Proposed",
    "Receipt",
    "Receipts",
    "Refusal",
    "Refuse",
    "Reservations",
    "Schema",
    "Settlement",
    "Step",
    "Tool",
    "ToolFailed",
    "ToolHost",
    "Turn",
    "UnsupportedSchema",
    "Withhold",
    "WithinItself",
    "WouldWaitForEver",
    "audit",
    "by_call_id",
    "narrowed",
]
