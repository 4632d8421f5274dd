"""Scopes and their policies. A policy that cannot stand is refused whole; another one raises the version."""

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from policies.documents import PolicyFault
from policies.reasons import Reason
from policies.scope_policy import ScopePolicy
from store.db import Database
from store.errors import Conflict, NotFound
from store.ids import ScopeId, caller_id, new_scope_id
from store.services.last_known import LastKnown
from store.tables import operator_actions, scopes

# How old a policy may be by which a guard decides.
AGE_S: Final = 1.0
_REMEMBERED: Final = 10_000
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope and the policy that is in force."""

    scope_id: ScopeId
    name: str
    policy: ScopePolicy
    version: int
    created_at: datetime
    updated_at: datetime


class ScopeBook:
    """Looks scopes up and lets operators change them. While Postgres is away, what was known last stays in force."""

    def __init__(
        self,
        database: Database,
        usual: Callable[[], ScopePolicy] = ScopePolicy,
        *,
        longest_s: float = math.inf,
    ) -> None:
        """Prepare; `usual` is for scopes without a policy, `longest_s` the retention that spans can still serve."""
        self._database = database
        self._usual = usual
        self._longest_s = longest_s
        self._by_id: LastKnown[ScopeId, Scope] = LastKnown(
            self._read, age_s=AGE_S, grace_s=_for_good, size=_REMEMBERED
        )
        self._by_name: LastKnown[str, Scope] = LastKnown(
            self._read_name, age_s=AGE_S, grace_s=_for_good, size=_REMEMBERED
        )

    async def get(self, scope_id: ScopeId) -> Scope:
        """Return a scope, at most a second old; NotFound if there is none."""
        return _found(await self._by_id.get(scope_id))

    def settled(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope that nobody need ask for now, else None."""
        return self._by_id.settled(scope_id)

    async def by_name(self, name: str) -> Scope:
        """Return a scope by its name, at most a second old; NotFound if there is none."""
        return _found(await self._by_name.get(name))

    async def all_scopes(self) -> list[Scope]:
        """Return every scope by name."""
        found: list[Scope] = []
        after = ""
        while True:
            async with self._database.connection() as connection:
                rows = await scopes.after(connection, after, _PAGE)
            found += [scope_from(row) for row in rows]
            if len(rows) < _PAGE:
                return found
            after = rows[-1].name

    async def page(self, after: str, limit: int) -> tuple[list[Scope], str | None]:
        """Return some scopes by name, and the name after which the next page begins; None at the end."""
        async with self._database.connection() as connection:
            rows = await scopes.after(connection, after, limit + 1)
        return [scope_from(row) for row in rows[:limit]], rows[limit - 1].name if len(rows) > limit else None

    async def names(self, some: Collection[UUID]) -> Mapping[UUID, str]:
        """Return what some scopes are called, for lists of what belongs to several."""
        async with self._database.connection() as connection:
            return await scopes.names(connection, some)

    async def create(self, name: str, document: object | None, said_by: str) -> Scope:
        """Create a scope; without a document it gets the settings' policy. PolicyFault names all that is wrong.

        Its buckets and their keys are made by a duty within a second; until then its parts wait in the queue.
        """
        policy = self._within(self._usual()) if document is None else self.read(document)
        scope_id = new_scope_id()
        async with self._database.transaction() as connection:
            row = await scopes.insert(connection, scope_id, caller_id(name), _written(policy))
            if row is None:
                raise Conflict(Reason.IDENTITY_CONFLICT, "there is a scope of that name")
            await operator_actions.insert(connection, scope_id, said_by, "scope_created", name)
        return scope_from(row)

    def read(self, document: object) -> ScopePolicy:
        """Read a policy as it would be put in force; PolicyFault names all that is wrong."""
        return self._within(ScopePolicy.from_document(document))

    async def put_policy(
        self, scope_id: ScopeId, document: object, said_by: str, instead_of: int | None = None
    ) -> Scope:
        """Put a policy in the place of the present one; the same again changes nothing, also not the version.

        Conflict where `instead_of` is another version than the one in force by now.
        """
        policy = self.read(document)
        async with self._database.transaction() as connection:
            row = await scopes.lock(connection, scope_id)
            if row is None:
                raise NotFound
            if instead_of not in (None, row.policy_version):
                # Whoever is refused looks at what is in force by now, not at what was remembered.
                self._forget(scope_id, row.name)
                raise Conflict(Reason.IDENTITY_CONFLICT, "another policy has been put in force meanwhile")
            if scope_from(row).policy != policy:
                row = await scopes.update_policy(connection, scope_id, _written(policy)) or row
                await operator_actions.insert(
                    connection, scope_id, said_by, "policy_changed", f"version {row.policy_version}"
                )
        scope = scope_from(row)
        self._forget(scope_id, scope.name)
        return scope

    def _forget(self, scope_id: ScopeId, name: str) -> None:
        self._by_id.drop(scope_id)
        self._by_name.drop(name)

    def _within(self, policy: ScopePolicy) -> ScopePolicy:
        """Refuse a retention for which no spans can be made: the duty that makes them makes them for all scopes."""
        if policy.retention_max_s > self._longest_s:
            raise PolicyFault(["retention.max: is longer than this store's spans of expiry reach"])
        return policy

    async def _read(self, scope_id: ScopeId) -> Scope | None:
        async with self._database.connection() as connection:
            row = await scopes.by_id(connection, scope_id)
        return None if row is None else scope_from(row)

    async def _read_name(self, name: str) -> Scope | None:
        async with self._database.connection() as connection:
            row = await scopes.by_name(connection, name)
        return None if row is None else scope_from(row)


def scope_from(row: scopes.ScopeRow) -> Scope:
    """Read a row; the document in it was checked when it was written."""
    return Scope(
        scope_id=ScopeId(row.scope_id),
        name=row.name,
        policy=scopes.policy_of(row.policy),
        version=row.policy_version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _found(scope: Scope | None) -> Scope:
    if scope is None:
        raise NotFound
    return scope


def _for_good(_: Scope) -> float:
    return float("inf")


def _written(policy: ScopePolicy) -> scopes.PolicyRow:
    return scopes.PolicyRow(
        document=json.dumps(policy.to_document()),
        metadata_retention_s=policy.metadata_retention_s,
        retention_max_s=policy.retention_max_s,
    )
