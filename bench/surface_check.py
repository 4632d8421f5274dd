"""`surface_check`: processor time to check a request's 100 tools, of schemas of 4 KiB, against what was admitted, ms.

The request's tools are equal and share nothing with the admitted ones, as after a serialiser's round trip. The least of
the rounds, as in `lineage_bind`; beside it what it takes where all keys are in another order, and where a tool differs.
"""

import json
import statistics
import time
from typing import Any, Final

from bench.capturing import NotAsMeant
from bench.figures import Figure
from bench.setting import Setting
from custody_toolchain.surface import Surface

ROUNDS: Final = 51
TOOLS: Final = 100
_PROPERTIES: Final = 40
_SCHEMA_BYTES: Final = 4096


async def measure(setting: Setting) -> list[Figure]:
    """Return the least of the rounds."""
    admitted = [_tool(at, setting) for at in range(TOOLS)]
    surface = Surface.admit(admitted)
    same = json.loads(json.dumps(admitted))
    other_order = json.loads(json.dumps(admitted, sort_keys=True))
    changed = json.loads(json.dumps(admitted))
    changed[-1]["function"]["parameters"]["properties"]["last"] = {}
    if surface.differences(other_order) or len(surface.differences(changed)) != 1:
        raise NotAsMeant("the check does not see what it should")
    rounds = [_check_ms(surface, same) for _ in range(setting.rounds(ROUNDS))]
    ordered, differing = (
        min(_check_ms(surface, tools) for _ in range(5)) for tools in (other_order, changed)
    )
    told = (
        f"{TOOLS} tools, {len(json.dumps(admitted)) // 1024} KiB; {len(rounds)} rounds, "
        f"median {statistics.median(rounds):.2f} ms; keys otherwise {ordered:.1f}, a tool changed {differing:.1f}"
    )
    return [Figure("surface_check", min(rounds), told)]


def _check_ms(surface: Surface, tools: list[Any]) -> float:
    began = time.thread_time_ns()
    surface.differences(tools)
    return (time.thread_time_ns() - began) / 1e6


def _tool(at: int, setting: Setting) -> dict[str, Any]:
    """Make a tool whose schema has so many properties, each with a text of its own, and about so many bytes."""
    length = _SCHEMA_BYTES // _PROPERTIES - 60
    text = setting.contents.one(_PROPERTIES * length).decode("utf-8", "replace").replace("\\", " ")
    properties = {
        f"property_{number}": {"type": "string", "description": text[number * length : (number + 1) * length]}
        for number in range(_PROPERTIES)
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)[:8]}
    function = {"name": f"tool_{at}", "description": text[:200], "parameters": schema}
    return {"type": "function", "function": function}
