"""Providers' words for why a model stopped, and the class of each; a word that is not here is `unknown`."""

from typing import Final

from custody_client.streams.output import FinishClass

_WORDS: Final[dict[FinishClass, str]] = {
    "stop": "stop end_turn stop_sequence eos eos_token completed complete finish finished finish_reason_stop",
    "tool_call": "tool_calls tool_call tool_use function_call",
    "length": (
        "length max_tokens max_output_tokens model_context_window_exceeded max_length model_length token_limit"
        " error_limit"
    ),
    "content_filter": (
        "content_filter content_filtered safety recitation blocklist prohibited_content spii guardrail_intervened"
        " image_safety image_prohibited_content image_recitation language model_armor jailbreak error_toxic"
    ),
    "refusal": "refusal",
    "pause": "pause_turn continuation steered max_messages insufficient_system_resource",
    "error": (
        "error failed malformed_function_call malformed_response malformed_model_output malformed_tool_use"
        " unexpected_tool_call too_many_tool_calls missing_thought_signature network_error cancelled"
        " image_other no_image"
    ),
}
_CLASSES: Final[dict[str, FinishClass]] = {
    word: named for named, words in _WORDS.items() for word in words.split()
}


def class_of(reason: str | None) -> FinishClass:
    """Return the class of a provider's word."""
    return "unknown" if reason is None else _CLASSES.get(reason.lower(), "unknown")
