"""Calls written out in each dialect, after its own description and with none of the code that reads them."""

import json
from collections.abc import Callable, Sequence
from typing import Any

Call = tuple[str, dict[str, Any]]

BAR = "\uff5c"
LOW = "\u2581"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def hermes(calls: Sequence[Call]) -> str:
    return "\n".join(
        f"<tool_call>\n{_json({'name': name, 'arguments': arguments})}\n</tool_call>"
        for name, arguments in calls
    )


def qwen_xml(calls: Sequence[Call]) -> str:
    """All values are texts: the dialect has no types."""
    said = []
    for name, arguments in calls:
        inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
        said.append(f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>")
    return "\n".join(said)


def mistral(calls: Sequence[Call]) -> str:
    return "[TOOL_CALLS]" + _json([{"name": name, "arguments": arguments} for name, arguments in calls])


def mistral_named(calls: Sequence[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{_json(arguments)}" for name, arguments in calls)


def llama(calls: Sequence[Call]) -> str:
    said = (_json({"name": name, "parameters": arguments}) for name, arguments in calls)
    return f"<|python_tag|>{'; '.join(said)}<|eom_id|>"


def kimi(calls: Sequence[Call]) -> str:
    said = "".join(
        f"<|tool_call_begin|>functions.{name}:{at}<|tool_call_argument_begin|>{_json(arguments)}<|tool_call_end|>"
        for at, (name, arguments) in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{said}<|tool_calls_section_end|>"


def deepseek(calls: Sequence[Call]) -> str:
    said = "\n".join(
        f"<{BAR}tool{LOW}call{LOW}begin{BAR}>function<{BAR}tool{LOW}sep{BAR}>{name}\n```json\n{_json(arguments)}\n```"
        f"<{BAR}tool{LOW}call{LOW}end{BAR}>"
        for name, arguments in calls
    )
    return f"<{BAR}tool{LOW}calls{LOW}begin{BAR}>{said}<{BAR}tool{LOW}calls{LOW}end{BAR}>"


def dsml(
    calls: Sequence[Call], *, bars: str = BAR, space: str = "", wrapper: str | None = "function_calls"
) -> str:
    mark = f"{bars}DSML{bars}{space}"
    said = []
    for name, arguments in calls:
        inner = "".join(_dsml_parameter(mark, key, value) for key, value in arguments.items())
        said.append(f'<{mark}invoke name="{name}">\n{inner}</{mark}invoke>')
    body = "\n".join(said)
    return body if wrapper is None else f"<{mark}{wrapper}>\n{body}\n</{mark}{wrapper}>"


def _dsml_parameter(mark: str, key: str, value: Any) -> str:
    is_text = isinstance(value, str)
    said = value if is_text else _json(value)
    return f'<{mark}parameter name="{key}" string="{str(is_text).lower()}">{said}</{mark}parameter>\n'


def json_block(calls: Sequence[Call]) -> str:
    return f"```json\n{plan(calls)}\n```"


def plan(calls: Sequence[Call]) -> str:
    return _json({"actions": [{"name": name, "arguments": arguments} for name, arguments in calls]})


# By the dialect's word. Those in the second set have no mark that ends a batch: a text may end behind any of its calls.
WRITERS: dict[str, Callable[[Sequence[Call]], str]] = {
    "hermes": hermes,
    "qwen-xml": qwen_xml,
    "mistral": mistral,
    "llama": llama,
    "kimi": kimi,
    "deepseek": deepseek,
    "dsml": dsml,
    "json-block": json_block,
}
ENDLESS = {"hermes", "qwen-xml", "llama"}
