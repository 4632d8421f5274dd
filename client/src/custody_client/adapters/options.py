"""Which fields of a request are copied, by wire format: those that say what the model was given, and no others.

From the providers' public references, and those of servers that speak the same format (vLLM, SGLang, OpenRouter). What
is not named here is left out by name only: credentials travel under names that nobody can list.
"""

from collections.abc import Mapping
from typing import Final

_CHAT: Final = frozenset({
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
    "max_tokens", "messages", "metadata", "modalities", "model", "moderation", "n", "parallel_tool_calls", "prediction",
    "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
    "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
    # of others who speak it
    "bad_words", "best_of", "cache_control", "chat_template_kwargs", "enable_thinking", "guided_choice",
    "guided_grammar", "guided_json", "guided_regex", "ignore_eos", "include_reasoning", "length_penalty", "min_p",
    "min_tokens", "models", "prefix", "reasoning", "reasoning_format", "repetition_penalty", "safe_prompt",
    "structured_outputs", "thinking", "thinking_budget", "top_a", "top_k", "transforms", "use_beam_search",
})  # fmt: skip
_RESPONSES: Final = frozenset({
    "access_programs", "background", "background_options", "context_management", "conversation", "image", "include",
    "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation",
    "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options",
    "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
_ANTHROPIC: Final = frozenset({
    "anthropic_beta", "anthropic_version", "betas", "billing_policy", "cache_control", "compaction", "container",
    "context_management", "diagnostics", "fallbacks", "inference_geo", "max_tokens", "mcp_servers", "messages",
    "metadata", "model", "output_config", "output_format", "service_tier", "speed", "stop_sequences", "stream",
    "system", "temperature", "thinking", "thread", "tool_choice", "tools", "top_k", "top_p", "user_profile_id",
    "workspace_id",
})  # fmt: skip
_GEMINI: Final = frozenset({
    "cachedContent", "contents", "generationConfig", "labels", "model", "modelArmorConfig", "outputConfig",
    "safetySettings", "serviceTier", "store", "systemInstruction", "toolConfig", "tools",
})  # fmt: skip
_CONVERSE: Final = frozenset({
    "additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig", "inferenceConfig",
    "messages", "modelId", "outputConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier",
    "system", "toolConfig",
})  # fmt: skip
_OLLAMA: Final = frozenset({
    "format", "keep_alive", "logprobs", "messages", "model", "options", "stream", "think", "tools", "top_logprobs",
})  # fmt: skip

# Bodies of `bedrock.invoke` are those of whose model it is.
NAMES: Final[Mapping[str, frozenset[str]]] = {
    "chat.completions": _CHAT,
    "responses": _RESPONSES,
    "anthropic.messages": _ANTHROPIC,
    "gemini": _GEMINI,
    "bedrock.converse": _CONVERSE,
    "bedrock.invoke": _ANTHROPIC | _CHAT,
    "ollama.chat": _OLLAMA,
}

# Tools that a provider calls for us carry their own credentials: beside the tool's name, never inside a JSON schema.
TOOLS: Final = frozenset({"tools", "mcp_servers"})
CREDENTIALS: Final = frozenset({
    "api_key", "apiAuth", "apiKey", "authConfig", "authorization", "authorization_token", "headers", "oauth",
})  # fmt: skip
ADDRESSES: Final = frozenset({"server_url", "url", "endpoint"})
# Parts of a tool in which anything may stand under any name.
SCHEMAS: Final = frozenset(
    {"function", "functionDeclarations", "function_declarations", "parameters", "input_schema"}
)
