"""A run whose toolchain told what its tools did: an action for every row of the lens, and something in every list."""

from typing import TYPE_CHECKING, Any, Final

from policies.kinds import Role
from tests.browser import hostile
from tests.support.facts import classic, coverage, delivery, seen, stage, surface
from tests.support.stack import until

if TYPE_CHECKING:
    from tests.browser.seed import Place

ACTED: Final = "figures-2026-11"
OVER: Final = "figures-over"
LONG: Final = "figures-of-long-names"
# By its row, the action that has it.
ACTIONS: Final = {
    "cut": "read-sales",
    "refused_before_call": "send-mail",
    "execution_failed": "fetch-rates",
    "projection_failed": "list-regions",
    "reference_only": "read-returns",
    "lineage_missing": "read-plan",
    "carried": "add-up",
    "not_recorded": "take-note",
}
_SHORT: Final = "3s"
_AT_ONCE: Final = 64
_ROWS: Final[dict[str, Any]] = {"form": "partial", "unit": "rows", "start": 0, "stop": 5, "total": 120}


async def planted(place: "Place") -> None:
    """Tell it all through the api, and wait until it is written."""
    await place.declare(OVER, retention=_SHORT)
    await _told(place, OVER, classic())
    await place.declare(LONG, labels={"team": "figures"})
    await _told(place, LONG, _long())
    await place.declare(ACTED, labels={"team": "figures"})
    for exchange in ("x-8", "x-9"):
        place.parts[exchange] = await place.post(ACTED, exchange, {"messages": [{"role": "tool"}]})
    # Somebody read something, whichever test comes first: who watches accesses finds one.
    path = f"/v1/parts/{place.parts['x-8']}/content"
    read = await place.client.get(path, headers=place.as_(Role.REVIEWER))
    assert read.is_success, read.text
    facts = [*_actions(), *_lists()]
    await _told(place, ACTED, facts)
    names = {each["action"] for each in facts if "action" in each}

    async def written() -> bool:
        found = await place.call("GET", f"/v1/runs/{ACTED}/actions?limit=200", Role.REVIEWER)
        items = await place.call("GET", f"/v1/runs/{ACTED}/delivery?limit=200", Role.REVIEWER)
        wanted = sum(each["type"] == "delivery" for each in facts)
        return {each["action_id"] for each in found["items"]} == names and len(items["items"]) == wanted

    await until(written, "the facts are written")


async def _told(place: "Place", run: str, facts: list[dict[str, Any]]) -> None:
    for at in range(0, len(facts), _AT_ONCE):
        answer = await place.client.post(
            f"/v1/runs/{run}/facts",
            json={"facts": facts[at : at + _AT_ONCE]},
            headers={**place.as_(Role.RUNTIME), "Custody-Ticket": place.tickets[run]},
        )
        assert answer.is_success, answer.text
        assert all(each["recorded"] for each in answer.json()["facts"]), answer.text


def _actions() -> list[dict[str, Any]]:
    named = ACTIONS
    done: dict[str, Any] = {"execution": 1, "result_version": 1, "duration_ms": 41}
    whole = {"form": "full", "source_whole": True}
    held: dict[str, Any] = {"attempt": "1", "result_version": 1}
    return [
        *classic(named["cut"]),
        stage(
            named["refused_before_call"], "admission", "refused", code="permission_denied", call_id="call_8"
        ),
        stage(
            named["execution_failed"], "execution", "timed_out", execution=1, code="timeout", retryable=True
        ),
        stage(
            named["execution_failed"],
            "execution",
            "failed",
            execution=2,
            code="rate_limited",
            duration_ms=180,
        ),
        seen("x-9", named["execution_failed"], request=9, position=5, attempt="1"),
        stage(named["projection_failed"], "execution", "succeeded", **done),
        stage(named["projection_failed"], "projection", "failed", execution=1, code="hook_failed"),
        stage(named["reference_only"], "execution", "succeeded", **done),
        stage(named["reference_only"], "projection", "projected", result_version=1, execution=1, view=_ROWS),
        seen("x-9", named["reference_only"], "reference", request=9, position=6, **held),
        stage(named["lineage_missing"], "execution", "succeeded", call_id="call_9", **done),
        seen("x-9", None, link="unknown", request=9, position=7, call_id="call_9", attempt="1"),
        stage(named["carried"], "execution", "succeeded", **done),
        stage(named["carried"], "projection", "projected", result_version=1, execution=1, view=whole),
        stage(named["carried"], "replay", "replayed", result_version=1),
        seen("x-8", named["carried"], request=8, position=8, **held),
        # What the store has nothing else of.
        *(seen(f"x-{n}", named["carried"], "omitted", request=n, position=8, **held) for n in range(10, 30)),
        stage(named["not_recorded"], "admission", "admitted"),
    ]


def _lists() -> list[dict[str, Any]]:
    changed = [
        {"change": "added", "tool": "run_shell"},
        {"change": "renamed", "tool": "read_table", "now": "read"},
        {"change": "schema", "tool": "search", "at": "/properties/query/maxLength"},
    ]
    read = {"action": ACTIONS["cut"], "size": 9000}
    return [
        surface("x-8", check="early", attempt="1"),
        surface("x-8", attempt="1"),
        surface("x-9", "mismatch", attempt="1", differences=changed, more=2),
        surface("x-10", "capacity"),
        coverage("file-1", 3998, ranges=[[0, 3998]], **read),
        coverage("file-1", 3999, ranges=[[0, 3999], [7998, 9000]], deviations=["skipped", "clamped"], **read),
        coverage("file-2", 512, ranges=[[0, 512]], size=512, whole=True),
        coverage(
            "file-3", 0, ranges=[[40, 80]], one_version=False, deviations=["started_in_the_middle", "changed"]
        ),
        delivery("report", "met", size=48_213, action=ACTIONS["carried"]),
        delivery("table", "partial", code="rows_missing"),
        delivery("chart", "missing"),
        delivery("checks", "failed", kind="command", code="exit", exit_code=1),
    ]


def _long() -> list[dict[str, Any]]:
    """Names as long as they may be, and such as somebody would write who means ill."""
    action, exchange = "a" * 128, "x" * 128
    names = [text[:128] for text in hostile.INPUTS.values() if text]
    facts = [
        *({**each, "tool": "W" * 128} for each in classic(action)[:7]),
        seen(exchange, action, "partial", attempt="1" * 128, request=2**53 - 1, view=_ROWS),
        *(
            {**stage(f"named-{at}", "execution", "started", call_id=name), "tool": name}
            for at, name in enumerate(names)
        ),
        surface(
            exchange, "mismatch", attempt="1" * 128, differences=[{"change": "added", "tool": "W" * 128}]
        ),
        coverage("f" * 128, 2**53 - 1, action=action, size=2**53 - 1, ranges=[[0, 2**53 - 1]]),
        delivery("d" * 128, "failed", code="c" * 64, size=2**53 - 1, action=action),
    ]
    return [{**each, "fact": f"f-{at}"} for at, each in enumerate(facts)]
