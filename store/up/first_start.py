"""What a stack needs before its processes start: schema, keys, buckets; at first also a scope and its api keys."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from policies.kinds import Role
from store.config import Settings
from store.db import translated
from store.errors import Conflict
from store.migrate import migrate
from store.services.keys import COMMAND_LINE, Wanted
from store.services.standing import BUCKETS, INTAKE_KEYS
from store.up.place import StackFault
from store.up.processes import Say
from store.wiring import Services, canary_of, duties_of, make_all_keys, open_services

SCOPE: Final = "default"

_KEYS_LIVE: Final = timedelta(days=365)
_FIRST_KEYS: Final = (Role.RUNTIME, Role.REVIEWER, Role.OPERATOR)


async def prepare(settings: Settings, say: Say) -> Mapping[str, str]:
    """Bring everything to where processes can start; return the keys that were made, which are shown only now."""
    if settings.owner_database_url is None:
        raise StackFault("there is no address of Postgres")
    with translated():
        applied = await migrate(settings.owner_database_url.reveal())
    if applied:
        say(f"schema: {', '.join(applied)}")
    await make_all_keys(settings)
    async with open_services(settings, duties=True) as services:
        faults = await services.queue.check()
        if faults:
            raise StackFault("; ".join(faults))
        keys = await _first_keys(services)
        if settings.canary:
            await canary_of(services).scope()
        await _stock(services, say)
    return keys


async def _first_keys(services: Services) -> dict[str, str]:
    """Make the first scope and a key of each role, where nobody has made any key before."""
    if await services.keys.listed(None):
        return {}
    try:
        scope = await services.scopes.create(SCOPE, None, COMMAND_LINE)
    except Conflict:
        scope = await services.scopes.by_name(SCOPE)
    made = {}
    for role in _FIRST_KEYS:
        key = await services.keys.create(
            Wanted(role, scope.scope_id, _KEYS_LIVE, note="first start"), COMMAND_LINE
        )
        made[role.value] = key.text
    return made


async def _stock(services: Services, say: Say) -> None:
    """Make what writers and guards need ahead, so that the first part does not wait for a duty."""
    duties = duties_of(services)
    for name in (INTAKE_KEYS, BUCKETS):
        outcome = await duties.perform(name)
        if not outcome.succeeded:
            raise StackFault(f"{name}: {outcome}")
        if any(outcome.counts.values()):
            say(
                f"{name.replace('_', ' ')}: {', '.join(f'{count} {what}' for what, count in outcome.counts.items())}"
            )
