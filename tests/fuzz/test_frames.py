"""Flushes of frames that no client of ours would make: damaged bytes, wrong types, names said twice, nothing at all."""

from typing import Any

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from policies.reasons import Reason
from tests.support.answers import CANARY, sane
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.fuzzing import LONG, SMOKE, TEXTS, WHOLE, damaged, nested
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAVES = st.one_of(
    st.none(), st.booleans(), WHOLE, st.floats(), TEXTS, st.binary(max_size=40),
    st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=12)), st.datetimes(),
)  # fmt: skip
VALUES = nested(LEAVES)
# What a receipt may repeat of a frame: ids, which the caller chose and needs to know again.
NAMED = {"exchange_id", "attempt_id", "receipt"}
NAMES = st.sampled_from(
    [
        "exchange", "attempt", "kind", "session", "sequence", "content", "content-type", "content-digest", "sources",
        "completeness", "captured-at", "vantage", "dispatch", "settlement", "refs", "sequences", "reason", CANARY,
    ]
)  # fmt: skip
GOOD = {
    "exchange": st.sampled_from(["x-1", "x-2", "x-3"]),
    "attempt": st.sampled_from(["a-1", "a-2"]),
    "kind": st.sampled_from([REQUEST, OUTPUT]),
}
MORE = {
    "session": st.sampled_from(["s-1", "s-2"]),
    "sequence": st.integers(1, 40),
    "sequences": st.sampled_from(["1", "1-3,7", "5-9007199254740991"]),
    "reason": st.sampled_from(list(Reason)),
    "content": st.sampled_from(["allow", "opt_out"]),
    "sources": st.lists(st.tuples(st.just("doc-1"), st.none() | st.integers(1, 3)), max_size=3),
    "refs": st.lists(TEXTS, max_size=5),
}


@st.composite
def frames(draw: st.DrawFn) -> Any:
    """A frame that is mostly right, and wrong in some places."""
    said: dict[Any, Any] = draw(st.fixed_dictionaries(GOOD, optional=MORE))
    said |= draw(st.dictionaries(NAMES, VALUES, max_size=2))
    for name in draw(st.lists(st.sampled_from(sorted(GOOD)), max_size=1)):
        said.pop(name, None)
    kind = draw(st.sampled_from(["part", "part", "state", "gap"]) | VALUES)
    frame = [kind, said, draw(st.binary(max_size=200) | VALUES)]
    return draw(st.one_of(st.just(frame), st.just(frame[:2]), st.just([*frame, 1]), VALUES))


FLUSHES = st.lists(frames(), max_size=6).map(msgspec.msgpack.encode)
BYTES = st.one_of(FLUSHES, damaged(FLUSHES), st.binary(max_size=60))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(standing: Journey) -> Capturing:
    roomy = {"run_parts": 100_000, "run_bytes": "64MiB"}
    return await standing.runtime("fuzzed", limits=roomy, waiting={"run_parts": 4_000, "run_notes": 4_000})


@given(flush=BYTES)
@SMOKE
async def test_every_frame_has_its_answer(standing: Journey, runtime: Capturing, flush: bytes):
    await posted(standing, runtime, flush)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(flush=BYTES)
@LONG
async def test_every_frame_has_its_answer_at_length(standing: Journey, runtime: Capturing, flush: bytes):
    await posted(standing, runtime, flush)


async def posted(way: Journey, runtime: Capturing, flush: bytes) -> None:
    """Post a flush: it is refused whole where it is no array, else each of its frames has one answer, in order."""
    answer = await way.client.post(
        f"/v1/runs/{runtime.run}/frames",
        content=flush,
        headers=runtime.headers(Content_Type="application/msgpack"),
    )
    if sane(answer) is None:
        views = answer.json()["receipts"]
        assert len(views) == len(msgspec.msgpack.decode(flush, type=list[msgspec.Raw]))
        # A receipt names what it is about, and signs it; nothing else of a frame comes back.
        assert CANARY not in str([{name: view[name] for name in view.keys() - NAMED} for view in views])
        assert {view["reason"] for view in views} <= {None, *Reason}
        assert all(view["recorded"] or view["reason"] for view in views)
    else:
        assert answer.json()["reason"] == "malformed_request"
    # What was taken can be written: nothing of it stops a writer, whatever it is.
    await way.write()
