"""The limit of a part is bytes on the wire; what is over it is one gap with its reason, and nothing else suffers."""

from typing import Any

import pytest

from tests.support.capture import OUTPUT, REQUEST
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 256 * 1024
EMOJI = "\U0001f600".encode()


@pytest.mark.parametrize("by", ["parts", "frames"])
@pytest.mark.parametrize(
    "content",
    [
        b"x" * LIMIT,
        b"x" * (LIMIT + 1),
        b"x" * 300 * 1024,
        EMOJI * (LIMIT // 4),
        EMOJI * (LIMIT // 4) + b"!",
        b"",
    ],
    ids=["at", "over", "far over", "emoji at", "emoji over", "empty"],
)
async def test_a_request_too_large_is_missing_by_its_reason_and_its_output_is_there(
    way: Journey, by: str, content: bytes
):
    """Exactly at the limit is stored; above it the attempt says "too large", never an empty request."""
    runtime = await way.runtime()
    if by == "parts":
        first, second = await runtime.put(content), await runtime.put(b"the answer", kind=OUTPUT)
        assert (second.status_code, first.status_code) == (202, 202 if len(content) <= LIMIT else 413)
    else:
        await runtime.flush(frame(REQUEST, content), frame(OUTPUT, b"the answer"))
    await way.write()

    assert await way.content(runtime, kind=OUTPUT) == b"the answer"
    seen = await way.read(runtime)
    (attempt,) = (await way.json(f"/v1/runs/{runtime.run}", runtime))["timeline"]
    if len(content) <= LIMIT:
        assert seen.content == content
        assert await way.gaps(runtime) == []
        assert (await way.json(runtime.path(), runtime))["bytes"] == len(content)
        return
    assert (seen.status_code, seen.json()["reason"]) == (404, "not_stored")
    (gap,) = await way.gaps(runtime)
    assert (gap["reason"], gap["said_by"], gap["kind"], gap["exchange_id"]) == (
        "part_too_large",
        "store",
        REQUEST,
        "x-1",
    )
    assert said_of(attempt) == {OUTPUT: "stored", REQUEST: "part_too_large"}


def frame(kind: str, content: bytes) -> list[Any]:
    return ["part", {"exchange": "x-1", "attempt": "a-1", "kind": kind}, content]


def said_of(attempt: dict[str, Any]) -> dict[str, str]:
    """What an attempt shows of each kind."""
    there = {part["kind"]: "stored" for part in attempt["parts"]}
    return there | {gap["kind"]: gap["reason"] for gap in attempt["gaps"]}


async def test_what_never_came_is_not_said_to_be_empty(way: Journey):
    """An empty part is one that was posted; of the other kind there is nothing, and no gap either."""
    runtime = await way.runtime()
    await runtime.put(b"")
    await way.write()
    empty, absent = await way.read(runtime), await way.read(runtime, kind=OUTPUT)
    assert (empty.status_code, empty.content) == (200, b"")
    assert (absent.status_code, absent.json()["reason"]) == (404, "not_found")
