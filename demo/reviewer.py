"""Read everything back as a reviewer would, compare bytes, and count what is there, what is not and why."""

import asyncio
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field

from demo.agent import Story
from demo.api import Api, Json, Part, Run

Identity = tuple[str, str, str]

_OK = 200
_AT_ONCE = 8
# A closing run takes what is on the wire for a while; after that what is missing has been counted.
_CLOSED_WITHIN_S = 60


@dataclass
class Finding:
    """What became of one run, as the reviewer sees it.

    `lost` is what the agent itself reported as lost, `recorded` what the store says is missing, by reason.
    """

    run: str
    posted: int = 0
    stored: int = 0
    readable: int = 0
    not_captured: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    recorded: Counter[str] = field(default_factory=Counter)
    different: int = 0
    unaccounted: int = 0


async def review(reviewer: Api, story: Story) -> list[Finding]:
    """Read every run back, several parts at a time."""
    for run in story.runs:
        await _closed(reviewer, run)
    return [await _review_run(reviewer, run) for run in story.runs]


async def _review_run(reviewer: Api, run: Run) -> Finding:
    finding = Finding(run.name, posted=len(run.parts))
    listed = {_identity(item): item async for item in reviewer.pages(f"/v1/parts?run={run.name}&limit=200")}
    finding.stored = len(listed)
    gate = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(_read(reviewer, gate, part, listed, finding) for part in run.parts))
    seen = (await reviewer.call("GET", f"/v1/runs/{run.name}")).json()
    finding.unaccounted = seen["counts"]["unaccounted"]
    finding.lost = run.lost
    finding.recorded = Counter(seen["counts"]["not_captured"])
    return finding


async def _read(
    reviewer: Api, gate: asyncio.Semaphore, part: Part, listed: Container[Identity], finding: Finding
) -> None:
    async with gate:
        headers = {"Custody-Purpose": "demonstration"}
        answer = await reviewer.http.get(
            f"{part.path}/content", headers={"Authorization": f"Bearer {reviewer.key}", **headers}
        )
    if answer.status_code == _OK:
        finding.readable += 1
        finding.different += answer.content != part.content
    elif part_key(part) in listed:
        finding.unreadable[answer.json()["reason"]] += 1
    else:
        finding.not_captured[part.receipt.get("reason") or "unknown"] += 1


async def _closed(reviewer: Api, run: Run) -> None:
    async with asyncio.timeout(_CLOSED_WITHIN_S):
        while (await _run(reviewer, run))["state"] != "closed":  # noqa: ASYNC110 - it closes in another process
            await asyncio.sleep(0.25)


async def _run(reviewer: Api, run: Run) -> Json:
    seen: Json = (await reviewer.call("GET", f"/v1/runs/{run.name}")).json()
    return seen


def part_key(part: Part) -> Identity:
    """A part's identity within its run."""
    return part.exchange, part.attempt, part.kind


def _identity(item: Json) -> Identity:
    return item["exchange_id"], item["attempt_id"], item["kind"]
