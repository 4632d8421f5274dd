"""One story from the first declaration to the last erased byte, told by everybody who has a part in it."""

from typing import Any

import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey
from tests.support.writers import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SESSION = "s-1"
ASKED = b'{"model":"model-a","messages":[{"role":"user","content":"what is in doc-7?"}]}'
FAILED = b'{"error":{"type":"overloaded"}}'
ANSWERED = b'data: {"delta":"it says"}\n\ndata: {"delta":" \xed\xa0\xbd"}\n\ndata: [DONE]\n\n'
TOOL = b'{"tool_calls":[{"arguments":"{\\"n\\":9007199254740993}"}]}'


@pytest.fixture(scope="module")
def journey_settings() -> dict[str, str]:
    return {"closing": "1s"}


async def test_from_the_first_declaration_to_the_last_erased_byte(way: Journey):
    scope = await way.scope()
    operator = await way.key(Role.OPERATOR, scope)
    assert (await way.client.put("/v1/sources/doc-7", json={}, headers=operator)).json()["latest"] == 1
    runtime = await way.runtime(
        "research-1", of=scope, wishes={"labels": {"team": "blue"}, "subject": "person-1"}
    )
    assert (runtime.admission["admitted"], runtime.admission["effective"]) == (True, "now")

    await a_runtime_captures(way, runtime)
    await way.write()
    evidence = await a_reviewer_finds_and_reads(way, runtime)
    await the_books_are_closed(way, runtime)
    await an_owner_takes_back_and_gives_again(way, runtime, operator)
    await an_operator_erases(way, runtime, operator, evidence)
    await an_auditor_looks(way, runtime, evidence)


async def a_runtime_captures(way: Journey, runtime: Capturing) -> None:
    """Two attempts of one exchange and a second exchange: 1 to 9, of which 4 are refused, lost or never told."""

    def part(sequence: int, exchange: str, attempt: str, kind: str, body: bytes, **said: Any) -> list[Any]:
        named = {
            "exchange": exchange,
            "attempt": attempt,
            "kind": kind,
            "session": SESSION,
            "sequence": sequence,
        }
        return ["part", {**named, **said}, body]

    first = await runtime.put(
        ASKED, "x-1", "a-1", Content_Type="application/json", Custody_Session=SESSION, Custody_Sequence="1",
        Custody_Sources='"doc-7";v=1', Custody_Completeness="complete", Custody_Dispatch="dispatched",
    )  # fmt: skip
    assert (first.status_code, first.json()["capture"]) == (202, "queued")
    flushed = await runtime.flush(
        part(2, "x-1", "a-1", OUTPUT, FAILED, completeness="interrupted"),
        ["state", {"exchange": "x-1", "attempt": "a-1", "settlement": "failed", "refs": ["trace-1"]}],
        part(3, "x-1", "a-2", REQUEST, ASKED, sources=[["doc-7", 1]]),
        part(4, "x-1", "a-2", OUTPUT, ANSWERED, **{"content-type": "text/event-stream"}),
        ["state", {"exchange": "x-1", "attempt": "a-2", "dispatch": "dispatched", "settlement": "completed",
                   "refs": ["trace-1", "chatcmpl-1"]}],
        part(5, "x-2", "a-1", REQUEST, b"x" * 300_000),
        part(6, "x-2", "a-1", OUTPUT, TOOL),
        part(7, "x-3", "a-1", REQUEST, b"{}", content="opt_out"),
        ["gap", {"session": SESSION, "sequences": "8", "reason": "client_queue_full"}],
        Custody_Session=SESSION, Custody_Sequences="2-8",
    )  # fmt: skip
    reasons = [view["reason"] for view in flushed.json()["receipts"]]
    assert reasons == [None, None, None, None, None, "part_too_large", None, "content_opt_out", None]
    again = await runtime.put(ASKED, "x-1", "a-1", Custody_Session=SESSION, Custody_Sequence="1")
    assert again.json()["receipt"] == first.json()["receipt"]
    other = await runtime.put(b"other", "x-1", "a-1")
    assert problem(other)["reason"] == "identity_conflict"


async def a_reviewer_finds_and_reads(way: Journey, runtime: Capturing) -> str:
    """From a provider's response id to the attempt, to its run, to each part, and to what is not there."""
    (found,) = (await way.json("/v1/attempts", runtime, ref="chatcmpl-1"))["items"]
    assert [found[name] for name in ("run_id", "exchange_id", "attempt_id", "settlement")] == [
        "research-1", "x-1", "a-2", "completed",
    ]  # fmt: skip
    tried = (await way.json("/v1/attempts", runtime, ref="trace-1"))["items"]
    assert [(each["attempt_id"], each["settlement"]) for each in tried] == [
        ("a-1", "failed"),
        ("a-2", "completed"),
    ]

    run = await way.json("/v1/runs/research-1", runtime)
    shown = {(each["exchange_id"], each["attempt_id"]): {
        **{part["kind"]: "stored" for part in each["parts"]},
        **{gap["kind"]: gap["reason"] for gap in each["gaps"] if gap["reason"] != "identity_conflict"},
    } for each in run["timeline"]}  # fmt: skip
    assert shown == {
        ("x-1", "a-1"): {REQUEST: "stored", OUTPUT: "stored"},
        ("x-1", "a-2"): {REQUEST: "stored", OUTPUT: "stored"},
        ("x-2", "a-1"): {REQUEST: "part_too_large", OUTPUT: "stored"},
        ("x-3", "a-1"): {REQUEST: "content_opt_out"},
    }
    first = await way.read(runtime, "x-1", "a-1")
    assert (first.content, first.headers["content-type"]) == (ASKED, "text/plain; charset=utf-8")
    assert await way.content(runtime, "x-1", "a-2", OUTPUT) == ANSWERED
    assert await way.content(runtime, "x-2", "a-1", OUTPUT) == TOOL
    assert problem(await way.read(runtime, "x-2", "a-1"))["reason"] == "not_stored"
    assert problem(await way.read(runtime, "x-9", "a-1"))["reason"] == "not_found"
    page = await way.json("/v1/parts", runtime, label="team=blue")
    assert len(page["items"]) == 5
    assert all(item["availability"] == {"readable": True, "reason": None} for item in page["items"])
    return first.headers["custody-evidence"]


async def the_books_are_closed(way: Journey, runtime: Capturing) -> None:
    """Nine were observed: 5 are stored, 2 refused, 1 the runtime lost, and 1 nobody ever told of."""
    closing = {"sessions": {SESSION: 9}}
    closed = await way.client.post(f"/v1/runs/{runtime.run}/close", json=closing, headers=runtime.key)
    assert (closed.status_code, closed.json()["state"], closed.json()["complete"]) == (200, "closing", None)

    async def over() -> bool:
        await way.duties.perform("reconcile")
        return bool((await way.json(f"/v1/runs/{runtime.run}", runtime))["state"] == "closed")

    await until(over, 20)
    run = await way.json(f"/v1/runs/{runtime.run}", runtime)
    assert run["complete"] is False
    assert run["counts"] == {
        "stored": 5,
        "not_captured": {
            "client_queue_full": 1,
            "content_opt_out": 1,
            "identity_conflict": 1,
            "part_too_large": 1,
        },
        "unaccounted": 1,
    }
    assert run["sessions"] == [
        {
            "session": SESSION,
            "observed": 9,
            "stored": 5,
            "refused": 2,
            "said": 1,
            "unaccounted": 1,
            "beyond": 0,
        }
    ]
    by_reason = {gap["reason"]: gap["ranges"] for gap in await way.gaps(runtime) if gap["ranges"]}
    assert by_reason["unaccounted"] == [[9, 9]]
    assert problem(await runtime.put(b"late", "x-9"))["reason"] == "run_closed"
    assert (await runtime.declare())["reason"] == "run_closed"


async def an_owner_takes_back_and_gives_again(
    way: Journey, runtime: Capturing, operator: dict[str, str]
) -> None:
    """What is bound to a source is refused while it is revoked, and nothing else is."""

    async def seen() -> list[Any]:
        answers = [
            await way.read(runtime, "x-1", each, kind)
            for each in ("a-1", "a-2")
            for kind in (REQUEST, OUTPUT)
        ]
        return [answer.status_code if answer.is_success else answer.json()["reason"] for answer in answers]

    assert await seen() == [200, 200, 200, 200]
    await way.client.post("/v1/sources/doc-7/revoke", json={}, headers=operator)
    assert await seen() == ["source_unavailable", 200, "source_unavailable", 200]
    await way.client.post("/v1/sources/doc-7/restore", json={}, headers=operator)
    assert await seen() == [200, 200, 200, 200]
    # A newer version alone changes nothing, and shows.
    await way.client.put("/v1/sources/doc-7", json={}, headers=operator)
    part = await way.json(runtime.path("x-1", "a-1"), runtime)
    assert (part["newer"], part["sources"]) == (True, [{"source": "doc-7", "version": 1, "newer": 2}])
    assert await seen() == [200, 200, 200, 200]


async def an_operator_erases(
    way: Journey, runtime: Capturing, operator: dict[str, str], evidence: str
) -> None:
    """The whole run: refused at once, then destroyed; what stays is that it was there."""
    asked = (await way.client.post("/v1/erasures", json={"run": runtime.run}, headers=operator)).json()
    assert problem(await way.read(runtime, "x-1", "a-1"))["reason"] == "erased"

    async def purged() -> bool:
        # The refusal of what came late still waits, and nothing of the run is gone before it is written.
        await way.write()
        await way.duties.perform("purge")
        await way.publish()
        answer = await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)
        return bool(answer.json()["state"] == "purged")

    await until(purged, 20)
    for role in (Role.REVIEWER, Role.CUSTODIAN):
        answer = await way.get(
            f"/v1/parts/{evidence}/content", runtime, role, headers={"Custody-Purpose": "a look"}
        )
        assert (answer.status_code, problem(answer)["reason"]) == (410, "erased")
    page = await way.json("/v1/parts", runtime, run=runtime.run)
    assert [(item["availability"]["reason"], item["bytes"]) for item in page["items"]] == [
        ("erased", None)
    ] * 5
    receipts = (await way.client.get(f"/v1/runs/{runtime.run}/receipts", headers=runtime.key)).json()["items"]
    # Too large, opted out and too late; the conflicting one shares its identity with the part that stands.
    assert sorted(each["capture"] for each in receipts) == ["not_captured"] * 3 + ["stored"] * 5
    left = await way.house.value(
        "SELECT count(*) FROM bodies b JOIN parts p USING (span_start, scope_id, evidence)"
        " JOIN runs r USING (scope_id, run_uid) WHERE scope_id = $1 AND r.run = $2",
        runtime.scope.scope_id, runtime.run,
    )  # fmt: skip
    assert left == 0
    await way.sound()


async def an_auditor_looks(way: Journey, runtime: Capturing, evidence: str) -> None:
    """Who read what, with what outcome; and never what was read."""
    found = (await way.json("/v1/accesses", runtime, Role.AUDITOR, evidence=evidence, order="oldest"))[
        "items"
    ]
    outcomes = [(each["role"], each["outcome"]) for each in found]
    assert outcomes[0] == ("reviewer", "read")
    assert ("reviewer", "source_unavailable") in outcomes
    assert outcomes[-2:] == [("reviewer", "erased"), ("custodian", "erased")]
    answer = await way.get(f"/v1/parts/{evidence}/content", runtime, Role.AUDITOR)
    assert problem(answer)["reason"] == "permission_denied"
    days = (await way.json("/v1/completeness", runtime, Role.OPERATOR))["items"]
    (day,) = [each for each in days if each["scope"] == runtime.scope.name]
    assert (day["runs"], day["closed"], day["stored"], day["observed"]) == (
        1,
        1,
        5,
        day["stored"] + day["missing"],
    )
    assert day["missing_by_reason"]["unaccounted"] == 1


async def test_a_temporary_run_leaves_its_name_and_counts_and_nothing_else(way: Journey):
    scope = await way.scope()
    labels = {"labels": {"team": "blue"}, "subject": "person-1"}
    normal = await way.runtime("was-normal", of=scope, wishes=labels)
    ticket = normal.ticket
    never = await way.runtime("never-normal", of=scope, wishes={"mode": "temporary", **labels})
    assert (never.admission["admitted"], never.admission["ticket"]) == (False, None)
    await normal.declare(mode="temporary")
    for runtime in (normal, never):
        runtime.ticket = ticket if runtime is normal else "ct1.AAAA"
        refused = await runtime.put(b"CANARY-7f3a", Custody_Session=SESSION, Custody_Sequence="1")
        assert problem(refused)["reason"] == ("temporary_mode" if runtime is normal else "ticket_invalid")
    bare = await way.client.put(never.path(), content=b"CANARY-7f3a", headers=never.key)
    assert problem(bare)["reason"] == "temporary_mode"
    await way.write()
    run = await way.json("/v1/runs/never-normal", never)
    assert (run["mode"], run["labels"], run["timeline"], run["sessions"]) == ("temporary", {}, [], [])
    rows = await way.house.rows(
        "SELECT g.exchange, g.session, g.sequences, g.merged FROM gaps g JOIN runs r USING (scope_id, run_uid)"
        " WHERE scope_id = $1 AND r.run = 'never-normal'",
        scope.scope_id,
    )
    assert rows == [{"exchange": None, "session": None, "sequences": [], "merged": 1}]
