"""What `python -m store log …` does: how the proof log stands, letting it go on, and what a verifier needs to know."""

import argparse
import sys
from typing import Final

from store.commands import opened, settings_of
from store.db import Database
from store.mirror import Mirror
from store.services.export.signing import bundle_signer, policy_text
from store.services.keys import COMMAND_LINE
from store.services.log_admin import LogAdmin, LogStatus
from store.services.taking_back import TakingBack
from store.up import StackFault
from store.wiring import Services

_OK: Final = 0
_FAULTS: Final = 1


async def status(said: argparse.Namespace) -> int:
    """Print how the log stands; 1 where it is stopped, or contradicts its mirror."""
    async with opened(said, duties=True) as services:
        found = await _admin(services).status()
    for line in _lines(found):
        sys.stdout.write(line + "\n")
    return _FAULTS if found.state.stop or found.against or found.mirror is None else _OK


async def resume(said: argparse.Namespace) -> int:
    """Let a log go on that was rolled back and has again what was published."""
    async with opened(said, duties=True) as services:
        size = await _admin(services).resume(COMMAND_LINE)
    sys.stdout.write(f"the log goes on from {size} leaves, and reads are open\n")
    return _OK


async def take_back(said: argparse.Namespace) -> int:
    """Take back what a forked database gave places to beyond its mirror; 1 where it cannot be."""
    settings = settings_of(said)
    url = settings.owner_database_url
    if url is None:
        raise StackFault("CUSTODY_DATABASE_URL is not set, and no stack runs in the data directory")
    database = await Database.open(url.reveal(), role=None, size=2)
    try:
        taking = TakingBack(database, Mirror(settings.mirror_dir))
        done = await taking.run(COMMAND_LINE, although_signed=bool(said.although_signed))
    finally:
        await database.close()
    sys.stdout.write(
        f"from {done.first} on the database had {done.leaves} leaves, its mirror {done.missing} others: those of the "
        "database wait for their places again\n"
    )
    after = "restore" if done.missing else "log resume"
    sys.stdout.write(f"the log is rolled_back now: run `python -m store {after}`\n")
    return _OK


async def write_mirror(said: argparse.Namespace) -> int:
    """Write a mirror that was lost anew from the database."""
    async with opened(said, duties=True) as services:
        size = await _admin(services).write_mirror(COMMAND_LINE)
    sys.stdout.write(
        f"the mirror in {services.settings.mirror_dir} has the {size} leaves that were published\n"
    )
    return _OK


async def policy(said: argparse.Namespace) -> int:
    """Print the policy file for `custody verify`: hand it over by another way than the bundles."""
    async with opened(said, duties=True) as services:
        log_key = await _admin(services).key()
        bundle_key = bundle_signer(services.keyring, services.settings.log_origin).key
    sys.stdout.write(policy_text(log_key, bundle_key))
    return _OK


def _admin(services: Services) -> LogAdmin:
    if services.duties_database is None:
        raise ValueError("the services were opened without the duties' role")
    return LogAdmin(services.duties_database, Mirror(services.settings.mirror_dir))


def _lines(found: LogStatus) -> list[str]:
    state = found.state
    compared = "never" if state.compared_at is None else state.compared_at.isoformat(timespec="seconds")
    mirror = (
        found.trouble if found.mirror is None else f"{found.mirror.size} leaves, {found.against or 'agrees'}"
    )
    return [
        f"origin     {state.origin or '(nobody has begun to publish it)'}",
        f"leaves     {state.size}, of which {state.published_size} are published",
        f"compared   {compared}",
        f"mirror     {mirror}",
        f"stopped    {state.stop or 'no'}",
    ]
