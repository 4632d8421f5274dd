"""Where a call goes: which wire format it speaks, who answers there. Of an address nothing else is kept."""

import re
from typing import Final

import msgspec

from custody_client.streams import api_of

# Names of providers as OpenTelemetry's `gen_ai.provider.name` has them, by the host that is called.
_PROVIDERS: Final = (
    (re.compile(r"(^|\.)openai\.azure\.com$|\.cognitiveservices\.azure\.com$"), "azure.ai.openai"),
    (re.compile(r"\.(models|services)\.ai\.azure\.com$"), "azure.ai.inference"),
    (re.compile(r"(^|\.)openai\.com$"), "openai"),
    (re.compile(r"(^|\.)anthropic\.com$"), "anthropic"),
    (re.compile(r"^bedrock-(runtime|mantle)[.-].*\.amazonaws\.com"), "aws.bedrock"),
    (re.compile(r"^generativelanguage\.googleapis\.com$"), "gcp.gemini"),
    (re.compile(r"(^|[.-])aiplatform\.googleapis\.com$"), "gcp.vertex_ai"),
    (re.compile(r"(^|\.)mistral\.ai$"), "mistral_ai"),
    (re.compile(r"(^|\.)deepseek\.com$"), "deepseek"),
    (re.compile(r"(^|\.)groq\.com$"), "groq"),
    (re.compile(r"(^|\.)x\.ai$"), "x_ai"),
    (re.compile(r"(^|\.)cohere\.(com|ai)$"), "cohere"),
    (re.compile(r"(^|\.)perplexity\.ai$"), "perplexity"),
    (re.compile(r"(^|\.)moonshot\.(ai|cn)$"), "moonshot_ai"),
)
_MODEL_IN_PATH: Final = re.compile(r"(?:^|/)(?:models?|deployments|endpoints)/([^/:?]+(?::\d+)?)")


class Route(msgspec.Struct, frozen=True):
    """One address of a model: host without port or credentials, wire format, provider if the host tells it."""

    host: str
    api: str
    provider: str
    model: str | None = None
    """Where the address names it."""


def route_of(host: str, path: str) -> Route | None:
    """Read an address; None where no call of a model goes there that could be read."""
    plain = path.partition("?")[0]
    api = api_of(host, plain)
    if api is None:
        return None
    model = _MODEL_IN_PATH.search(plain)
    return Route(host, api, provider_of(host), model.group(1) if model else None)


def provider_of(host: str) -> str:
    """Name who answers at a host; empty where nobody can tell."""
    return next((name for pattern, name in _PROVIDERS if pattern.search(host)), "")
