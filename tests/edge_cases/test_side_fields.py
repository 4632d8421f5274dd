"""Whatever is said beside the content: kept where it is named, kept as a hash, or not kept; and never told in a log."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from policies.kinds import Role
from tests.support.capture import OUTPUT
from tests.support.journey import Journey
from tests.support.logs import heard

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Every line that the service writes meanwhile."""
    with heard() as lines:
        yield lines


# Each place has a mark of its own, so that what is found tells where it came from.
PLACES = (
    "body", "label", "subject", "ref", "type", "type-parameter", "completeness", "vantage", "dispatch", "captured-at",
    "unknown", "trailer", "query", "purpose", "note", "audience", "source", "session", "user-agent", "cookie",
    "digest", "error",
)  # fmt: skip
MARK = {place: f"CANARY-{place}-7f3a" for place in PLACES}
# What may rest in the database, and in which table; the rest is nowhere.
KEPT = {
    "label": {"runs"}, "purpose": {"accesses"}, "note": {"api_keys"}, "audience": {"sources", "api_keys"},
    "source": {"sources", "source_versions", "source_sets", "operator_actions"},
    "session": {"parts", "sessions", "gaps"},
}  # fmt: skip


async def test_side_fields_carry_nothing_to_where_they_are_not_named(way: Journey, log: io.StringIO):
    """With content on or off, only an allow-list of words, numbers and ids exists beside it."""
    runtime = await way.runtime(
        of=await way.scope(), wishes={"labels": {"team": MARK["label"]}, "subject": MARK["subject"]}
    )
    operator = await way.key(Role.OPERATOR, runtime.scope)
    await way.client.put(
        f"/v1/sources/{MARK['source']}", json={"audience": [MARK["audience"]]}, headers=operator
    )
    await way.client.post("/v1/keys", json={"role": "auditor", "note": MARK["note"]}, headers=operator)
    said = {
        "Content-Type": f"text/{MARK['type']}; a={MARK['type-parameter']}", "Custody-Vantage": MARK["vantage"],
        "Custody-Completeness": MARK["completeness"], "Custody-Dispatch": MARK["dispatch"],
        "Custody-Captured-At": MARK["captured-at"],
        "Custody-Unknown": MARK["unknown"], "User-Agent": MARK["user-agent"], "Cookie": MARK["cookie"],
        "Custody-Sources": f'"{MARK["source"]}";v=1', "Custody-Session": MARK["session"], "Custody-Sequence": "1",
        "Trailer": MARK["trailer"], "Content-Digest": f'other="{MARK["digest"]}"',
    }  # fmt: skip
    body = MARK["body"].encode()
    taken = await way.client.put(runtime.path(), content=body, headers={**runtime.headers(), **said})
    assert taken.status_code == 202, taken.text
    off = {**runtime.headers(), **said, "Custody-Content": "opt_out", "Custody-Sequence": "2"}
    refused = await way.client.put(runtime.path(kind=OUTPUT), content=body, headers=off)
    assert refused.json()["reason"] == "content_opt_out"
    told = {"refs": [MARK["ref"]]}
    await way.client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1", json=told, headers=runtime.headers()
    )
    wrong = {"dispatch": MARK["error"], MARK["error"]: 1}
    await way.client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1", json=wrong, headers=runtime.headers()
    )
    await way.client.put("/v1/runs/r-1", json={"mode": MARK["error"]}, headers=runtime.key)
    await way.client.get(f"/v1/parts?run=a&else={MARK['query']}", headers=operator)

    waiting = await in_redis(way)
    assert [place for place in PLACES if MARK[place] in waiting] == ["source", "session"]
    await way.write()
    cleared = await way.key(Role.REVIEWER, runtime.scope, MARK["audience"])
    seen = await way.client.get(
        f"{runtime.path()}/content", headers={**cleared, "Custody-Purpose": MARK["purpose"]}
    )
    assert seen.content == body

    tables = await in_tables(way)
    found = {place: {table for table, text in tables.items() if MARK[place] in text} for place in PLACES}
    assert {place: where - KEPT.get(place, set()) for place, where in found.items()} == {
        place: set() for place in PLACES
    }
    assert {place for place, where in found.items() if where} == set(KEPT)
    assert not [
        place for place in PLACES if MARK[place] in await in_redis(way) and place not in ("source", "session")
    ]
    metrics = (await way.client.get("/metrics")).text
    assert not [place for place in PLACES if MARK[place] in metrics or MARK[place] in log.getvalue()]


async def in_tables(way: Journey) -> dict[str, str]:
    """Every table of ours as text; what is sealed stays sealed."""
    names = await way.house.rows(
        "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition"
    )
    found = {}
    for row in names:
        rows = await way.house.rows(f"SELECT t::text AS text FROM {row['name']} t")  # noqa: S608 - a test's own names
        found[row["name"]] = "\n".join(each["text"] for each in rows)
    return found


async def in_redis(way: Journey) -> str:
    """Everything that is in the queue's server, as text; bodies are sealed there too."""
    client: Any = way.queue._links.calls
    found: list[Any] = []
    async for key in client.scan_iter():
        kind = (await client.type(key)).decode()
        read = {
            "hash": client.hgetall,
            "string": client.get,
            "stream": client.xrange,
            "set": client.smembers,
        }[kind]
        found += [key, await read(key)]
    return repr(found)
