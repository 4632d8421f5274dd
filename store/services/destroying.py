"""T1 of destroying parts: under its locks decided, closed to readers for good, marked, and said to the log.

What a hold keeps is left as it is. Where its erasure was asked for it is closed to readers all the same, and destroyed
when the last hold ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from policies import holds as policy
from policies.holds import Destruction
from policies.reasons import Reason
from store.commitments import Identity, leaf
from store.db import Connection
from store.keyring import Keyring
from store.services import marks
from store.tables import holds, log_queue, purging, tombstones
from store.tables.purging import Marked, Target

# Other reasons close and open again (a source can be restored); their parts' own rows refuse a repeat.
MARKED: Final = frozenset({Reason.ERASED, Reason.RETENTION_EXPIRED})


@dataclass(frozen=True, slots=True)
class Destroyed:
    """What became of some targets: those that this changed, and those that a hold keeps."""

    marked: Sequence[Marked] = ()
    deferred: Sequence[UUID] = ()


async def destroy_parts(
    connection: Connection, keyring: Keyring, targets: Sequence[Target], reason: Reason, *, wait: bool
) -> Destroyed:
    """T1 of parts of one run, within the caller's transaction.

    Without `wait` a run that somebody else has locked is left alone, and nothing is changed.
    """
    first = targets[0]
    scope, run_uid = first.scope_id, first.run_uid
    await purging.lock_scope(connection, scope)
    await purging.lock_buckets(connection, scope, {target.bucket_id for target in targets})
    run = await purging.lock_run(connection, scope, run_uid, wait=wait)
    if run is None:
        return Destroyed()
    # Asked only now: whoever places a hold has these locks before, and is then seen, or waits for them.
    evidence = [target.evidence for target in targets]
    live = await holds.covering(connection, scope, run_uid, evidence)
    deferred = [
        each for each in evidence if policy.destroy(live, run_uid.hex, each.hex) is Destruction.DEFERRED
    ]
    if deferred and reason is Reason.ERASED:
        await purging.close(connection, scope, run_uid, deferred)
    free = [each for each in evidence if each not in set(deferred)]
    marked = await purging.mark(connection, scope, run_uid, free, reason)
    await leave_marks(connection, keyring, scope, run.run, marked, reason)
    leaves = [leaf("purge", t=part.now, of=None, p=part.evidence, w=reason.value) for part in marked]
    await log_queue.copy(connection, [(scope, each) for each in leaves])
    return Destroyed(marked, deferred)


async def leave_marks(
    connection: Connection, keyring: Keyring, scope: UUID, run: str, marked: Sequence[Marked], reason: Reason
) -> None:
    """Leave marks of parts of a locked run, where the reason is one for good: nothing is written under them again."""
    if reason not in MARKED or not marked:
        return
    key = keyring.token_key("lookup")
    found = []
    for part in marked:
        identity = Identity(scope, run, part.exchange, part.attempt, part.kind)
        found += [marks.evidence_mark(key, scope, part.evidence), marks.identity_mark(key, identity)]
    await tombstones.leave(connection, scope, found, reason)
