"""A run of whose observations nothing is stored: each reason that a page of a run can show, by what makes it true.

What the store finds by itself is brought about: by what is posted, and once by a database that refuses a row. What a
runtime may say of its own losses is said, of every such reason.
"""

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final

from policies.kinds import Role
from policies.reasons import CLIENT_REASONS

if TYPE_CHECKING:
    from tests.browser.seed import Place

LOSSES: Final = "losses"
TEMPORARY: Final = "quiet-temporary"
# By exchange; each has its request as the observation that is missing.
REFUSED: Final = {
    "damaged": "digest_mismatch",
    "opted-out": "content_opt_out",
    "large": "part_too_large",
    "revoked": "source_revoked",
    "unknown": "source_unknown",
    "withdrawn": "dependency_changed",
    "row-refused": "write_failed",
}
_NEVER_TOLD: Final = 3
_OTHER: Final = base64.b64encode(hashlib.sha256(b"other bytes").digest()).decode()
_HEADERS: Final[dict[str, dict[str, str]]] = {
    "damaged": {"Content_Digest": f"sha-256=:{_OTHER}:"},
    "opted-out": {"Custody_Content": "opt_out"},
    "revoked": {"Custody_Sources": '"doc-revoked"'},
    "unknown": {"Custody_Sources": '"doc-old";v=9'},
    "withdrawn": {"Custody_Sources": '"doc-old";v=1'},
}


async def planted(place: "Place") -> None:
    """Lose everything; the sources must be revoked and withdrawn already."""
    await place.declare(LOSSES, labels={"team": "losses"})
    # A row that no database takes, of a part that nothing else is wrong with.
    await place.stack.rows(
        "ALTER TABLE parts ADD CONSTRAINT tests_refuse_a_row CHECK (exchange <> 'row-refused') NOT VALID"
    )
    for exchange, reason in REFUSED.items():
        content: Any = {"messages": "m" * (300 << 10 if exchange == "large" else 3)}
        said = await place.tried(LOSSES, exchange, content, **_HEADERS.get(exchange, {}))
        assert said == reason, (exchange, said)
    await place.post(LOSSES, "taken", {"messages": "first"})
    assert await place.tried(LOSSES, "taken", {"messages": "second"}) == "identity_conflict"
    assert await place.tried(TEMPORARY, "x-1", {"messages": "never looked at"}) == "temporary_mode"
    told = [
        {"session": "agent-2", "sequences": str(number), "reason": reason}
        for number, reason in enumerate(sorted(CLIENT_REASONS), 1)
    ]
    await place.call("POST", f"/v1/runs/{LOSSES}/gaps", Role.RUNTIME, json={"gaps": told})
    await place.close(LOSSES, {"agent-2": len(told) + _NEVER_TOLD})
