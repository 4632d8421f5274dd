"""What another scope holds is what never was: the same status and the same bytes, by every way there is to ask."""

import statistics
from time import perf_counter
from typing import Any
from uuid import uuid4

import httpx
import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import REQUEST, Capturing
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

READERS = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR)
PART = f"/v1/runs/{{run}}/exchanges/{{exchange}}/attempts/a-1/parts/{REQUEST}"
ASKED = {
    "part": "/v1/parts/{evidence}",
    "content": "/v1/parts/{evidence}/content",
    "identity": PART,
    "content by identity": PART + "/content",
    "run": "/v1/runs/{run}",
    "gaps": "/v1/runs/{run}/gaps",
    "receipt": "/v1/receipts/{receipt}",
}
LISTED = {
    "parts by run": "/v1/parts?run={run}",
    "parts by exchange": "/v1/parts?run={run}&exchange={exchange}",
    "parts by label": "/v1/parts?label=team%3D{label}",
    "runs by label": "/v1/runs?label=team%3D{label}",
    "attempts": "/v1/attempts?ref={ref}",
    "receipts": "/v1/runs/{run}/receipts",
    "accesses": "/v1/accesses?evidence={evidence}",
}


async def filled(way: Journey) -> tuple[Capturing, dict[str, str]]:
    """A tenant's run with everything that others could ask for, and what they would name it by."""
    runtime = await way.runtime(of=await way.scope(), wishes={"labels": {"team": "blue"}})
    receipt = (await runtime.put(b"content")).json()["receipt"]
    await runtime.put(b"x" * 300_000, exchange="x-2")
    refs = {"refs": ["trace-7"]}
    await way.client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1", json=refs, headers=runtime.headers()
    )
    await way.write()
    evidence = (await way.json(runtime.path(), runtime))["evidence"]
    await way.content(runtime)
    return runtime, {
        "run": runtime.run, "exchange": "x-1", "evidence": evidence, "receipt": receipt,
        "ref": "trace-7", "label": "blue",
    }  # fmt: skip


async def test_a_stranger_learns_nothing_by_any_way_of_asking(way: Journey):
    """By id, by batch, by cursor, by search, with each role; the same run id in both scopes."""
    theirs, named = await filled(way)
    mine = await way.runtime(of=await way.scope())
    unknown = {
        "run": "never-was", "exchange": "x-9", "evidence": str(uuid4()), "receipt": "cr1.AAAA",
        "ref": "trace-8", "label": "red",
    }  # fmt: skip
    for role in (*READERS, Role.RUNTIME):
        for what, template in (ASKED | LISTED).items():
            foreign = await way.get(template.format(**named), mine, role)
            invented = await way.get(template.format(**unknown), mine, role)
            assert alike(foreign, invented), (role, what, foreign.text, invented.text)
            # And whoever is of the scope does find it, so that the comparison says something.
            if role in READERS and what in ASKED:
                own = await way.get(template.format(**named), theirs, role)
                assert own.status_code in (200, 403), (role, what, own.text)
    assert (await way.get(ASKED["content"].format(**named), theirs)).content == b"content"


async def test_what_only_operators_do_to_a_strangers_part_is_done_to_nothing(way: Journey):
    """Erasing, revoking and changing are asked within one's own scope too."""
    theirs, named = await filled(way)
    operator = await way.key(Role.OPERATOR, theirs.scope)
    await way.client.put("/v1/sources/their-doc", json={}, headers=operator)
    erasure = (await way.client.post("/v1/erasures", json={"run": "never-was"}, headers=operator)).status_code
    assert erasure == 404
    key_id = next(iter((await way.client.get("/v1/keys", headers=operator)).json()["items"]))["key_id"]
    stranger = await way.key(Role.OPERATOR, await way.scope())
    calls: list[tuple[str, str, Any, Any]] = [
        ("POST", "/v1/erasures", {"part": named["evidence"]}, {"part": str(uuid4())}),
        ("POST", "/v1/erasures", {"run": named["run"]}, {"run": "never-was"}),
        ("POST", "/v1/sources/their-doc/revoke", {}, None),
        ("POST", "/v1/sources/their-doc/restore", {}, None),
        ("GET", "/v1/sources/their-doc", None, None),
        ("GET", f"/v1/scopes/{theirs.scope.name}", None, None),
        ("PUT", f"/v1/scopes/{theirs.scope.name}/policy", {"policy": {}}, None),
        *(
            ("POST", f"/v1/keys/{key_id}/{verb}", None, None)
            for verb in ("confirm", "rotate", "retire", "revoke")
        ),
    ]
    for method, path, foreign, invented in calls:
        unknown = path
        for name, other in (("their-doc", "no-doc"), (theirs.scope.name, "no-scope"), (key_id, "0" * 16)):
            unknown = unknown.replace(name, other)
        answers = [
            await way.client.request(method, asked, json=said, headers=stranger)
            for asked, said in ((path, foreign), (unknown, foreign if invented is None else invented))
        ]
        assert alike(*answers), (path, answers[0].text, answers[1].text)
        assert answers[0].status_code == 404
    assert await way.content(theirs) == b"content"


def alike(one: httpx.Response, other: httpx.Response) -> bool:
    """Whether two answers are the same to who got them; a page's own time is no secret."""
    if one.status_code == other.status_code == 200 and "page" in one.json():
        return bool(one.json()["items"] == other.json()["items"] == [])
    return (one.status_code, one.content, names(one)) == (other.status_code, other.content, names(other))


def names(answer: httpx.Response) -> set[str]:
    return set(answer.headers) - {"date"}


async def test_a_strangers_part_takes_as_long_as_none(way: Journey):
    """No difference in time that could be told from noise, by content, metadata or receipt."""
    _, named = await filled(way)
    mine = await way.runtime(of=await way.scope())
    unknown = {**named, "evidence": str(uuid4()), "run": "never-was"}
    for template in (ASKED["content"], ASKED["identity"]):
        took: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(15):
            for foreign in (True, False):
                started = perf_counter()
                await way.get(template.format(**(named if foreign else unknown)), mine)
                took[foreign].append(perf_counter() - started)
        fastest = min(took[True]), min(took[False])
        # On a busy machine only the fastest of several says anything: the same statements were asked.
        assert max(fastest) < 3 * min(fastest) + 0.01, {
            key: statistics.median(each) for key, each in took.items()
        }


async def test_inside_a_scope_what_a_key_may_not_read_is_denied_and_not_hidden(way: Journey):
    """`permission_denied` by every way, and permission is asked again between page and body."""
    runtime, named = await filled(way)
    for role in (Role.AUDITOR, Role.OPERATOR):
        for what in ("content", "content by identity"):
            answer = await way.get(ASKED[what].format(**named), runtime, role)
            assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")
    operator = await way.key(Role.OPERATOR, runtime.scope)
    await way.client.put("/v1/sources/doc-7", json={}, headers=operator)
    await runtime.put(b"licensed", exchange="x-3", Custody_Sources='"doc-7";v=1')
    await way.write()
    assert await way.content(runtime, "x-3") == b"licensed"
    (item,) = (await way.json("/v1/parts", runtime, run=runtime.run, exchange="x-3"))["items"]
    assert item["availability"] == {"readable": True, "reason": None}

    await way.client.put("/v1/sources/doc-7", json={"audience": ["legal"]}, headers=operator)
    for path in (f"/v1/parts/{item['evidence']}/content", f"{runtime.path('x-3')}/content"):
        answer = await way.get(path, runtime)
        assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")
    (shown,) = (await way.json("/v1/parts", runtime, run=runtime.run, exchange="x-3"))["items"]
    assert shown["availability"] == {"readable": False, "reason": "permission_denied"}
    cleared = await way.key(Role.REVIEWER, runtime.scope, "legal")
    answer = await way.client.get(f"/v1/parts/{item['evidence']}/content", headers=cleared)
    assert answer.content == b"licensed"


async def test_a_key_that_is_revoked_between_page_and_body_reads_nothing_more(way: Journey):
    """Within the refresh of keys, by every call."""
    runtime, named = await filled(way)
    text = await way.api.key(Role.REVIEWER, runtime.scope.scope_id)
    headers = {"Authorization": f"Bearer {text}"}
    assert (await way.client.get("/v1/parts", headers=headers)).status_code == 200
    await way.client.post(
        f"/v1/keys/{text.split('_')[2]}/revoke", headers=await way.key(Role.OPERATOR, runtime.scope)
    )
    for template in ASKED.values():
        answer = await way.client.get(template.format(**named), headers=headers)
        assert (answer.status_code, problem(answer)["reason"]) == (401, "unauthenticated")
