"""`intake_flat`: processor time to read 1 MiB of calls ÷ 16 times that for 64 KiB; worst of all dialects and of plans.

`intake_ms`: the time for the 1 MiB, ms, of the slowest of them. The least of the rounds on both sides: it is always the
same work, and whatever else the machine does only adds to it.
"""

import json
import time
from collections.abc import Callable
from typing import Final

from bench.capturing import NotAsMeant
from bench.figures import Figure, number
from bench.setting import Setting
from custody_toolchain.intake import Dialect, Limits, Options, Result, permitting, read_markup, read_plan

ROUNDS: Final = 15
_LARGE: Final = 1024 * 1024
_SMALL: Final = _LARGE // 16
_SMALL_TURNS: Final = 4

_ARGUMENTS: Final = {"query": "what was read of the report", "limit": 5, "sort": ["new", {"by": "date"}]}
_JSON: Final = json.dumps(_ARGUMENTS)
_CALL: Final = json.dumps({"name": "search", "arguments": _ARGUMENTS})
_BAR: Final = "\uff5c"
_P: Final = f"{_BAR}DSML{_BAR}"
_DSML: Final = (
    f'<{_P}invoke name="search">\n<{_P}parameter name="query" string="true">what was read</{_P}parameter>\n'
    f'<{_P}parameter name="sort" string="false">["new", {{"by": "date"}}]</{_P}parameter>\n</{_P}invoke>\n'
)
_XML: Final = (
    "<tool_call>\n<function=search>\n<parameter=query>\nwhat was read of the report\n</parameter>\n"
    "<parameter=limit>\n5\n</parameter>\n</function>\n</tool_call>\n"
)
_KIMI: Final = (
    "<|tool_call_begin|>functions.search:{at}<|tool_call_argument_begin|>" + _JSON + "<|tool_call_end|>"
)

# Each as what begins it, one call, what stands between two, and what ends it.
_TEXTS: Final = {
    "hermes": ("", f"<tool_call>\n{_CALL}\n</tool_call>\n", "", ""),
    "qwen-xml": ("", _XML, "", ""),
    "dsml": (f"<{_P}function_calls>\n", _DSML, "", f"</{_P}function_calls>"),
    "mistral": ("[TOOL_CALLS][", _CALL, ", ", "]"),
    "llama": ("<|python_tag|>", _CALL, "; ", "<|eom_id|>"),
    "kimi": ("<|tool_calls_section_begin|>", _KIMI, "", "<|tool_calls_section_end|>"),
    "plan": ('{"actions": [', _CALL, ", ", "]}"),
}


async def measure(setting: Setting) -> list[Figure]:
    """Return the worst ratio, and the longest time."""
    found = {name: _measured(name, setting.rounds(ROUNDS)) for name in _TEXTS}
    ratios = {name: large / 16 / small for name, (large, small) in found.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    slowest = max(found, key=lambda name: found[name][0])
    each = ", ".join(f"{name} {number(large)}" for name, (large, _) in found.items())
    return [
        Figure(
            "intake_flat",
            ratios[worst],
            f"worst of {len(ratios)}: {worst}; the least {number(min(ratios.values()))}",
        ),
        Figure("intake_ms", found[slowest][0], f"1 MiB, ms: {each}"),
    ]


def _measured(name: str, rounds: int) -> tuple[float, float]:
    """Return the least times for the large text and for the small one, ms."""
    large, small = _text(name, _LARGE), _text(name, _SMALL)
    read = _reader(name)
    for text in (large, small):
        result = read(text)
        if result.refusal is not None or not len(text) // 400 < len(result.actions):
            raise NotAsMeant(f"{name} is not read: {result.refusal}")
    times = [(_read_ms(read, large), _small_ms(read, small)) for _ in range(rounds)]
    return min(first for first, _ in times), min(second for _, second in times)


def _small_ms(read: Callable[[str], Result], text: str) -> float:
    return min(_read_ms(read, text) for _ in range(_SMALL_TURNS))


def _read_ms(read: Callable[[str], Result], text: str) -> float:
    began = time.thread_time_ns()
    read(text)
    return (time.thread_time_ns() - began) / 1e6


def _reader(name: str) -> Callable[[str], Result]:
    limits = Limits(text_bytes=2 * _LARGE, actions=_LARGE)
    if name == "plan":
        options = permitting(limits=limits)
        return lambda text: read_plan(text, options)
    return _markup_reader(permitting(dialects=[Dialect(name)], limits=limits))


def _markup_reader(options: Options) -> Callable[[str], Result]:
    return lambda text: read_markup(text, options)


def _text(name: str, size: int) -> str:
    """Write calls up to so many bytes."""
    begins, call, between, ends = _TEXTS[name]
    said, room, at = [begins], size - len((begins + ends).encode()), 0
    while room > 0:
        one = (between if at else "") + call.replace("{at}", str(at))
        said.append(one)
        room -= len(one.encode())
        at += 1
    return "".join(said) + ends
