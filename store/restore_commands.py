"""What `python -m store restore` and `restore-check` do: after an older backup was put in the database's place."""

import argparse
import sys
from collections.abc import Iterator
from typing import Final

from store.commands import opened
from store.mirror import Mirror
from store.services.keys import COMMAND_LINE
from store.services.restore_check import Findings, findings
from store.tables.restores import RestoreRow
from store.wiring import restore_of

_OK: Final = 0
_FAULTS: Final = 1


async def restore(said: argparse.Namespace) -> int:
    """Restore what the backup lacks, and say each step; again after it was interrupted."""
    async with opened(said, duties=True) as services:
        done = await restore_of(services).run(COMMAND_LINE, _say)
    _say(
        "reads are open, and the log goes on"
        if done
        else "nothing is missing: the database has what was published"
    )
    return _OK


async def check(said: argparse.Namespace) -> int:
    """Say how the database stands against its mirror and its keys; 1 where something must be done."""
    async with opened(said, duties=True) as services:
        settings, database = services.settings, services.duties_database
        if database is None:
            raise ValueError("the services were opened without the duties' role")
        found = await findings(database, services.keyring, Mirror(settings.mirror_dir), settings.reads_lease)
    for line in _lines(found):
        _say(line)
    return _OK if found.sound else _FAULTS


def _lines(found: Findings) -> Iterator[str]:
    yield f"reads      {'open' if found.closed is None else f'closed: {found.closed}'}"
    state, mirror = found.log.state, found.log.mirror
    yield f"leaves     {state.size} in the database, {'?' if mirror is None else mirror.size} in the mirror"
    if found.trouble:
        yield f"mirror     {found.trouble}"
    if found.log.against:
        yield f"against    {found.log.against}"
    for kind, count in sorted(found.beyond.items()):
        yield f"beyond     {count:>9}  {kind}"
    if found.under_way is not None:
        yield f"under way  {_changed(found.under_way)}"
    if found.last is not None:
        yield f"last       {_changed(found.last)}"
    for bucket in found.missing_keys:
        yield f"no key     {bucket.scope_id}  {bucket.bucket_id}"
    yield "nothing is to be done" if found.sound else _todo(found)


def _todo(found: Findings) -> str:
    if found.closed == "forked" or found.log.against == "forked":
        return (
            "the log is forked: find out why, then run `python -m store log take-back` (docs/operations.md)"
        )
    if found.trouble:
        return "bring the mirror back first: without it nobody knows what is missing"
    if found.beyond or found.under_way:
        return "run `python -m store restore`"
    if found.closed == "rolled_back":
        return "nothing is missing any more: run `python -m store log resume`"
    if found.closed:
        return "start the publisher: nobody has compared the log with its mirror"
    return "what these keys opened cannot be read: bring them back; if they were changed since, `keys-at-rest rewrap`"


def _changed(row: RestoreRow) -> str:
    return (
        f"begun {row.begun_at.isoformat(timespec='seconds')}, leaves {row.from_index} to {row.to_index}, replayed to "
        f"{row.replayed_to}: {row.lost} parts lost, {row.purged} purged again, {row.expired} buckets expired, "
        f"{row.held} holds, {row.closed} sources or runs closed or opened, {row.unknown} about what is not known here"
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
