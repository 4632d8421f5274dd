"""What names a part is the path, checked and compared as bytes; ids of providers are attributes and never keys."""

from typing import Any
from urllib.parse import quote

import pytest

from policies.kinds import Role
from tests.support.answers import CANARY
from tests.support.api import problem
from tests.support.capture import OUTPUT, REQUEST
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_two_attempts_with_one_response_id_are_two_attempts(way: Journey):
    """The provider's id is how an attempt is found, and two of them are found."""
    runtime = await way.runtime()
    for attempt in ("a-1", "a-2"):
        await runtime.put(attempt.encode(), attempt=attempt, kind=OUTPUT)
        told = await way.client.put(
            f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/{attempt}",
            json={"dispatch": "dispatched", "refs": ["chatcmpl-1", "None", "null"]},
            headers=runtime.headers(),
        )
        assert told.json()["recorded"] is True
    await way.write()
    for ref in ("chatcmpl-1", "None", "null"):
        found = (await way.json("/v1/attempts", runtime, ref=ref))["items"]
        assert [each["attempt_id"] for each in found if each["run_id"] == runtime.run] == ["a-1", "a-2"]
    assert [await way.content(runtime, attempt=each, kind=OUTPUT) for each in ("a-1", "a-2")] == [
        b"a-1",
        b"a-2",
    ]


@pytest.mark.parametrize(
    "refs",
    [[""], ["x" * 201], ["é" * 101], ["x" * 4_096], [None], [1], "chatcmpl-1", ["1", "2", "3", "4", "5"]],
)
async def test_references_that_cannot_be_are_malformed(way: Journey, refs: Any):
    """Null, empty and 4 KB ids are no ids."""
    runtime = await way.runtime()
    path = f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1"
    answer = await way.client.put(path, json={"refs": refs}, headers=runtime.headers())
    assert problem(answer)["reason"] in ("malformed_request", "part_too_large")
    flushed = await runtime.flush(["state", {"exchange": "x-1", "attempt": "a-1", "refs": refs}])
    assert flushed.json()["receipts"][0]["reason"] == "encoding_failed"


WRONG_IDS = [
    "a" * 129,
    "a" * 4_096,
    "\u0430bc",
    "a b",
    "a\x00",
    ".a",
    "..",
    "-a",
    "_a",
    "a/b",
    "a%",
    "é",
    "a\n",
    "A" * 3_200 + CANARY,
]


@pytest.mark.parametrize("place", ["run", "exchange", "attempt", "kind"])
async def test_a_name_that_is_no_id_is_refused_wherever_it_stands(way: Journey, place: str):
    """A 3,200-byte random id breaks a btree; here it never gets to one, nor a look-alike."""
    runtime = await way.runtime()
    names = {"run": runtime.run, "exchange": "x-1", "attempt": "a-1", "kind": REQUEST}
    for wrong in WRONG_IDS:
        said = {**names, place: wrong}
        path = "/v1/runs/{run}/exchanges/{exchange}/attempts/{attempt}/parts/{kind}".format(
            # A client folds bare dots; escaped ones arrive.
            **{name: quote(text, safe="").replace("..", "%2E%2E") for name, text in said.items()}
        )
        for answer in (
            await way.client.put(path, content=b"{}", headers=runtime.headers()),
            await way.get(path, runtime),
            await way.get(f"{path}/content", runtime),
        ):
            # A slash that somebody escaped is another path.
            assert problem(answer)["reason"] in ("malformed_request", "not_found")
            assert CANARY not in answer.text
    for wrong in WRONG_IDS if place != "run" else ():
        answer = await runtime.flush(["part", {**names, place: wrong}, b"{}"])
        assert answer.json()["receipts"][0]["reason"] == "encoding_failed"
    assert (await way.client.get(f"/v1/runs/{runtime.run}/receipts", headers=runtime.key)).json()[
        "items"
    ] == []


async def test_ids_are_compared_as_bytes(way: Journey):
    """No folding of case, no trimming, the whole length counts."""
    runtime = await way.runtime()
    names = ["x-1", "X-1", "x-1.", "x-1:", "x-01", "a" * 127, "a" * 128]
    for name in names:
        assert (await runtime.put(name.encode(), exchange=name)).status_code == 202
    await way.write()
    assert [await way.content(runtime, name) for name in names] == [name.encode() for name in names]


@pytest.mark.parametrize("when", ["while it waits", "once it is stored"])
async def test_the_same_again_is_the_first_receipt_and_other_bytes_are_a_conflict(way: Journey, when: str):
    """Same bytes are an idempotent success; others are recorded, and never overwrite the first."""
    runtime = await way.runtime()
    first = (await runtime.put(b"first")).json()
    if when == "once it is stored":
        await way.write()
    same, other = await runtime.put(b"first"), await runtime.put(b"other")
    assert same.json()["receipt"] == first["receipt"] or same.json()["capture"] == "stored"
    assert (other.status_code, problem(other)["reason"]) == (409, "identity_conflict")
    assert other.json()["receipt"]["recorded"] is True
    flushed = await runtime.flush(
        *(
            ["part", {"exchange": "x-1", "attempt": "a-1", "kind": REQUEST}, content]
            for content in (b"first", b"other")
        )
    )
    assert [each["reason"] for each in flushed.json()["receipts"]] == [None, "identity_conflict"]
    await way.write()
    assert await way.content(runtime) == b"first"
    (gap,) = await way.gaps(runtime)
    assert (gap["reason"], gap["exchange_id"], gap["superseded_by"], gap["times"]) == (
        "identity_conflict",
        "x-1",
        None,
        2,
    )
    run = await way.json(f"/v1/runs/{runtime.run}", runtime)
    assert run["counts"] == {"stored": 1, "not_captured": {"identity_conflict": 2}, "unaccounted": 0}


async def test_the_same_run_id_in_two_scopes_names_two_runs(way: Journey):
    """The scope of the key is in every identity."""
    one = await way.runtime("same-run")
    two = await way.runtime("same-run", of=await way.scope())
    await one.put(b"one")
    await two.put(b"two")
    await way.write()
    assert [await way.content(one), await way.content(two)] == [b"one", b"two"]
    for runtime in (one, two):
        assert len((await way.json("/v1/parts", runtime, Role.AUDITOR, run="same-run"))["items"]) == 1
