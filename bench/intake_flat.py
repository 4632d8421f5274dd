"""`intake_flat`: processor time to read 1 MiB of calls ÷ that to read 64 KiB 16 times; worst of dialects and plans.

Both take about as long, in alternating rounds, so that other work of the machine meets both; median of all ratios.
Without Python's collector, as in `timeit`: how often it runs, and over what, is a matter of the whole program.
`intake_ms`: the least time for the 1 MiB, ms, of the slowest of them, the collector running as it does.
"""

import gc
import json
import statistics
import time
from collections.abc import Callable
from typing import Final

from bench.capturing import NotAsMeant
from bench.figures import Figure, number
from bench.setting import Setting
from custody_toolchain.intake import Dialect, Limits, Options, Result, permitting, read_markup, read_plan

ROUNDS: Final = 15
_LARGE: Final = 1024 * 1024
_TIMES: Final = 16
_SMALL: Final = _LARGE // _TIMES

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
    ratios = {name: ratio for name, (ratio, _) in found.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    least = number(min(ratios.values()))
    each = ", ".join(f"{name} {number(large)}" for name, (_, large) in found.items())
    return [
        Figure("intake_flat", ratios[worst], f"worst of {len(ratios)}: {worst}; the least {least}"),
        Figure("intake_ms", max(large for _, large in found.values()), f"1 MiB, ms: {each}"),
    ]


def _measured(name: str, rounds: int) -> tuple[float, float]:
    """Return the median ratio, and the least time for the large text, ms."""
    large, small = _text(name, _LARGE), _text(name, _SMALL)
    read = _reader(name)
    for text in (large, small):
        result = read(text)
        if result.refusal is not None or not len(text) // 400 < len(result.actions):
            raise NotAsMeant(f"{name} is not read: {result.refusal}")
    usual = min(_read_ms(read, large, 1) for _ in range(rounds))
    gc.disable()
    try:
        ratios = [_read_ms(read, large, 1) / _read_ms(read, small, _TIMES) for _ in range(rounds)]
    finally:
        gc.enable()
    return statistics.median(ratios), usual


def _read_ms(read: Callable[[str], Result], text: str, times: int) -> float:
    began = time.thread_time_ns()
    for _ in range(times):
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
