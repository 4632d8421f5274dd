"""An older backup in the database's place: closed at once, and after the replay nothing reads again that was gone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.backup import Back
from tests.support.capture import Capturing
from tests.support.duties import scalar
from tests.support.journey import Journey, journey

SECRET = b'{"secret":"CANARY-91c2"}'


@pytest.fixture
async def back(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path: Path
) -> AsyncIterator[Back]:
    mirror = str(tmp_path / "mirror")
    async with journey(postgres_url, template_database, valkey_url, tmp_path, mirror_dir=mirror) as way:
        yield Back(way, tmp_path)


async def stored(way: Journey, runtime: Capturing, exchange: str) -> tuple[str, str]:
    """A part's evidence id and the receipt that its sender has."""
    answer = await runtime.put(SECRET, exchange)
    assert answer.status_code == 202, answer.text
    await way.write()
    evidence = await way.house.value("SELECT evidence FROM parts WHERE exchange = $1", exchange)
    return str(evidence), answer.json()["receipt"]


async def read(
    way: Journey, runtime: Capturing, evidence: str, role: Role = Role.REVIEWER
) -> tuple[int, str]:
    answer = await way.get(f"/v1/parts/{evidence}/content", runtime, role)
    return answer.status_code, "" if answer.is_success else str(problem(answer)["reason"])


async def post(way: Journey, runtime: Capturing, path: str, **what: Any) -> dict[str, Any]:
    operator = await way.key(Role.OPERATOR, runtime.scope)
    answer = await way.client.post(path, json=what, headers=operator)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json() if answer.content else {}
    return found


async def test_what_happened_after_the_backup_is_so_again(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    erased, _ = await stored(way, runtime, "x-erased")
    held, _ = await stored(way, runtime, "x-held")
    kept, _ = await stored(way, runtime, "x-kept")
    await back.publish()
    await back.backup()

    await post(way, runtime, "/v1/erasures", part=erased)
    await post(way, runtime, "/v1/holds", part=held, reason="matter 7")
    later, receipt = await stored(way, runtime, "x-later")
    gone, gone_receipt = await stored(way, runtime, "x-gone")
    await post(way, runtime, "/v1/erasures", part=gone)
    await back.publish()
    before = await scalar(way.url, "SELECT root FROM log_state WHERE size = published_size")

    await back.go_back()
    assert await read(way, runtime, erased) == (503, "reads_closed")
    assert await back.round() == "rolled_back"
    # It is in the backup: nothing but the stop keeps it from being read.
    assert await scalar(way.url, "SELECT state FROM parts WHERE exchange = 'x-erased'") == "stored"
    assert not (await back.verified()).sound
    # Nothing is destroyed meanwhile: the hold is not back yet.
    for duty in ("purge", "expiry", "metadata"):
        assert (await way.duties.perform(duty)).counts == {"stands_still": 1}
    assert not {"purge", "expiry"} & set(await way.duties.due())

    assert await back.restore()
    assert await read(way, runtime, erased) == (410, "erased")
    assert await read(way, runtime, kept) == (200, "")
    assert await read(way, runtime, later) == (410, "lost_in_restore")
    assert await read(way, runtime, gone) == (410, "erased")
    metadata = await way.get(f"/v1/parts/{later}", runtime)
    assert (metadata.status_code, problem(metadata)["reason"]) == (410, "lost_in_restore")
    for text, reason in ((receipt, "lost_in_restore"), (gone_receipt, "erased")):
        answer = await way.get(f"/v1/receipts/{text}", runtime, Role.RUNTIME)
        assert (answer.status_code, problem(answer)["reason"]) == (410, reason)
    assert await read(way, runtime, later, Role.AUDITOR) == (403, "permission_denied")
    other = await way.runtime(of=await way.scope())
    assert await read(way, other, later) == (404, "not_found")
    assert (await way.read(runtime, "x-later")).status_code == 404
    (hold,) = (await way.json("/v1/holds", runtime, Role.OPERATOR))["items"]
    assert (hold["reach"], hold["evidence"], hold["answer"], hold["reason"]) == ("part", held, "placed", None)
    assert (
        await scalar(
            way.url, "SELECT count(*) FROM bodies b JOIN parts p USING (evidence) WHERE p.state <> 'stored'"
        )
        == 0
    )
    assert before == await scalar(way.url, "SELECT root FROM log_state")

    # The same identity may be posted again, and the log goes on where it was.
    await runtime.declare()
    again, _ = await stored(way, runtime, "x-later")
    assert again != later
    await back.publish()
    assert (await back.verified()).faults == []
    assert await way.content(runtime, "x-later") == SECRET
    assert await read(way, runtime, later) == (410, "lost_in_restore")
    done = "SELECT target FROM operator_actions WHERE action = 'log_restored' AND key_id = 'operator-1'"
    assert len((await scalar(way.url, done)).split()) == 2
    assert not await back.restore()


async def test_a_backup_of_a_moment_ago_is_closed_and_gives_no_place_away_before_it_is_compared(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    erased, _ = await stored(way, runtime, "x-erased")
    await back.publish()
    await back.backup()
    await post(way, runtime, "/v1/erasures", part=erased)
    later, _ = await stored(way, runtime, "x-later")
    await back.publish()

    await back.go_back(aged=False)
    await asyncio.sleep(1.1)
    # Its comparison is younger than the lease, and than anything that only looks at times.
    age = "SELECT now() - compared_at < interval '10 minutes' FROM log_state"
    assert await scalar(way.url, age)
    assert await read(way, runtime, erased) == (503, "reads_closed")
    # Writers and duties go on before anybody noticed: what is stored waits for its place, and nothing is destroyed.
    await stored(way, runtime, "x-between")
    before = await scalar(way.url, "SELECT size FROM log_state")
    for duty in ("sequence", "purge", "expiry", "metadata"):
        assert (await way.duties.perform(duty)).counts.get("stands_still") == 1, duty
    assert await scalar(way.url, "SELECT size FROM log_state") == before
    assert await back.round() == "rolled_back"

    assert await back.restore()
    assert await read(way, runtime, erased) == (410, "erased")
    assert await read(way, runtime, later) == (410, "lost_in_restore")
    assert await way.content(runtime, "x-between") == SECRET
    await back.publish()
    assert (await back.verified()).faults == []
