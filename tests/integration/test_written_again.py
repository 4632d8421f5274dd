"""Parts that were stored and published, whose writer died before it settled them, and whose database was then lost.

They wait in the queue still: whoever takes them writes them again, under the same id, before or after the restore.
"""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from custody_client.verify import Policy, verify_bundle
from policies.kinds import Role
from store.queue import Entry
from store.services.export.signing import bundle_signer, policy_text
from store.services.write_batch import BatchWriter
from tests.integration.test_restore import SECRET, post, read, stored
from tests.support.backup import Back
from tests.support.capture import Capturing
from tests.support.duties import end_span, execute, scalar
from tests.support.exporting import LOG
from tests.support.journey import Journey, journey


@pytest.fixture
async def back(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path: Path
) -> AsyncIterator[Back]:
    mirror = str(tmp_path / "mirror")
    async with journey(postgres_url, template_database, valkey_url, tmp_path, mirror_dir=mirror) as way:
        yield Back(way, tmp_path)


async def queued(runtime: Capturing, exchange: str) -> str:
    """The receipt of what is queued."""
    answer = await runtime.put(SECRET, exchange)
    assert answer.status_code == 202, answer.text
    text: str = answer.json()["receipt"]
    return text


async def written(way: Journey, entries: list[Entry]) -> None:
    done = await BatchWriter(way.house.persister(), max_deliveries=3).write(entries)
    assert [each.outcome for each in done.settlements] == ["stored"] * len(entries)


async def receipt(way: Journey, runtime: Capturing, text: str) -> str:
    answer = await way.get(f"/v1/receipts/{text}", runtime, Role.RUNTIME)
    return str(answer.json().get("capture") or answer.json()["reason"])


async def proven(way: Journey, runtime: Capturing, evidence: str, text: str) -> None:
    part = (await way.get(f"/v1/parts/{evidence}", runtime)).json()
    assert (part["evidence"], part["proof_state"]) == (evidence, "verified")
    assert await read(way, runtime, evidence) == (200, "")
    assert await receipt(way, runtime, text) == "stored"
    assert (await way.get(f"/v1/log/proof/{evidence}", runtime)).status_code == 200


async def exported(back: Back, runtime: Capturing) -> dict[str, int]:
    """How the parts of a bundle of the run verify, offline."""
    way, path = back.way, back.place / "bundle.zip"
    reviewer = await way.key(Role.REVIEWER, runtime.scope)
    asked = await way.client.post("/v1/exports", json={"runs": [runtime.run]}, headers=reviewer)
    assert asked.is_success, asked.text
    bundle = await way.client.get(asked.json()["bundle"], headers=reviewer)
    path.write_bytes(bundle.content)
    signer = bundle_signer(way.house.keyring, LOG.key.name)
    report = verify_bundle(path, Policy.parse(policy_text(LOG.key, signer.key).encode()))
    return dict(Counter(str(item.state) for item in report.items if item.kind == "part"))


async def test_what_is_written_again_is_read_and_proven_by_its_later_leaf(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    await stored(way, runtime, "x-kept")
    await back.publish()
    await back.backup()
    lost, _ = await stored(way, runtime, "x-lost")
    exchanges = ("x-before", "x-after", "x-erased", "x-revoked")
    receipts = {each: await queued(runtime, each) for each in exchanges}
    # Whoever writes these dies before it settles them.
    await written(way, await way.queue.take(0, "dies", 512, 1))
    ids = {
        each: str(await way.house.value("SELECT evidence FROM parts WHERE exchange = $1", each))
        for each in exchanges
    }
    await post(way, runtime, "/v1/erasures", part=ids["x-erased"])
    assert (await way.duties.perform("purge")).succeeded
    await back.publish()

    await back.go_back()
    # One of them is taken by another writer before anybody noticed.
    (entry,) = await way.queue.reclaim(0, "another", 0, 1)
    await written(way, [entry])
    assert await way.queue.settle(0, [entry.settle("stored")]) == [True]
    assert await back.restore()
    assert await scalar(way.url, "SELECT lost FROM restores") == 5
    # As the replay leaves what went with a source of which this database knows nothing.
    revoked = "UPDATE lost_evidence SET purge_reason = 'source_unavailable' WHERE evidence = $1"
    await execute(way.url, revoked, ids["x-revoked"])
    await runtime.declare()
    await way.write()
    assert await read(way, runtime, ids["x-erased"]) == (410, "erased")
    assert await read(way, runtime, ids["x-revoked"]) == (410, "source_unavailable")
    said = await way.get(f"/v1/receipts/{receipts['x-revoked']}", runtime, Role.RUNTIME)
    assert (said.json()["capture"], said.json()["reason"]) == ("not_captured", "source_revoked")
    for each in ("x-before", "x-after"):
        part = (await way.get(f"/v1/parts/{ids[each]}", runtime)).json()
        assert part["proof_state"] == "pending", each
        assert await way.content(runtime, each) == SECRET
    await back.publish()
    assert (await back.verified()).faults == []
    for each in ("x-before", "x-after"):
        await proven(way, runtime, ids[each], receipts[each])
    assert await exported(back, runtime) == {"ok": 3}
    assert await read(way, runtime, lost) == (410, "lost_in_restore")

    # They go like others; each leaf counts where the bucket's are counted.
    await post(way, runtime, "/v1/erasures", part=ids["x-after"])
    assert await back.round() is None
    assert (await way.duties.perform("purge")).succeeded
    span = await scalar(way.url, "SELECT span_start FROM parts WHERE exchange = 'x-before'")
    await end_span(way.url, span)
    assert await back.round() is None
    assert (await way.duties.perform("expiry")).counts == {"expired": 1}
    await back.publish()
    assert (await back.verified()).faults == []
    # The same once more: what was lost twice has two leaves of before.
    await back.go_back()
    await end_span(way.url, span)
    assert await back.restore()
    await back.publish()
    assert (await back.verified()).faults == []
