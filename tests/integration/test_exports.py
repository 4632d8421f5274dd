"""Bundles: what is in them, what is not and why, who gets them, and what a verifier makes of them."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from policies.kinds import Role
from store.services.export import asking, closings, parts, records
from tests.support.api import problem
from tests.support.databases import clone_of
from tests.support.duties import end_span
from tests.support.exporting import Desk, files, lines, office, states, unavailable
from tests.support.factories import OUTPUT, Run
from tests.support.stack import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Desk]:
    """One desk for all: runs and keys are each test's own."""
    place = tmp_path_factory.mktemp("desk")
    (place / "keys").mkdir(mode=0o700)
    async with (
        clone_of(postgres_url, template_database) as url,
        office(url, valkey_url, place / "keys", place) as opened,
    ):
        yield opened


async def two_runs(desk: Desk) -> tuple[Run, Run, list[UUID]]:
    """Two runs with two parts each, closed."""
    runs = [await desk.shelf.house.declare(), await desk.shelf.house.declare()]
    evidence = []
    for run in runs:
        evidence.append(
            await desk.shelf.store(run, b'{"answer": "%s"}' % (b"yes " * 300), session="s-1", sequence=1)
        )
        evidence.append(
            await desk.shelf.store(run, b"\x00\xff", kind=OUTPUT, media_type="application/octet-stream")
        )
        await desk.close(run, 2)
    return runs[0], runs[1], evidence


@pytest.mark.parametrize("together", [1, 2, 1000])
async def test_a_bundle_of_two_runs_proves_itself(desk, monkeypatch, together):
    """However much of it is read at a time."""
    for module, name in (
        (parts, "_MOST_TOGETHER"), (closings, "_TOGETHER"), (records, "_LINES"), (records, "_PARTS_TOGETHER"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, together)
    monkeypatch.setattr(parts, "_MOST_BYTES", 512 * together)
    one, other, evidence = await two_runs(desk)
    await desk.publish()
    before = await desk.checkpoint()
    anchor = int(before.split(b"\n")[1])
    await desk.shelf.store(one, b"later", exchange="later")
    await desk.publish()
    reviewer = await desk.shelf.key(Role.REVIEWER)
    wanted = {"runs": [one.run], "evidence": [str(each) for each in evidence[2:]], "anchors": [anchor]}
    bundle = await desk.bundle({**reviewer, "Custody-Purpose": "case 7"}, **wanted)

    report = desk.verified(bundle, before)
    assert (report.exit, states(report)) == (0, [])
    counts = report.counts()
    assert [dict(counts[kind]) for kind in ("part", "closing", "anchor")] == [{"ok": 5}, {"ok": 2}, {"ok": 1}]
    found = files(bundle)
    assert found[f"data/parts/{evidence[1].hex}/content"] == b"\x00\xff"
    facts = json.loads(found["data/bundle.json"])
    assert (facts["parts"], facts["unavailable"], facts["closings"]) == (5, 0, 2)
    assert found["data/policy.txt"].decode() == desk.policy()
    read = lines(found, "accesses.jsonl")
    assert sorted(each["evidence"] for each in read) == sorted({each["evidence"] for each in read})
    assert len(read) == 5
    done = [each["action_id"] for each in lines(found, "actions.jsonl")]
    kept = await desk.shelf.house.rows(
        "SELECT action_id FROM operator_actions WHERE scope_id = $1 ORDER BY at, action_id", one.scope
    )
    assert done == [row["action_id"].hex for row in kept]
    assert {(each["outcome"], each["purpose"], each["role"]) for each in read} == {
        ("read", "case 7", "reviewer")
    }
    assert other.run_uid.hex in {name.split("/")[2] for name in found if name.startswith("data/closings/")}


async def test_what_may_not_be_read_is_named_with_its_reason_and_what_the_log_says(desk):
    house, shelf = desk.shelf.house, desk.shelf
    run, short = await house.declare(), await house.declare()
    erased = await shelf.store(run, b"erased", exchange="x-1")
    await house.add_source("doc-1")
    await house.add_source("doc-2")
    revoked = await shelf.store(run, b"revoked", exchange="x-2", sources=[("doc-1", 1)])
    secret = await shelf.store(run, b"secret", exchange="x-3", sources=[("doc-2", 1)])
    over = await shelf.store(short, b"over", exchange="x-4")
    lost = await shelf.store(run, b"lost", exchange="x-5")
    edited = await shelf.store(run, b"edited", exchange="x-6")
    good = await shelf.store(run, b"good", exchange="x-7")
    other = await house.add_scope()
    theirs = await shelf.store(await house.declare(scope=other), b"theirs")

    await house.execute("UPDATE sources SET revoked_at = now() WHERE source = 'doc-1'")
    await house.execute("UPDATE sources SET audience = '{legal}' WHERE source = 'doc-2'")
    await house.execute(
        "UPDATE runs SET retain_until = now() - interval '1 second' WHERE run_uid = $1", short.run_uid
    )
    await house.execute(
        "UPDATE bodies SET ciphertext = set_byte(ciphertext, 20, get_byte(ciphertext, 20) # 1) WHERE evidence = $1",
        lost,
    )
    await house.execute("UPDATE parts SET media_type = 'text/html' WHERE evidence = $1", edited)
    await desk.publish()
    await desk.purge(erased, "erased")
    await desk.publish()

    never = uuid4()
    asked = [erased, revoked, secret, over, lost, edited, good, theirs, never]
    bundle = await desk.bundle(await shelf.key(Role.REVIEWER), evidence=[str(each) for each in asked])
    found = files(bundle)
    assert unavailable(found) == {
        erased.hex: ("erased", ["part", "purge"]),
        revoked.hex: ("source_unavailable", ["part"]),
        secret.hex: ("permission_denied", ["part"]),
        over.hex: ("retention_expired", ["part"]),
        lost.hex: ("integrity_mismatch", ["part"]),
        edited.hex: ("integrity_mismatch", ["part"]),
        theirs.hex: ("not_found", []),
        never.hex: ("not_found", []),
    }
    assert {name.split("/")[2] for name in found if name.startswith("data/parts/")} == {good.hex}
    # Metadata name sources: who may not see these gets none of them, and nobody those that were changed.
    shown = {name.split("/")[2] for name in found if name.endswith("part/meta.json")}
    assert shown == {erased.hex, revoked.hex, over.hex, lost.hex}
    assert b"theirs" not in bundle
    report = desk.verified(bundle)
    assert (report.exit, states(report)) == (3, [])
    outcomes = {each["evidence"]: each["outcome"] for each in lines(found, "accesses.jsonl")}
    assert outcomes == {each.hex: unavailable(found).get(each.hex, ("read",))[0] for each in asked[:-2]}


async def test_an_expired_bucket_is_proven_by_its_leaf(desk):
    house = desk.shelf.house
    # Of all that are stored here, alone in its bucket.
    run = await house.declare(keep=timedelta(days=3))
    evidence = await desk.shelf.store(run, b"1")
    (row,) = await house.rows("SELECT bucket_id, span_start FROM parts WHERE evidence = $1", evidence)
    await end_span(house.url, row["span_start"])
    await house.execute(
        "UPDATE buckets SET state = 'expired', expired_at = now() WHERE bucket_id = $1", row["bucket_id"]
    )
    await desk.queue(
        house.scope, b'{"b":"%s","k":"expire","n":1,"t":1,"v":1}' % row["bucket_id"].hex.encode()
    )
    await desk.publish()
    bundle = await desk.bundle(await desk.shelf.key(Role.REVIEWER), runs=[run.run])
    assert unavailable(files(bundle)) == {evidence.hex: ("retention_expired", ["expire", "part"])}
    report = desk.verified(bundle, await desk.checkpoint())
    assert (report.exit, states(report)) == (0, [])


async def test_what_is_expired_and_held_is_for_custodians_who_say_what_for(desk):
    house = desk.shelf.house
    run = await house.declare(keep=timedelta(days=2))
    evidence = await desk.shelf.store(run, b"kept")
    await desk.publish()
    await house.execute(
        "INSERT INTO holds (scope_id, hold_id, reach, run_uid, answer, placed_by)"
        " VALUES ($1, gen_random_uuid(), 'run', $2, 'placed', 'op')",
        run.scope, run.run_uid,
    )  # fmt: skip
    await house.execute(
        "UPDATE runs SET retain_until = now() - interval '1 s' WHERE run_uid = $1", run.run_uid
    )
    custodian = await desk.shelf.key(Role.CUSTODIAN)
    for headers in (await desk.shelf.key(Role.REVIEWER), custodian):
        found = files(await desk.bundle(headers, runs=[run.run]))
        assert unavailable(found) == {evidence.hex: ("expired_held", ["part"])}
    found = files(await desk.bundle({**custodian, "Custody-Purpose": "litigation"}, runs=[run.run]))
    assert found[f"data/parts/{evidence.hex}/content"] == b"kept"


async def test_a_closing_that_somebody_changed_or_took_away_fails_and_one_that_is_forgotten_is_not_there(
    desk,
):
    one, other, _ = await two_runs(desk)
    gone = await desk.shelf.house.declare()
    await desk.close(gone, 0)
    await desk.publish()
    execute = desk.shelf.house.execute
    await execute("UPDATE closings SET record = record || ' ' WHERE run_uid = $1", one.run_uid)
    await execute("DELETE FROM closings WHERE run_uid IN ($1, $2)", other.run_uid, gone.run_uid)
    reviewer = await desk.shelf.key(Role.REVIEWER)
    path = (await desk.ask(reviewer, runs=[one.run, other.run, gone.run])).json()["bundle"]
    await execute("DELETE FROM runs WHERE run_uid = $1", gone.run_uid)
    report = desk.verified((await desk.shelf.get(path, reviewer)).content)
    assert report.exit == 1
    failed = [(item.kind, item.name) for item in report.items if item.state == "failed"]
    assert sorted(failed) == sorted([("closing", one.run_uid.hex), ("closing", other.run_uid.hex)])


async def test_an_auditor_gets_metadata_proofs_closings_and_records_and_no_content(desk):
    one, _, evidence = await two_runs(desk)
    await desk.publish()
    await desk.shelf.get(f"/v1/parts/{evidence[0]}/content", await desk.shelf.key(Role.REVIEWER))
    bundle = await desk.bundle(await desk.shelf.key(Role.AUDITOR), runs=[one.run])
    found = files(bundle)
    assert unavailable(found) == {each.hex: ("permission_denied", ["part"]) for each in evidence[:2]}
    assert not any(name.endswith("/content") for name in found)
    assert json.loads(found[f"data/unavailable/{evidence[0].hex}/part/meta.json"])["run"] == one.run
    assert [each["outcome"] for each in lines(found, "accesses.jsonl") if each["evidence"] == evidence[0].hex] == [
        "read", "permission_denied",
    ]  # fmt: skip
    assert states(desk.verified(bundle)) == []


async def test_a_bundle_s_reads_are_counted_as_all_reads_are(desk):
    one, _, evidence = await two_runs(desk)
    await desk.publish()
    reviewer = await desk.shelf.key(Role.REVIEWER)
    await desk.bundle(reviewer, runs=[one.run])
    await desk.shelf.get(f"/v1/parts/{evidence[2]}/content", reviewer)
    volume = desk.shelf.api.services.access_log._volume
    assert volume is not None
    await volume.write()
    key_id = reviewer["Authorization"].split("_")[2]
    assert await desk.shelf.house.value("SELECT sum(reads) FROM read_counts WHERE key_id = $1", key_id) == 3


async def test_roles_that_read_no_metadata_of_parts_get_no_bundle(desk):
    for role in (Role.OPERATOR, Role.RUNTIME):
        refused = await desk.ask(await desk.shelf.key(role), runs=["run-1"])
        assert problem(refused)["reason"] == "permission_denied"


async def test_only_the_key_that_asked_fetches_and_only_for_a_day(desk):
    one, _, _ = await two_runs(desk)
    await desk.publish()
    reviewer, second = await desk.shelf.key(Role.REVIEWER), await desk.shelf.key(Role.REVIEWER)
    path = (await desk.ask(reviewer, runs=[one.run])).json()["bundle"]
    assert problem(await desk.shelf.get(path, second))["reason"] == "not_found"
    assert (await desk.shelf.get(path, reviewer)).status_code == 200
    export = UUID(path.rpartition("/")[2])
    assert await desk.shelf.house.value("SELECT state FROM exports WHERE export_id = $1", export) == "given"
    await desk.shelf.house.execute(
        "UPDATE exports SET requested_at = now() - interval '25 hours' WHERE export_id = $1", export
    )
    assert problem(await desk.shelf.get(path, reviewer))["reason"] == "not_found"


async def test_a_part_is_read_when_it_is_fetched_and_not_when_it_was_asked_for(desk):
    one, _, evidence = await two_runs(desk)
    await desk.publish()
    reviewer = await desk.shelf.key(Role.REVIEWER)
    path = (await desk.ask(reviewer, runs=[one.run])).json()["bundle"]
    await desk.shelf.house.narrow(one, erased=True)
    given = await desk.shelf.get(path, reviewer)
    assert {reason for reason, _ in unavailable(files(given.content)).values()} == {"erased"}
    assert len(unavailable(files(given.content))) == len(evidence[:2])


async def test_what_cannot_be_asked_for_is_said(desk, monkeypatch):
    one, _, evidence = await two_runs(desk)
    reviewer = await desk.shelf.key(Role.REVIEWER)
    monkeypatch.setattr(desk.shelf.api.services.exports._asking, "_patience_s", 0.0)
    behind = problem(await desk.ask(reviewer, runs=[one.run]))
    assert (behind["status"], behind["reason"], behind["retryable"]) == (503, "store_unavailable", True)
    await desk.publish()
    size = int((await desk.checkpoint()).split(b"\n")[1])
    for wanted, reason in (
        ({}, "malformed_request"), ({"runs": ["nobodys"]}, "not_found"), ({"evidence": ["x"]}, "malformed_request"),
        ({"evidence": [evidence[0].hex]}, "malformed_request"),
        ({"runs": [one.run], "anchors": [size + 1]}, "malformed_request"),
        ({"runs": [one.run], "anchors": [0]}, "malformed_request"), ({"run": one.run}, "malformed_request"),
    ):  # fmt: skip
        assert problem(await desk.ask(reviewer, **wanted))["reason"] == reason, wanted
    monkeypatch.setattr(asking, "MOST_PARTS", 3)
    assert (await desk.ask(reviewer, runs=[one.run], evidence=[str(evidence[0])])).status_code == 201
    most = await desk.ask(reviewer, runs=[one.run], evidence=[str(evidence[2]), str(evidence[3])])
    assert problem(most)["reason"] == "malformed_request"
    # A scope that wants to know what reads are for wants it of bundles.
    strict = await desk.shelf.house.add_scope({"purpose_required": True})
    await desk.shelf.house.declare("strict", scope=strict)
    key = await desk.shelf.key(Role.REVIEWER, strict)
    assert problem(await desk.ask(key, runs=["strict"]))["reason"] == "malformed_request"
    assert (await desk.ask({**key, "Custody-Purpose": "why"}, runs=["strict"])).status_code == 201


async def test_nothing_is_exported_while_reads_are_closed(desk):
    one, _, _ = await two_runs(desk)
    await desk.publish()
    reviewer, house = await desk.shelf.key(Role.REVIEWER), desk.shelf.house
    path = (await desk.ask(reviewer, runs=[one.run])).json()["bundle"]

    async def closed() -> bool:
        return bool((await desk.ask(reviewer, runs=[one.run])).is_server_error)

    async def opened() -> bool:
        return bool((await desk.shelf.get(path, reviewer)).is_success)

    await house.execute("UPDATE log_state SET stop = 'rolled_back', stopped_at = now()")
    try:
        await until(closed, "reads are closed")
        for answer in (await desk.ask(reviewer, runs=[one.run]), await desk.shelf.get(path, reviewer)):
            assert problem(answer)["reason"] == "reads_closed"
    finally:
        await house.execute("UPDATE log_state SET stop = NULL, stopped_at = NULL")
    await until(opened, "reads are open")


async def test_a_part_without_a_leaf_is_no_part_of_the_log_and_said_as_such(desk):
    """An insider's part, put beside the log; and one whose leaf they changed."""
    one, _, evidence = await two_runs(desk)
    await desk.publish()
    house = desk.shelf.house
    await house.execute("DELETE FROM log_entries WHERE subject = $1", evidence[0])
    await house.execute(
        "UPDATE parts SET stored_at = stored_at - interval '5 minutes' WHERE evidence = $1", evidence[0]
    )
    await house.execute(
        "UPDATE log_entries SET leaf = replace(encode(leaf, 'escape'), '\"t\":1', '\"t\":2')::bytea WHERE subject = $1",
        evidence[1],
    )
    bundle = await desk.bundle(await desk.shelf.key(Role.REVIEWER), runs=[one.run])
    assert unavailable(files(bundle)) == {
        evidence[0].hex: ("integrity_mismatch", []), evidence[1].hex: ("integrity_mismatch", []),
    }  # fmt: skip
    assert states(desk.verified(bundle)) == []


async def test_operator_actions_are_in_it_and_tell_sources_to_auditors_only(desk):
    house = desk.shelf.house
    run = await house.declare()
    await desk.shelf.store(run, b"1")
    await desk.publish()
    operator = await desk.shelf.key(Role.OPERATOR)
    await desk.shelf.api.client.put("/v1/sources/merger-papers", json={}, headers=operator)
    told = {}
    for role in (Role.REVIEWER, Role.AUDITOR):
        actions = lines(files(await desk.bundle(await desk.shelf.key(role), runs=[run.run])), "actions.jsonl")
        told[role] = [each["target"] for each in actions if each["action"] == "source_version_added"]
        assert "key_created" in {each["action"] for each in actions}
    assert told == {Role.REVIEWER: [None], Role.AUDITOR: ["merger-papers v1"]}
