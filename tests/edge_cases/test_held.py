"""What is held, as operators, reviewers and custodians meet it: kept, closed, and never more than that."""

from typing import Any
from uuid import uuid4

import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import Capturing
from tests.support.duties import end_span, execute
from tests.support.journey import Journey
from tests.support.writers import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = b'{"secret":"CANARY-7f3a"}'
PURPOSE = {"Custody-Purpose": "matter 7"}


async def hold(way: Journey, runtime: Capturing, **what: Any) -> dict[str, Any]:
    operator = await way.key(Role.OPERATOR, runtime.scope)
    answer = await way.client.post("/v1/holds", json={"reason": "matter 7", **what}, headers=operator)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def release(way: Journey, runtime: Capturing, placed: dict[str, Any]) -> dict[str, Any]:
    operator = await way.key(Role.OPERATOR, runtime.scope)
    answer = await way.client.post(f"/v1/holds/{placed['hold_id']}/release", headers=operator)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def grace_over(way: Journey) -> None:
    await execute(way.url, "ALTER TABLE holds DISABLE TRIGGER holds_forward_only")
    await execute(
        way.url, "UPDATE holds SET released_at = released_at - interval '1 day' WHERE ended_at IS NULL"
    )
    await execute(way.url, "ALTER TABLE holds ENABLE TRIGGER holds_forward_only")


async def stored(way: Journey, runtime: Capturing, exchange: str = "x-1") -> str:
    await runtime.put(SECRET, exchange)
    await way.write()
    return str((await way.read(runtime, exchange)).headers["custody-evidence"])


async def test_operators_place_look_and_release_and_nobody_else_does(way: Journey):
    runtime = await way.runtime(of=await way.scope())
    evidence = await stored(way, runtime)
    placed = await hold(way, runtime, part=evidence)
    of_run = await hold(way, runtime, run=runtime.run)
    of_scope = await hold(way, runtime, whole_scope=True)
    assert [each["answer"] for each in (placed, of_run, of_scope)] == ["placed"] * 3
    assert (placed["reach"], placed["run_id"], placed["evidence"], placed["reason"]) == (
        "part", runtime.run, evidence, "matter 7"
    )  # fmt: skip
    operator = await way.key(Role.OPERATOR, runtime.scope)
    page = (await way.client.get("/v1/holds?limit=2", headers=operator)).json()
    rest = (await way.client.get(f"/v1/holds?limit=2&cursor={page['next']}", headers=operator)).json()
    assert page["items"] + rest["items"] == [of_scope, of_run, placed]
    assert rest["next"] is None
    released = await release(way, runtime, placed)
    assert (released["released_by"] is None, released["ended_at"]) == (False, None)
    assert (await way.client.get(f"/v1/holds/{placed['hold_id']}", headers=operator)).json() == released
    for role in (Role.RUNTIME, Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR):
        headers = await way.key(role, runtime.scope)
        for answer in (
            await way.client.post("/v1/holds", json={"reason": "m", "run": runtime.run}, headers=headers),
            await way.client.get("/v1/holds", headers=headers),
            await way.client.post(f"/v1/holds/{placed['hold_id']}/release", headers=headers),
        ):
            assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")
    other = await way.key(Role.OPERATOR, await way.scope())
    for answer in (
        await way.client.get(f"/v1/holds/{placed['hold_id']}", headers=other),
        await way.client.post(f"/v1/holds/{placed['hold_id']}/release", headers=other),
        await way.client.post("/v1/holds", json={"reason": "m", "part": evidence}, headers=other),
        await way.client.post("/v1/holds", json={"reason": "m", "run": runtime.run}, headers=other),
    ):
        assert (answer.status_code, problem(answer)["reason"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"part": str(uuid4())}, 404),
        ({"run": "nobodys"}, 404),
        ({}, 400),
        ({"part": str(uuid4()), "run": "r"}, 400),
        ({"run": "r", "whole_scope": True}, 400),
        ({"whole_scope": False}, 400),
        ({"run": "../r"}, 400),
        ({"run": "r", "reason": ""}, 400),
        ({"run": "r", "reason": "x" * 501}, 400),
        ({"run": "r", "reason": "\x00"}, 400),
        ({"run": "r", "until": "2027-01-01"}, 400),
    ],
)
async def test_what_cannot_be_held_says_why(way: Journey, body: dict[str, object], status: int):
    scope = await way.shared()
    operator = await way.key(Role.OPERATOR, scope)
    answer = await way.client.post("/v1/holds", json={"reason": "m", **body}, headers=operator)
    assert answer.status_code == status, answer.text


async def test_an_erasure_of_what_is_held_closes_it_to_everybody_and_says_what_it_waits_for(way: Journey):
    runtime = await way.runtime()
    evidence = await stored(way, runtime)
    placed = await hold(way, runtime, part=evidence)
    operator = await way.key(Role.OPERATOR, runtime.scope)
    asked = (await way.client.post("/v1/erasures", json={"part": evidence}, headers=operator)).json()
    assert (asked["state"], asked["waits_for"]) == ("deferred", "hold")
    await way.duties.perform("purge")
    for role in (Role.REVIEWER, Role.CUSTODIAN):
        answer = await way.get(f"/v1/parts/{evidence}/content", runtime, role, headers=PURPOSE)
        assert (answer.status_code, problem(answer)["reason"]) == (410, "erased")
    shown = await way.json(f"/v1/parts/{evidence}", runtime)
    assert (shown["availability"], shown["bytes"]) == ({"readable": False, "reason": "erased"}, None)
    again = await runtime.put(SECRET)
    assert (again.status_code, problem(again)["reason"]) == (409, "erased")
    await way.write()
    await way.sound()

    await release(way, runtime, placed)
    await grace_over(way)
    await way.duties.perform("purge")
    await way.publish()
    await way.duties.perform("purge")
    done = (await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)).json()
    assert (done["state"], done["waits_for"]) == ("purged", None)


async def test_an_erased_subject_loses_its_runs_its_labels_and_nothing_of_others(way: Journey):
    scope = await way.scope()
    about = {"subject": "Ada Lovelace", "labels": {"patient": "Ada"}}
    first = await way.runtime(of=scope, wishes=about)
    second = await way.runtime(of=scope, wishes=about)
    other = await way.runtime(of=scope, wishes={"subject": "Charles", "labels": {"patient": "Charles"}})
    parts = [await stored(way, each) for each in (first, second, other)]
    placed = await hold(way, second, part=parts[1])
    operator = await way.key(Role.OPERATOR, scope)
    asked = (await way.client.post("/v1/erasures", json={"subject": "Ada Lovelace"}, headers=operator)).json()
    assert (asked["target"], asked["run_id"], asked["evidence"], asked["source"]) == (
        "subject",
        None,
        None,
        None,
    )
    for runtime, evidence in zip((first, second), parts, strict=False):
        answer = await way.get(f"/v1/parts/{evidence}/content", runtime)
        assert (answer.status_code, problem(answer)["reason"]) == (410, "erased")
        late = await runtime.put(b"more", "x-2")
        assert problem(late)["reason"] == "erased"
    assert (await way.read(other)).content == SECRET
    await way.write()
    await way.duties.perform("purge")
    labels = "SELECT labels FROM runs WHERE scope_id = $1 AND run = $2"
    found = [await way.house.value(labels, scope.scope_id, each.run) for each in (first, second, other)]
    assert found == [[], ["patient=Ada"], ["patient=Charles"]]
    now = (await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)).json()
    assert (now["state"], now["waits_for"]) == ("deferred", "hold")

    await release(way, second, placed)
    await grace_over(way)
    for _ in range(2):
        await way.duties.perform("purge")
        await way.publish()
    await way.duties.perform("purge")
    now = (await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)).json()
    assert now["state"] == "purged"
    assert await way.house.value(labels, scope.scope_id, second.run) == []
    assert (await way.read(other)).content == SECRET
    # What is said of it is said nowhere: only its keyed hash is kept.
    assert "Ada" not in str(await way.house.rows("SELECT action, target FROM operator_actions"))


async def test_a_subject_is_erased_again_of_which_runs_were_declared_while_the_first_erasure_waits(
    way: Journey,
):
    scope = await way.scope()
    operator = await way.key(Role.OPERATOR, scope)

    async def erased() -> str:
        asked = await way.client.post("/v1/erasures", json={"subject": "Ada"}, headers=operator)
        return str(asked.json()["erasure_id"])

    first = await way.runtime(of=scope, wishes={"subject": "Ada"})
    await hold(way, first, part=await stored(way, first))
    asked = await erased()
    await way.duties.perform("purge")
    assert await erased() == asked
    later = await way.runtime(of=scope, wishes={"subject": "Ada"})
    evidence = await stored(way, later)
    again = await erased()
    assert again != asked
    assert problem(await way.get(f"/v1/parts/{evidence}/content", later))["reason"] == "erased"
    assert await erased() == again
    for _ in range(2):
        await way.duties.perform("purge")
        await way.publish()
    await way.duties.perform("purge")
    states = [
        (await way.client.get(f"/v1/erasures/{each}", headers=operator)).json()["state"]
        for each in (asked, again)
    ]
    # Both are about all that is of the subject by now, and of that a hold keeps something.
    assert states == ["deferred", "deferred"]
    gone = "SELECT state FROM parts WHERE scope_id = $1 AND evidence = $2"
    assert await way.house.value(gone, scope.scope_id, evidence) == "purged"


async def test_what_is_expired_and_held_is_for_custodians_who_say_what_for(way: Journey):
    runtime = await way.runtime(of=await way.scope(), wishes={"retention": "2s"})
    evidence, sibling = await stored(way, runtime), await stored(way, runtime, "x-2")
    placed = await hold(way, runtime, part=evidence)

    async def over() -> bool:
        answer = await way.get(f"/v1/parts/{evidence}/content", runtime)
        return answer.status_code != 200

    await until(over, 20)
    for expired in (False, True):
        if expired:
            span = await way.house.value("SELECT span_start FROM parts WHERE evidence = $1", evidence)
            await end_span(way.url, span)
            assert (await way.duties.perform("expiry")).succeeded
        for role in (Role.REVIEWER, Role.CUSTODIAN):
            answer = await way.get(f"/v1/parts/{sibling}/content", runtime, role, headers=PURPOSE)
            assert (answer.status_code, problem(answer)["reason"]) == (410, "retention_expired")
        answer = await way.get(f"/v1/parts/{evidence}/content", runtime, headers=PURPOSE)
        assert (answer.status_code, problem(answer)["reason"]) == (403, "expired_held")
        shown = await way.json(f"/v1/parts/{evidence}", runtime)
        assert (shown["availability"]["reason"], shown["bytes"]) == ("expired_held", None)
        unsaid = await way.get(f"/v1/parts/{evidence}/content", runtime, Role.CUSTODIAN)
        assert (unsaid.status_code, problem(unsaid)["reason"]) == (400, "malformed_request")
        read = await way.get(f"/v1/parts/{evidence}/content", runtime, Role.CUSTODIAN, headers=PURPOSE)
        assert (read.status_code, read.content) == (200, SECRET)
    auditor = await way.json("/v1/accesses", runtime, Role.AUDITOR)
    outcomes = [(each["role"], each["purpose"], each["outcome"]) for each in auditor["items"]]
    assert ("custodian", "matter 7", "read") in outcomes
    assert ("reviewer", "matter 7", "expired_held") in outcomes
    metrics = (await way.client.get("/metrics")).text
    assert f'custody_held_parts{{scope="{runtime.scope.name}"}} 1.0' in metrics
    assert f'custody_holds{{scope="{runtime.scope.name}"}} 1.0' in metrics
    await way.write()
    await way.sound()

    await release(way, runtime, placed)
    await grace_over(way)
    await way.duties.perform("purge")
    answer = await way.get(f"/v1/parts/{evidence}/content", runtime, Role.CUSTODIAN, headers=PURPOSE)
    assert (answer.status_code, problem(answer)["reason"]) == (410, "retention_expired")
    assert (
        await way.house.value("SELECT count(*) FROM bodies WHERE evidence = ANY($1)", [evidence, sibling])
        == 0
    )
