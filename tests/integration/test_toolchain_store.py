"""The toolchain before the real service: from a reporter over the client and sockets, and out through the lens."""

import asyncio
from datetime import datetime

import pytest

from custody_client import Custody
from custody_toolchain.facts import (
    Form,
    Link,
    OccurrenceFact,
    Stage,
    StageFact,
    Status,
    Unit,
    View,
    fact_id,
    now,
)
from custody_toolchain.observing import Reporter
from custody_toolchain.store import to_store
from policies.kinds import Role
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")


def stage(action: str, of: Stage, status: Status, **more: object) -> StageFact:
    return StageFact(
        fact=fact_id("stage", action, of, status, more.get("execution", "")), at=now(), action=action,
        tool="read_table", stage=of, status=status, call_id="call_7", **more,  # type: ignore[arg-type] # by name
    )  # fmt: skip


def seen(exchange: str, request: int, view: View) -> OccurrenceFact:
    return OccurrenceFact(
        fact=fact_id("seen", exchange, 3), at=now(), exchange=exchange, request=request, position=3,
        link=Link.BOUND, view=view, action="a-1", result_version=1, call_id="call_7",
    )  # fmt: skip


ROWS = View(Form.PARTIAL, Unit.ROWS, 0, 5, 120, source_whole=False)
CLASSIC = (
    stage("a-1", Stage.ADMISSION, Status.ADMITTED),
    stage("a-1", Stage.EXECUTION, Status.STARTED, execution=1),
    stage("a-1", Stage.EXECUTION, Status.SUCCEEDED, execution=1),
    stage("a-1", Stage.PROJECTION, Status.PROJECTED, view=ROWS),
    seen("x-8", 8, View(Form.REFERENCE)),
    seen("x-9", 9, ROWS),
)


async def test_the_classic_answer_comes_out_of_the_store(way: Journey) -> None:
    runtime = await way.runtime()
    key = runtime.key["Authorization"].removeprefix("Bearer ")

    def report() -> tuple[int, dict[str, int]]:
        client = Custody(way.api.url, key)
        with Reporter(to_store(client.run(runtime.run, wait=2))) as reporter:
            for fact in (*CLASSIC, *CLASSIC):
                reporter.report(fact)
        client.flush(5)
        client.close()
        counters = client.counters()
        return counters.facts_told, dict(counters.facts_lost)

    assert await asyncio.to_thread(report) == (12, {})
    await way.write()
    (item,) = (await way.json(f"/v1/runs/{runtime.run}/actions", runtime))["items"]
    assert (item["executions"], item["occurrences"], item["row"]) == (1, 2, "cut")
    view = await way.json(f"/v1/runs/{runtime.run}/actions/a-1", runtime, Role.AUDITOR)
    assert [(each["request"], each["row"]) for each in view["requests"]] == [
        (8, "reference_only"),
        (9, "cut"),
    ]
    assert view["views"][0]["view"] == {
        "form": "partial", "unit": "rows", "start": 0, "stop": 5, "total": 120, "source_whole": False,
    }  # fmt: skip
    assert len(view["steps"]) == 4
    assert datetime.fromisoformat(view["steps"][0]["at"]) == CLASSIC[0].at
