"""The start that the client's README shows, as it stands there, against the real service."""

import asyncio
import re

import pytest

from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey
from tests.support.sources import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_five_lines_arrive(way: Journey, monkeypatch):
    (start, *_) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "client/README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    runtime = await way.runtime("other")
    monkeypatch.setenv("CUSTODY_URL", way.api.url)
    monkeypatch.setenv("CUSTODY_KEY", runtime.key["Authorization"].removeprefix("Bearer "))
    said: dict[str, object] = {}
    await asyncio.to_thread(exec, start, said)
    assert await asyncio.to_thread(said["custody"].close) is None  # type: ignore[attr-defined]
    await way.write()
    found = await way.json("/v1/parts", Capturing(way.api, runtime.scope, runtime.key), run="my-run")
    assert {part["kind"] for part in found["items"]} == {REQUEST, OUTPUT}
    standing = await way.json("/v1/runs/my-run", runtime)
    assert (standing["counts"]["stored"], standing["state"]) == (2, "closing")
