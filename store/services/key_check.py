"""Whether every key that something needs is there, in every copy, and opens what it should: before a reader finds out.

A copy that is missing is brought back; what is missing everywhere, or differs, is for a person to decide.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store import commitments
from store.db import Database
from store.errors import Corrupt, Unavailable
from store.key_directory import Role
from store.keyring import Keyring, bucket_name, intake_name
from store.logging import logger
from store.queue import Queue, SealedBy
from store.services import key_copies, signed_keys
from store.tables import bucket_keys, spans
from store.tables.bucket_keys import NeededKey
from store.tables.held_bodies import HELD, Wrapped

DUTY: Final = "bucket_keys"

OPENED: Final = "bucket keys that open what they wrap"
EMPTY: Final = "bucket keys that wrap nothing yet"
UNKNOWN: Final = "bucket keys of which no bucket knows"
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a key, by its role and name, or with the directory itself."""

    role: str
    name: str
    what: str
    of: NeededKey | None = None


@dataclass(slots=True)
class KeyReport:
    """What was looked at, what is wrong, what could not be looked at, and how many copies were brought back."""

    checked: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    repaired: int = 0

    @property
    def sound(self) -> bool:
        """Say whether nothing that was looked at is wrong."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """`database` acts as the service or the duties; `origin` is the log's, for the key that signs it."""

    database: Database
    keyring: Keyring
    queue: Queue
    origin: str

    async def run(self) -> Mapping[str, int]:
        """Look at everything, bring back copies that are missing, and name what is wrong: the daily duty."""
        report = await self.look(repair=True)
        for fault in report.faults:
            _alarm(fault)
        lost = sum(fault.what == Reason.KEY_LOST for fault in report.faults)
        live = report.checked[OPENED] + report.checked[EMPTY] + lost
        return {"live": live, "lost": lost, "faults": len(report.faults), "repaired": report.repaired}

    async def look(self, *, repair: bool = False, anew: bool = False) -> KeyReport:
        """Look at everything; `repair` completes copies before, `anew` also begins one of which nothing is there."""
        report = KeyReport()
        keys = await self._needed()
        hours = await self._intake(report)
        names: dict[Role, Collection[str]] = {
            "bucket": {bucket_name(key.scope_id, key.key_id) for key in keys},
            "intake": hours,
            "token": self.keyring.directory.names("token"),
            "signing": self.keyring.directory.names("signing"),
        }
        if repair:
            report.repaired = await self._repaired(names, report, anew=anew)
        await self._buckets(keys, report)
        await self._others(keys, report)
        await self._signed(report)
        report.faults += await asyncio.to_thread(self._of_copies, names)
        return report

    async def _needed(self) -> list[NeededKey]:
        async with self.database.connection() as connection:
            return await bucket_keys.needed(connection)

    async def _repaired(self, names: key_copies.Names, report: KeyReport, *, anew: bool) -> int:
        try:
            return await asyncio.to_thread(
                partial(key_copies.repair, self.keyring.directory, names, anew=anew)
            )
        except Unavailable:
            # What is missing is named below; nothing else is kept from being looked at.
            report.not_checked.append("whether copies can be completed: one of them cannot be reached")
            return 0

    def _of_copies(self, names: key_copies.Names) -> list[Fault]:
        found = [Fault("directory", "", what) for what in self.keyring.directory.faults()]
        uneven = key_copies.uneven(self.keyring.directory, names)
        return found + [Fault(role, name, f"copy_{what}") for role, name, what in uneven]

    async def _signed(self, report: KeyReport) -> None:
        marks = await signed_keys.marks_of(self.database)
        found = await asyncio.to_thread(lambda: [*signed_keys.faults(self.keyring, marks, self.origin)])
        report.faults += [Fault(*each) for each in found]
        report.checked["keys of signed texts"] += len(self.keyring.directory.names("token"))
        if not signed_keys.signs_here(self.keyring):
            report.not_checked.append("the key that signs the log, which is not on this host")

    # --- buckets

    async def _buckets(self, keys: Sequence[NeededKey], report: KeyReport) -> None:
        found = await self._opened(keys, report.checked)
        if found:
            # Whatever expired, or changed its key, meanwhile is no fault.
            still = set(await self._needed())
            found = await self._opened([key for key in found if key in still], Counter())
        report.faults += [
            Fault("bucket", bucket_name(key.scope_id, key.key_id), what, key) for key, what in found.items()
        ]

    async def _opened(self, keys: Sequence[NeededKey], checked: Counter[str]) -> dict[NeededKey, str]:
        found: dict[NeededKey, str] = {}
        for span_start, of_span in groupby(keys, key=lambda key: key.span_start):
            some = list(of_span)
            async with self.database.connection() as connection:
                samples = await bucket_keys.samples(connection, span_start or HELD, some)
            for key, what in await asyncio.to_thread(self._tried, some, samples):
                if what in (OPENED, EMPTY):
                    checked[what] += 1
                else:
                    found[key] = what
        return found

    def _tried(
        self, keys: Sequence[NeededKey], samples: Mapping[tuple[UUID, UUID], Wrapped]
    ) -> list[tuple[NeededKey, str]]:
        return [(key, self._how(key, samples.get((key.scope_id, key.key_id)))) for key in keys]

    def _how(self, key: NeededKey, sample: Wrapped | None) -> str:
        secret = self.keyring.directory.read("bucket", bucket_name(key.scope_id, key.key_id))
        if secret is None:
            return Reason.KEY_LOST
        if len(secret) != commitments.SECRET_BYTES:
            return "no_key"
        if sample is None:
            return EMPTY
        try:
            commitments.unwrap_secret(secret, sample.wrapped, key.scope_id, key.key_id, sample.evidence)
        except Corrupt:
            return "does_not_open"
        return OPENED

    async def _others(self, keys: Sequence[NeededKey], report: KeyReport) -> None:
        """Look for keys that should be gone, and count those of which no bucket knows."""
        have = await asyncio.to_thread(self.keyring.bucket_keys)
        others = have - {(key.scope_id, key.key_id) for key in keys}
        async with self.database.connection() as connection:
            known = await bucket_keys.known(connection, others)
        over = [key for key, over in known.items() if over]
        # Asked again: one that was being destroyed is gone by now.
        left = await asyncio.to_thread(lambda: [key for key in over if self.keyring.has_bucket_key(*key)])
        report.faults += [Fault("bucket", bucket_name(*key), "key_left") for key in sorted(left)]
        if others - known.keys():
            report.checked[UNKNOWN] += len(others - known.keys())

    # --- intake

    async def _intake(self, report: KeyReport) -> set[str]:
        """Look for the keys that sealed what waits, and for this hour's; return the names of those that are needed."""
        async with self.database.connection() as connection:
            now = await spans.database_now(connection)
        try:
            sealed = await self.queue.sealed_by(timedelta())
        except Unavailable:
            report.not_checked.append("intake keys of what waits: the queue does not answer")
            sealed = SealedBy({}, None)
        # What was not looked at came in since then, under a key of each hour.
        since = _hour(now - timedelta(seconds=sealed.unseen_s or 0.0))
        wanted = {since + offset * _HOUR for offset in range((_hour(now) - since) // _HOUR + 1)}
        keys = {key_id: start for start, key_id in self.keyring.intake_keys()}
        lost = (wanted - set(keys.values())) | {
            _hour(now - timedelta(seconds=age_s))
            for key_id, age_s in sealed.ages_s.items()
            if key_id not in keys
        }
        report.faults += [Fault("intake", f"{hour:%Y%m%d%H}", Reason.KEY_LOST) for hour in sorted(lost)]
        needed = {
            intake_name(start, key_id)
            for key_id, start in keys.items()
            if start >= since or key_id in sealed.ages_s
        }
        report.checked["intake keys"] += len(needed)
        return needed


def _hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


def _alarm(fault: Fault) -> None:
    lost = fault.of is not None and fault.what == Reason.KEY_LOST
    logger().error(
        "bucket_key_lost" if lost else "key_fault",
        duty=DUTY, kind=fault.role, reason=fault.what if fault.role != "directory" else "directory",
        scope_id=fault.of and fault.of.scope_id, bucket=fault.of and fault.of.bucket_id,
    )  # fmt: skip
