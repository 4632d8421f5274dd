"""A list that is read while it changes: each row that stays is shown once, whatever somebody does with its times."""

from typing import Any

import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import OUTPUT, Capturing
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def walked(way: Journey, runtime: Capturing, between: Any = None, **params: Any) -> list[str]:
    """Every exchange of a run, page by page; `between` happens once, after the first page."""
    found, cursor = [], None
    while True:
        page = await way.json(
            "/v1/parts", runtime, run=runtime.run, **params, **({"cursor": cursor} if cursor else {})
        )
        found += [item["exchange_id"] for item in page["items"]]
        cursor = page["page"]["next"]
        if cursor is None:
            return found
        if between is not None:
            await between()
            between = None


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
async def test_parts_of_one_batch_are_each_shown_once_while_others_come_and_go(way: Journey, limit: int):
    """One batch is one instant; a part is stored and one is erased between pages."""
    runtime = await way.runtime()
    for number in range(7):
        await runtime.put(b"{}", f"x-{number}")
    await way.write()
    page = await way.json("/v1/parts", runtime, run=runtime.run, limit=200)
    assert len({item["stored_at"] for item in page["items"]}) == 1

    async def meanwhile() -> None:
        await runtime.put(b"{}", "late", kind=OUTPUT)
        named = {"run": runtime.run, "exchange": "x-0", "attempt": "a-1", "kind": "logical-request"}
        await way.client.post("/v1/erasures", json=named, headers=await way.key(Role.OPERATOR, runtime.scope))
        await way.write()

    seven = [f"x-{number}" for number in range(7)]
    assert sorted(await walked(way, runtime, meanwhile, limit=limit, order="newest")) == seven
    # Seven are one page of seven: what follows is looked for, and a list does not end with an empty page.
    late = ["late"] if limit < len(seven) else []
    assert sorted(await walked(way, runtime, limit=limit, order="oldest")) == sorted([*seven, *late])


async def test_a_time_that_lost_its_microseconds_on_the_way_loses_no_row(way: Journey):
    """JavaScript's milliseconds round a bound down, which shows a row again and never hides one."""
    runtime = await way.runtime()
    await runtime.put(b"{}", "x-1")
    await way.write()
    (item,) = (await way.json("/v1/parts", runtime, run=runtime.run))["items"]
    milliseconds = item["stored_at"][:23] + "Z"
    assert milliseconds != item["stored_at"]
    since = {"run": runtime.run, "from": milliseconds}
    assert [each["exchange_id"] for each in (await way.json("/v1/parts", runtime, **since))["items"]] == [
        "x-1"
    ]
    exact = {"run": runtime.run, "from": item["stored_at"]}
    assert len((await way.json("/v1/parts", runtime, **exact))["items"]) == 1
    until = {"run": runtime.run, "to": item["stored_at"]}
    assert (await way.json("/v1/parts", runtime, **until))["items"] == []


async def test_a_cursor_answers_one_question_of_one_key_however_its_secret_is_renewed(way: Journey):
    """Another filter, order, list, key or clearance is another question; a rotated secret is not."""
    runtime = await way.runtime(of=await way.scope())
    for number in range(3):
        await runtime.put(b"{}", f"x-{number}")
    await way.write()
    text = await way.api.key(Role.AUDITOR, runtime.scope.scope_id)
    auditor = {"Authorization": f"Bearer {text}"}
    question = {"run": runtime.run, "limit": "1"}

    async def asked(headers: dict[str, str], **params: str) -> Any:
        answer = await way.client.get("/v1/parts", params=params, headers=headers)
        return "good" if answer.is_success else problem(answer)["reason"]

    cursor = (await way.client.get("/v1/parts", params=question, headers=auditor)).json()["page"]["next"]
    assert await asked(auditor, **question, cursor=cursor) == "good"
    # How many a page shows is no part of what it is about.
    assert await asked(auditor, run=runtime.run, limit="2", cursor=cursor) == "good"
    for other in (
        {"limit": "1"}, {**question, "order": "oldest"}, {**question, "kind": OUTPUT},
        {**question, "from": "2020-01-01T00:00:00Z"},
        {**question, "availability": "readable"}, {"run": "another", "limit": "1"},
    ):  # fmt: skip
        assert await asked(auditor, **other, cursor=cursor) == "cursor_invalid"
    for role in (Role.REVIEWER, Role.OPERATOR):
        assert await asked(await way.key(role, runtime.scope), **question, cursor=cursor) == "cursor_invalid"

    operator = await way.key(Role.OPERATOR, runtime.scope)
    renewed = (await way.client.post(f"/v1/keys/{text.split('_')[2]}/rotate", headers=operator)).json()[
        "text"
    ]
    assert await asked({"Authorization": f"Bearer {renewed}"}, **question, cursor=cursor) == "good"
