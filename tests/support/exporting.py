"""Bundles as they are asked for and fetched: a library whose log is sequenced and published by hand, and a verifier.

async with office(database_url, redis_url, keys_dir, tmp_path) as desk:
    await desk.publish()
    bundle = await desk.bundle(await desk.shelf.key(Role.REVIEWER), runs=["run-1"])
    report = desk.verified(bundle)
"""

import io
import json
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx

from custody_client.verify import Policy, Report, verify_bundle
from store import commitments, ids
from store.db import Database
from store.log_tree.notes import Signer
from store.mirror import Mirror
from store.services.export.signing import bundle_signer, policy_text
from store.services.publishing import Publishing
from store.services.sequencing import Sequencer
from tests.support.factories import Run
from tests.support.reading import Headers, Library, library

ORIGIN: Final = "evidence.example/log/1"
LOG: Final = Signer(ORIGIN, b"l" * 32)


async def published(duties: Database, mirror: Path) -> None:
    """Give every leaf that waits its place, and sign what there is then."""
    publishing = Publishing(duties, Mirror(mirror), LOG)
    await publishing.begin()
    # A publisher that lives would have compared a second ago.
    assert (await publishing.round()).stop is None
    await Sequencer(duties, timedelta(days=1)).run()
    assert (await publishing.round()).stop is None


@dataclass(frozen=True, slots=True)
class Desk:
    """Who exports."""

    shelf: Library
    place: Path

    async def publish(self) -> None:
        """Give everything that waits its place, and sign it."""
        await published(self.shelf.house.duties, self.place / "mirror")

    async def checkpoint(self) -> bytes:
        note: bytes = await self.shelf.house.value(
            "SELECT note FROM log_checkpoints ORDER BY size DESC LIMIT 1"
        )
        return note

    async def ask(self, headers: Headers, **wanted: Any) -> httpx.Response:
        return await self.shelf.api.client.post("/v1/exports", headers=dict(headers), json=wanted)

    async def bundle(self, headers: Headers, **wanted: Any) -> bytes:
        """Ask and fetch."""
        asked = await self.ask(headers, **wanted)
        assert asked.status_code == httpx.codes.CREATED, asked.text
        given = await self.shelf.get(asked.json()["bundle"], headers)
        assert given.status_code == httpx.codes.OK, given.text
        assert given.headers["content-type"] == "application/zip"
        return given.content

    def policy(self) -> str:
        return policy_text(LOG.key, bundle_signer(self.shelf.house.keyring, ORIGIN).key)

    def verified(self, bundle: bytes, *anchors: bytes) -> Report:
        """What somebody finds who has the bundle and a policy, and nothing of ours."""
        path = self.place / f"{ids.new_id().hex}.zip"
        path.write_bytes(bundle)
        return verify_bundle(path, Policy.parse(self.policy().encode()), anchors)

    async def close(self, run: Run, stored: int = 1) -> None:
        """Close a run as the reconciling does it."""
        record = commitments.close_bytes(
            run.scope, run.run, sessions={"s-1": stored}, stored=stored, not_captured={}, unaccounted=0
        )
        opening = ids.secret(32)
        now = await self.shelf.house.value(
            "INSERT INTO closings (scope_id, run_uid, closed_at, opening, record) VALUES ($1, $2, now(), $3, $4)"
            " RETURNING closed_at",
            run.scope, run.run_uid, opening, record,
        )  # fmt: skip
        leaf = commitments.leaf(
            "close", m=commitments.close_commitment(opening, record), r=run.run_uid, t=now
        )
        await self.queue(run.scope, leaf)

    async def queue(self, scope: UUID, leaf: bytes) -> None:
        await self.shelf.house.execute("INSERT INTO log_queue (scope_id, leaf) VALUES ($1, $2)", scope, leaf)

    async def purge(self, evidence: UUID, word: str) -> None:
        """Destroy a part as the purge does it."""
        house = self.shelf.house
        await house.execute(
            "UPDATE parts SET state = 'purging', purge_reason = $2, purging_at = now() WHERE evidence = $1",
            evidence, word,
        )  # fmt: skip
        await house.execute("DELETE FROM bodies WHERE evidence = $1", evidence)
        now = await house.value("SELECT now()")
        await self.queue(house.scope, commitments.leaf("purge", of=None, p=evidence, t=now, w=word))


def files(bundle: bytes) -> dict[str, bytes]:
    """The files of a bundle, below its one directory."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def unavailable(found: Mapping[str, bytes]) -> dict[str, tuple[str, list[str]]]:
    """What a bundle does not have: by evidence its reason, and of which kinds of leaves there are proofs."""
    return {
        each["evidence"]: (each["reason"], each["proofs"])
        for each in json.loads(found["data/unavailable.json"])
    }


def lines(found: Mapping[str, bytes], name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found[f"data/{name}"].splitlines()]


def states(report: Report) -> Sequence[tuple[str, str, str]]:
    """What is not simply in order."""
    return [
        (item.kind, item.state.value, item.problem or "")
        for item in report.items
        if item.state.value == "failed"
    ]


@asynccontextmanager
async def office(
    database_url: str, redis_url: str, keys_dir: Path, place: Path, **changed: str
) -> AsyncIterator[Desk]:
    """Open one."""
    async with library(database_url, redis_url, keys_dir, log_origin=ORIGIN, **changed) as shelf:
        yield Desk(shelf, place)
