"""Steps of time, of sources and keys, and of databases that go back."""

import copy

from store.errors import Conflict
from store.services.forgetting import Forgetting
from store.services.rewrapping import Rewrapping, Selection
from tests.support.databases import drop, new_name
from tests.support.machine import passing
from tests.support.machine.state import Place, SourceState
from tests.support.machine.steps import BY, Steps

_RIPEN = (
    "UPDATE sources SET revoked_at = revoked_at - interval '2 hours' WHERE revoked_at IS NOT NULL",
    "UPDATE source_versions SET withdrawn_at = withdrawn_at - interval '2 hours' WHERE withdrawn_at IS NOT NULL",
)
_AGE = "UPDATE runs SET closed_at = closed_at - interval '500 days' WHERE state = 'closed'"
_HOLDING = "SELECT bucket_id FROM buckets WHERE scope_id = $1 AND span_start IS NULL AND state = 'live'"
MOST_BACKUPS = 2


class AllSteps(Steps):
    """Everything that happens."""

    # --- sources

    async def version(self, scope: int, name: str, *, withdraw: bool) -> None:
        sources, at = self.store.services.sources, self.store.caller(scope).scope_id
        assert at is not None
        added = await sources.put_version(at, name, BY, withdraw_earlier=withdraw, audience=None)
        source = self.model.now.sources.get((scope, name))
        if source is None:
            uid = await self.store.owner.fetchval(
                "SELECT source_uid FROM sources WHERE scope_id = $1 AND source = $2", at, name
            )
            source = self.model.now.sources[scope, name] = SourceState(uid)
        source.latest += 1
        earlier = [each for each in range(1, source.latest) if withdraw and each not in source.withdrawn]
        assert (added.version, added.withdrawn) == (source.latest, earlier)
        source.withdrawn.update(earlier)
        for each in earlier:
            self.model.leaf("revoke", source.uid.hex, "withdraw", each)

    async def revoke(self, scope: int, name: str, version: int | None) -> None:
        source, at = self.model.now.sources[scope, name], self.store.caller(scope).scope_id
        assert at is not None
        await self.store.services.sources.revoke(at, name, version, BY)
        if version is None and not source.revoked:
            source.revoked = True
        elif version is not None and version not in source.withdrawn:
            source.withdrawn.add(version)
        else:
            return
        self.model.leaf("revoke", source.uid.hex, "revoke", version)

    async def open_again(self, scope: int, name: str, version: int | None) -> None:
        source, at = self.model.now.sources[scope, name], self.store.caller(scope).scope_id
        assert at is not None
        final = source.erased or bool({None, version} & source.destroyed)
        try:
            await self.store.services.sources.restore(at, name, version, BY)
        except Conflict:
            assert final
            return
        assert not final
        if version is None and source.revoked:
            source.revoked = False
        elif version in source.withdrawn:
            source.withdrawn.discard(version)
        else:
            return
        source.ripe.discard(version)
        self.model.leaf("revoke", source.uid.hex, "restore", version)

    async def ripen(self) -> None:
        """What is closed has been so for as long as a scope may say."""
        for statement in _RIPEN:
            await self.store.owner.execute(statement)
        for source in self.model.now.sources.values():
            source.ripe |= {None} if source.revoked else set()
            source.ripe |= source.withdrawn

    # --- destroying

    async def purge(self) -> None:
        await self.store.purging().run()
        passing.purge(self.model)
        self._runs_told()

    async def pass_time(self) -> None:
        """The next span in which some retention ends is over."""
        ahead = {run.span for run in self.model.now.runs.values()} - self.model.over
        ahead |= {part.span for part in self.model.now.parts.values()} - self.model.over
        if ahead:
            await self._over(min(ahead))

    async def _over(self, *spans: object) -> None:
        self.model.over |= set(spans)  # type: ignore[arg-type]
        await self.store.let_pass(sorted(self.model.over))
        for name, run in self.model.now.runs.items():
            if run.span in self.model.over:
                self._told(name, "retention_expired")

    async def expire(self) -> None:
        found = await self.store.expiring().run()
        went = passing.expire(self.model)
        assert found == ({"expired": went} if went else {"expired": 0, "leftovers": 0})

    @property
    def may_forget(self) -> bool:
        return any(run.closed and run.span in self.model.over for run in self.model.now.runs.values())

    async def forget(self) -> None:
        """Metadata of what was closed long ago is kept no longer, where nothing else keeps it."""
        await self.store.owner.execute(_AGE)
        await Forgetting(self.store.duties, self.store.keyring).run()
        left = {row["run"] for row in await self.store.owner.fetch("SELECT run FROM runs")}
        for name in self.model.now.runs.keys() - left:
            assert passing.forgettable(self.model, name)
            passing.forget(self.model, name)

    def _runs_told(self) -> None:
        for name, run in self.model.now.runs.items():
            if run.erased:
                self._told(name, "erased")

    # --- keys

    async def change_key(self, place: Place) -> None:
        bucket = self.model.now.buckets[place]
        if bucket.state == "live":
            await self._rewrap(place[0], bucket.bucket)
            passing.change_key(self.model, place)

    async def change_hold_key(self, scope: int) -> None:
        bucket = await self.store.owner.fetchval(_HOLDING, self.store.scopes[scope])
        await self._rewrap(scope, bucket)
        passing.change_hold_key(self.model, scope)

    async def _rewrap(self, scope: int, bucket: object) -> None:
        rewrapping = Rewrapping(self.store.duties, self.store.keyring, grace_s=0)
        done = await rewrapping.run(BY, Selection(self.store.scopes[scope], bucket))  # type: ignore[arg-type]
        assert (done.changed, list(done.left)) == (1, [])

    # --- backups

    @property
    def may_back_up(self) -> bool:
        """Whether anything has happened since the last one."""
        return not self.backups or self.backups[-1][1] != self.model.now

    async def back_up(self) -> None:
        name = new_name()
        await self.store.backup(name)
        self.backups.append((name, copy.deepcopy(self.model.now)))
        if len(self.backups) > MOST_BACKUPS:
            oldest, _ = self.backups.pop(0)
            await drop(self.store.server_url, oldest)

    async def go_back(self, number: int) -> None:
        """The database is lost, and one of the backups takes its place; time has gone on."""
        name, state = self.backups[number % len(self.backups)]
        await self.store.go_back(name)
        self.model.went_back = True
        self.checks.wraps.clear()
        passing.back_to(self.model, state)
        await self._over()
        await self.checks.closed()

    async def come_back(self) -> None:
        """Nothing goes on until it was compared; what the mirror has more is brought back."""
        missing = len(self.model.mirror) > len(self.model.now.entries)
        await self._stands_still("rolled_back" if missing else None)
        if not missing:
            self.model.mirror = list(self.model.now.entries)
        assert await self.store.restoring().run(BY, lambda _: None) == missing
        if missing:
            passing.restore(self.model)
            self._runs_told()
            return
        # No leaf says that keys were changed since: whoever looks at the keys sees it.
        for place, bucket in sorted(self.model.now.buckets.items()):
            if bucket.key not in self.model.alive:
                await self.change_key(place)
        for scope, key in enumerate(self.model.now.hold_keys):
            if key not in self.model.alive:
                await self.change_hold_key(scope)
