"""Providers' words for why a model stopped, in the classes in which intake asks about them."""

from typing import Final

_WORDS: Final = {
    "stop": "stop end_turn stop_sequence eos eos_token completed complete finish finished",
    "tool_call": "tool_calls tool_call tool_use function_call",
    "length": (
        "length max_tokens max_output_tokens model_context_window_exceeded max_length model_length token_limit"
        " incomplete"
    ),
    "content_filter": (
        "content_filter content_filtered safety recitation blocklist prohibited_content spii guardrail_intervened"
        " image_safety image_prohibited_content image_recitation language model_armor jailbreak"
    ),
    "refusal": "refusal",
    "pause": "pause_turn continuation steered max_messages",
    "error": (
        "error failed malformed_function_call malformed_response malformed_model_output malformed_tool_use"
        " unexpected_tool_call too_many_tool_calls missing_thought_signature network_error cancelled"
    ),
}
_CLASSES: Final = {word: named for named, words in _WORDS.items() for word in words.split()}
# The call is whole; that no such tool was offered is for admission to say.
WHOLE_ALL_THE_SAME: Final = "unexpected_tool_call"


def class_of(reason: str | None) -> str | None:
    """Return the class of a provider's word; None where nothing was said."""
    return None if reason is None else _CLASSES.get(reason.lower(), "unknown")
