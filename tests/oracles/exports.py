"""The bundles that the oracles see: one made from the formats by the tests, one that the store exports."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from bench import content
from policies.kinds import Role
from tests.support import bundles, databases, services
from tests.support.exporting import Desk, office
from tests.support.factories import Run

PARTS = 200
CORPUS = "CUSTODY_TEST_CORPUS"


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the store keeps what it keeps."""

    postgres_url: str
    template: str
    valkey_url: str


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle, and what its reader holds besides: a policy, and a checkpoint from before."""

    archive: bytes
    policy: bytes
    anchor: bytes


def made(_: Path, __: Servers) -> Made:
    """A bundle with some of everything."""
    bundle = bundles.small()
    for body in contents(PARTS - len(bundle.parts)):
        bundle.add_part(body)
    return Made(bundle.zipped(), bundle.policy(), bundle.log.checkpoint(bundle.anchors[0]))


def exported_by_the_store(home: Path, servers: Servers) -> Made:
    """A bundle of two closed runs, of which one part is erased."""
    services.flush(servers.valkey_url)
    return asyncio.run(_exported(home, servers))


def contents(count: int) -> list[bytes]:
    """Bodies of model calls: recorded ones where a file of them is named."""
    corpus = os.environ.get(CORPUS)
    return content.supply(Path(corpus) if corpus else None, seed=3).some(count)


async def _exported(home: Path, servers: Servers) -> Made:
    keys = home / "keys"
    keys.mkdir(mode=0o700)
    async with (
        databases.clone_of(servers.postgres_url, servers.template) as url,
        office(url, servers.valkey_url, keys, home) as desk,
    ):
        runs = [await desk.shelf.house.declare() for _ in range(2)]
        await _store(desk, runs[0])
        await desk.publish()
        anchor = await desk.checkpoint()
        await _store(desk, runs[1])
        await desk.purge(await desk.shelf.store(runs[1], b"erased", exchange="erased"), "erased")
        for run in runs:
            await desk.close(run, PARTS // 2)
        await desk.publish()
        bundle = await desk.bundle(
            await desk.shelf.key(Role.REVIEWER),
            runs=[run.run for run in runs],
            anchors=[int(anchor.split(b"\n")[1])],
        )
        return Made(bundle, desk.policy().encode(), anchor)


async def _store(desk: Desk, run: Run) -> None:
    bodies = contents(PARTS // 2)
    house = desk.shelf.house
    await desk.shelf.persist([house.part(run, body, exchange=f"x-{at}") for at, body in enumerate(bodies)])
