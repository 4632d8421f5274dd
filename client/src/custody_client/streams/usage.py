"""Where each provider writes how many tokens it counted. What it does not write stays unknown; nothing is computed."""

from typing import Any, Final

from custody_client.streams.output import Usage

Places = dict[
    str, tuple[tuple[str, ...], ...]
]  # our field: paths, of which the first that holds a number counts

CHAT: Final[Places] = {
    "input": (("prompt_tokens",), ("input_tokens",)),
    "output": (("completion_tokens",), ("output_tokens",)),
    "reasoning": (("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",)),
    "cache_read": (
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
    ),
    "cache_write": (("prompt_tokens_details", "cache_write_tokens"), ("cache_creation_input_tokens",)),
}
RESPONSES: Final[Places] = {
    "input": (("input_tokens",),),
    "output": (("output_tokens",),),
    "reasoning": (("output_tokens_details", "reasoning_tokens"),),
    "cache_read": (("input_tokens_details", "cached_tokens"),),
    "cache_write": (("input_tokens_details", "cache_write_tokens"),),
}
MESSAGES: Final[Places] = {
    "input": (("input_tokens",),),
    "output": (("output_tokens",),),
    "reasoning": (("output_tokens_details", "thinking_tokens"),),
    "cache_read": (("cache_read_input_tokens",),),
    "cache_write": (("cache_creation_input_tokens",),),
}
GEMINI: Final[Places] = {
    "input": (("promptTokenCount",),),
    "output": (("candidatesTokenCount",), ("responseTokenCount",)),
    "reasoning": (("thoughtsTokenCount",),),
    "cache_read": (("cachedContentTokenCount",),),
}
CONVERSE: Final[Places] = {
    "input": (("inputTokens",),),
    "output": (("outputTokens",),),
    "cache_read": (("cacheReadInputTokens",), ("cacheReadInputTokenCount",)),
    "cache_write": (("cacheWriteInputTokens",), ("cacheWriteInputTokenCount",)),
}
INVOKE: Final[Places] = {
    "input": (("inputTokenCount",),),
    "output": (("outputTokenCount",),),
    "cache_read": (("cacheReadInputTokenCount",),),
    "cache_write": (("cacheWriteInputTokenCount",),),
}
OLLAMA: Final[Places] = {"input": (("prompt_eval_count",),), "output": (("eval_count",),)}


class Counts:
    """Numbers so far. A later one replaces an earlier: providers send running totals, some with each chunk."""

    __slots__ = ("_last", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._last: tuple[dict[str, Any], Places] | None = None

    def take(self, usage: object, places: Places) -> None:
        """Take what a provider's object says; it is read when it is known that no other replaces it whole."""
        if type(usage) is not dict:
            return
        last = self._last
        if last is not None and not (last[0].keys() <= usage.keys() and None not in usage.values()):
            self._read()
        self._last = (usage, places)

    def fill(self, usage: object, places: Places) -> None:
        """Take it only as far as nothing is known: a second account of the same."""
        self._read()
        if not self._numbers:
            self.take(usage, places)

    def build(self) -> Usage:
        """Give what is known."""
        self._read()
        return Usage(**self._numbers, source="provider") if self._numbers else Usage()

    def _read(self) -> None:
        if self._last is None:
            return
        usage, places = self._last
        self._last = None
        for name, paths in places.items():
            for path in paths:
                number = _number(usage, path)
                if number is not None:
                    self._numbers[name] = number
                    break


def _number(value: Any, path: tuple[str, ...]) -> int | None:
    for key in path:
        if type(value) is not dict:
            return None
        value = value.get(key)
    return value if type(value) is int else None
