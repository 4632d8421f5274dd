"""What is erased or over is refused from that instant by every way of asking, whatever the duties have done by then."""

from typing import Any

import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey
from tests.support.writers import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = b'{"secret":"CANARY-7f3a"}'


async def erased(way: Journey, runtime: Capturing, **what: Any) -> dict[str, Any]:
    answer = await way.client.post(
        "/v1/erasures", json=what, headers=await way.key(Role.OPERATOR, runtime.scope)
    )
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refused_everywhere(way: Journey, runtime: Capturing, evidence: str, reason: str, etag: str) -> None:
    """No reader and no way of asking gets a byte, a digest or an exact size."""
    for role in (Role.REVIEWER, Role.CUSTODIAN):
        for path in (f"/v1/parts/{evidence}/content", f"{runtime.path()}/content"):
            for more in ({}, {"If-None-Match": etag}, {"Range": "bytes=0-3"}, {"Custody-Purpose": "a look"}):
                answer = await way.get(path, runtime, role, headers=more)
                assert (answer.status_code, problem(answer)["reason"]) == (410, reason)
                assert b"CANARY" not in answer.content
                assert not {"repr-digest", "etag", "content-range"} & set(answer.headers)
    for path in (f"/v1/parts/{evidence}", runtime.path()):
        shown = await way.json(path, runtime)
        assert shown["availability"] == {"readable": False, "reason": reason}
        assert shown["bytes"] is None
    assert await listed(way, runtime) == [(evidence, reason)]


async def listed(way: Journey, runtime: Capturing, **more: Any) -> list[tuple[str, str | None]]:
    page = await way.json("/v1/parts", runtime, run=runtime.run, **more)
    return [(item["evidence"], item["availability"]["reason"]) for item in page["items"]]


async def test_what_is_erased_is_refused_at_once_by_every_way_and_says_how_far_it_is(way: Journey):
    """What is "accepted" is not "purged"; reads decide, not the job, which has not run yet."""
    runtime = await way.runtime(of=await way.scope(), wishes={"labels": {"team": "blue"}})
    await runtime.put(SECRET)
    await way.client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1",
        json={"refs": ["trace-1"]},
        headers=runtime.headers(),
    )
    await way.write()
    first = await way.read(runtime)
    evidence, etag = first.headers["custody-evidence"], first.headers["etag"]
    await runtime.put(b"another", exchange="x-2")
    await way.write()
    cursor = (await way.json("/v1/parts", runtime, run=runtime.run, limit=1))["page"]["next"]
    await erased(way, runtime, run=runtime.run, exchange="x-2", attempt="a-1", kind=REQUEST)

    asked = await erased(way, runtime, part=evidence)
    assert asked["state"] in ("accepted", "purging")
    assert (await erased(way, runtime, part=evidence))["erasure_id"] == asked["erasure_id"]
    # By the cursor of an earlier page, by a label, and by a reference there is only what it was.
    assert await listed(way, runtime, limit=1, cursor=cursor) == [(evidence, "erased")]
    for path, params in (("/v1/parts", {"label": "team=blue"}), ("/v1/attempts", {"ref": "trace-1"})):
        answer = await way.get(path, runtime, params=params)
        assert b"CANARY" not in answer.content
        assert len(answer.json()["items"]) >= 1
    for content in (SECRET, b"other bytes"):
        again = await runtime.put(content)
        assert (again.status_code, problem(again)["reason"]) == (409, "erased")
    await way.write()

    for _ in range(3):
        await way.duties.perform("purge")
    operator = await way.key(Role.OPERATOR, runtime.scope)
    done = (await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)).json()
    # Before the log says so, it is not said to be purged.
    assert (done["state"], done["waits_for"], done["purged_at"]) == ("purging", "publication", None)
    await way.publish()
    await way.duties.perform("purge")
    done = (await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)).json()
    assert (done["state"], done["waits_for"], done["purged_at"] is None) == ("purged", None, False)
    assert (await erased(way, runtime, part=evidence))["state"] == "purged"
    assert [reason for _, reason in await listed(way, runtime)] == ["erased", "erased"]
    for more in ({}, {"If-None-Match": etag}):
        answer = await way.get(f"/v1/parts/{evidence}/content", runtime, headers=more)
        assert (answer.status_code, problem(answer)["reason"]) == (410, "erased")
    assert problem(await runtime.put(SECRET))["reason"] == "erased"


@pytest.mark.parametrize("named", ["part", "run", "identity"])
async def test_however_it_is_named_it_is_gone_at_once(way: Journey, named: str):
    """By evidence, by run, and by an identity that may still wait."""
    runtime = await way.runtime()
    await runtime.put(SECRET)
    await way.write()
    first = await way.read(runtime)
    evidence = first.headers["custody-evidence"]
    what = {
        "part": {"part": evidence},
        "run": {"run": runtime.run},
        "identity": {"run": runtime.run, "exchange": "x-1", "attempt": "a-1", "kind": REQUEST},
    }[named]
    await erased(way, runtime, **what)
    await refused_everywhere(way, runtime, evidence, "erased", first.headers["etag"])


async def test_what_waits_and_is_erased_is_never_written(way: Journey):
    """The queue is one of the places where it may be."""
    runtime = await way.runtime()
    await runtime.put(SECRET)
    await erased(way, runtime, run=runtime.run, exchange="x-1", attempt="a-1", kind=REQUEST)
    await way.write()
    answer = await way.read(runtime)
    assert (answer.status_code, problem(answer)["reason"]) == (404, "not_stored")
    (gap,) = await way.gaps(runtime)
    assert gap["reason"] == "erased"


async def test_what_was_never_there_cannot_be_erased(way: Journey):
    """An unknown id is not found, and no erasure of it is begun."""
    runtime = await way.runtime()
    operator = await way.key(Role.OPERATOR, runtime.scope)
    before = (await way.client.get("/v1/erasures?limit=200", headers=operator)).json()["items"]
    for what in (
        {"part": "01900000-0000-7000-8000-000000000000"}, {"part": "x"}, {"run": "never-was"},
        {"run": runtime.run, "exchange": "x-9", "attempt": "a-9", "kind": OUTPUT},
    ):  # fmt: skip
        answer = await way.client.post("/v1/erasures", json=what, headers=operator)
        assert (answer.status_code, problem(answer)["reason"]) == (404, "not_found")
    assert (await way.client.get("/v1/erasures?limit=200", headers=operator)).json()["items"] == before


async def test_after_its_retention_only_what_it_was_is_left(way: Journey):
    """The body is over, the metadata stays, without a digest and without an exact size."""
    runtime = await way.runtime(wishes={"retention": "1s"})
    await runtime.put(SECRET)
    await way.write()
    first = await way.read(runtime)
    evidence = first.headers["custody-evidence"]
    assert first.content == SECRET
    await over(way, runtime)
    for path in (f"/v1/parts/{evidence}/content", f"{runtime.path()}/content"):
        for more in ({}, {"If-None-Match": first.headers["etag"]}):
            answer = await way.get(path, runtime, headers=more)
            assert (answer.status_code, problem(answer)["reason"]) == (410, "retention_expired")
    shown = await way.json(f"/v1/parts/{evidence}", runtime)
    assert (shown["bytes"], shown["media_type"]) == (None, "application/octet-stream")
    assert shown["availability"] == {"readable": False, "reason": "retention_expired"}
    assert not [name for name in shown if "digest" in name or "commitment" in name or "etag" in name]
    assert shown["size_class"] >= 64


async def test_nothing_more_is_taken_for_a_run_that_is_over(way: Journey):
    """Neither a part nor what waited for too long."""
    runtime = await way.runtime(wishes={"retention": "1s"})
    await runtime.put(b"waits", exchange="x-2")
    await over(way, runtime)
    late = await runtime.put(SECRET)
    assert (late.status_code, problem(late)["reason"]) == (403, "retention_expired")
    await way.write()
    answer = await way.read(runtime, "x-2")
    assert problem(answer)["reason"] in ("not_stored", "not_found", "retention_expired")
    assert b"waits" not in answer.content


async def over(way: Journey, runtime: Capturing) -> None:
    """Wait for a run's retention to end, as the database tells."""

    async def look() -> bool:
        return bool(
            await way.house.value(
                "SELECT retain_until < now() FROM runs WHERE scope_id = $1 AND run = $2",
                runtime.scope.scope_id,
                runtime.run,
            )
        )

    await until(look, 20)


@pytest.mark.parametrize(
    "retention",
    [
        3,
        "3",
        "0",
        0,
        -1,
        "",
        1e9,
        "1e9",
        "0d",
        "-1d",
        "3 d",
        "3D",
        "d",
        " 3d",
        "3d ",
        "99999999999d",
        True,
        [],
        {},
        "٣d",
    ],
)
async def test_a_retention_that_could_be_read_in_two_ways_is_refused(way: Journey, retention: Any):
    """A number without a unit never silently means nothing, in no document that takes one."""
    runtime = await way.runtime()
    operator = await way.key(Role.OPERATOR, runtime.scope)
    declared = await way.client.put("/v1/runs/odd", json={"retention": retention}, headers=runtime.key)
    assert problem(declared)["reason"] == "malformed_request"
    for policy in (
        {"retention": {"default": retention}}, {"retention": {"max": retention}}, {"metadata_retention": retention},
        {"destroy_after": retention}, {"retention": retention or ""},
    ):  # fmt: skip
        path = f"/v1/scopes/{runtime.scope.name}/policy"
        answer = await way.client.put(path, json={"policy": policy}, headers=operator)
        assert problem(answer)["reason"] == "malformed_request", policy
    assert (await way.get("/v1/runs/odd", runtime)).status_code == 404
