"""Texts and what is meant by them, written by hand: neither by the code that reads them nor by `written`."""

# ruff: noqa: RUF001 - marks of these models are made of such characters

from typing import Any, NamedTuple


class Golden(NamedTuple):
    dialect: str
    text: str
    calls: list[tuple[str, dict[str, Any], str | None]]  # name, arguments, id
    has_an_end: bool = True  # whether a mark ends the batch


GOLDENS = {
    "hermes": Golden(
        "hermes",
        'Let me look.\n<tool_call>\n{"name": "f", "arguments": {"q": 1}}\n</tool_call>',
        [("f", {"q": 1}, None)],
    ),
    "hermes, two calls, one with arguments as text": Golden(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":"{\\"city\\":\\"Köln\\"}"}</tool_call>\n'
        '<tool_call>{"arguments": {"a": [1, {"b": null}]}, "name": "g"}</tool_call><|im_end|>\n',
        [("get_weather", {"city": "Köln"}, None), ("g", {"a": [1, {"b": None}]}, None)],
        has_an_end=False,
    ),
    "hermes, its own marks in a string": Golden(
        "hermes",
        '<tool_call>\n{"name": "write", "arguments": {"text": "<tool_call>{}</tool_call> \\" }]"}}\n</tool_call>',
        [("write", {"text": '<tool_call>{}</tool_call> " }]'}, None)],
    ),
    "qwen3-coder": Golden(
        "qwen-xml",
        "<tool_call>\n<function=f>\n<parameter=q>\n1\n</parameter>\n<parameter=code>\nif a < b:\n"
        "    pass\n</parameter>\n</function>\n</tool_call>",
        [("f", {"q": "1", "code": "if a < b:\n    pass"}, None)],
    ),
    "qwen3-coder, bare": Golden(
        "qwen-xml",
        "<function=f><parameter=q>1</parameter></function>",
        [("f", {"q": "1"}, None)],
    ),
    "mistral, a list": Golden(
        "mistral",
        '[TOOL_CALLS] [{"name": "f", "arguments": {"q": 1}, "id": "abc123XYZ"}, {"name": "g", "arguments": {}}]</s>',
        [("f", {"q": 1}, "abc123XYZ"), ("g", {}, None)],
    ),
    "mistral, by name": Golden(
        "mistral",
        '[TOOL_CALLS]f[CALL_ID]a1[ARGS]{"q": "[TOOL_CALLS]"}[TOOL_CALLS]g{"n": 2.5}',
        [("f", {"q": "[TOOL_CALLS]"}, "a1"), ("g", {"n": 2.5}, None)],
        has_an_end=False,
    ),
    "llama": Golden(
        "llama",
        '<|python_tag|>{"name": "f", "parameters": {"q": "a;b"}}<|eom_id|>',
        [("f", {"q": "a;b"}, None)],
    ),
    "kimi": Golden(
        "kimi",
        "I call both.<|im_end|>\n"
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"q": 1}'
        '<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"s": "<|tool_call_end|>"}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        [("f", {"q": 1}, "functions.f:0"), ("g", {"s": "<|tool_call_end|>"}, "functions.g:1")],
    ),
    "deepseek r1": Golden(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
        '{"q": "```"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        [("f", {"q": "```"}, None)],
    ),
    "deepseek v3.1": Golden(
        "deepseek",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"q": 1}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [("f", {"q": 1}, None), ("g", {}, None)],
    ),
    "deepseek, ASCII": Golden(
        "deepseek",
        "<|tool_calls_begin|><|tool_call_begin|>f<|tool_sep|>{}<|tool_call_end|><|tool_calls_end|>",
        [("f", {}, None)],
    ),
    "dsml": Golden(
        "dsml",
        'ok\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="q" string="true">x "y" < z\n</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="n" string="false">[1, 2.50]</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        [("f", {"q": 'x "y" < z\n', "n": [1, 2.5]}, None)],
    ),
    "dsml, block named tool_calls": Golden(
        "dsml",
        '<｜DSML｜tool_calls><｜DSML｜invoke name="f"></｜DSML｜invoke>'
        '<｜DSML｜invoke name="g"><｜DSML｜parameter name="t" string="true"><tool_call></｜DSML｜parameter>'
        "</｜DSML｜invoke></｜DSML｜tool_calls>",
        [("f", {}, None), ("g", {"t": "<tool_call>"}, None)],
    ),
    "dsml, double bars and spaces": Golden(
        "dsml",
        '<｜｜DSML｜｜ calls><｜｜DSML｜｜ invoke name="f"><｜｜DSML｜｜ parameter name="q" string="false">true'
        "</｜｜DSML｜｜ parameter></｜｜DSML｜｜ invoke></｜｜DSML｜｜ calls>",
        [("f", {"q": True}, None)],
    ),
    "dsml, double line": Golden(
        "dsml",
        '<‖DSML‖function_calls><‖DSML‖invoke name="f"></‖DSML‖invoke></‖DSML‖function_calls>',
        [("f", {}, None)],
    ),
    "dsml, ASCII": Golden(
        "dsml",
        '<|DSML|function_calls><|DSML|invoke name="f"></|DSML|invoke></|DSML|function_calls>',
        [("f", {}, None)],
    ),
    "dsml, no wrapper": Golden(
        "dsml",
        '<｜DSML｜invoke name="f"><｜DSML｜parameter name="q" string="true">x</｜DSML｜parameter></｜DSML｜invoke>',
        [("f", {"q": "x"}, None)],
    ),
    "qwen2.5-coder, a block alone": Golden(
        "json-block",
        '```json\n{"name": "f", "arguments": {"q": 1}}\n```\n',
        [("f", {"q": 1}, None)],
    ),
}
