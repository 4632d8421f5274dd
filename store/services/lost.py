"""What is said of parts that a restore did not bring back: by their id, and nothing by their identity."""

from uuid import UUID

from policies.availability import content_role, metadata_visible
from policies.kinds import Role
from policies.reasons import Reason
from store.db import Connection
from store.errors import Gone, Refused
from store.tables import restores


async def reason_of(connection: Connection, scope: UUID, evidence: UUID) -> Reason | None:
    """Return why a part without a row is gone, as far as the log tells; None for what never was."""
    found = await restores.lost(connection, scope, evidence)
    if found is None:
        return None
    if found.purge_reason is not None:
        return found.purge_reason
    return Reason.RETENTION_EXPIRED if found.expired else Reason.LOST_IN_RESTORE


async def refusal(
    connection: Connection, scope: UUID, evidence: UUID, role: Role, *, content: bool
) -> Refused | None:
    """Return what to answer a reader who asks for a part that was lost; None for what never was."""
    reason = await reason_of(connection, scope, evidence)
    if reason is None:
        return None
    # What it depended on was lost with it, so that no clearance is asked; neither is anything shown.
    permitted = content_role(role) if content else metadata_visible(role)
    return Gone(reason) if permitted else Refused(Reason.PERMISSION_DENIED)
