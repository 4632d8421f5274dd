"""Which wire format an address speaks."""

import pytest

from custody_client.streams import api_of


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", "chat.completions"),
        ("/openai/deployments/d/chat/completions?api-version=1", "chat.completions"),
        ("/api/paas/v4/chat/completions/", "chat.completions"),
        ("/v1/responses", "responses"),
        ("/v1/responses/compact", None),
        ("/v1/responses/input_tokens", None),
        ("/v1/messages", "anthropic.messages"),
        ("/v1/messages?beta=true", "anthropic.messages"),
        ("/v1/messages/count_tokens", None),
        ("/v1/messages/batches", None),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", "anthropic.messages"),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", "gemini"),
        ("/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent", "gemini"),
        ("/v1beta/models/m:countTokens", None),
        ("/model/us.anthropic.m-v1%3A0/converse-stream", "bedrock.converse"),
        ("/model/arn%3Aaws%3Abedrock%3A1%3Ax%2Fy/converse", "bedrock.converse"),
        ("/model/m/invoke-with-response-stream", "bedrock.invoke"),
        ("/model/m/count-tokens", None),
        ("/api/chat", "ollama.chat"),
        ("/v1/embeddings", None),
        ("/", None),
        ("", None),
    ],
)
def test_paths(path, api):
    assert api_of("any.example", path, "application/json") == api


@pytest.mark.parametrize(
    ("content_type", "known"),
    [
        ("", True),
        ("text/event-stream; charset=utf-8", True),
        ("Application/JSON", True),
        ("application/vnd.amazon.eventstream", True),
        ("application/x-ndjson", True),
        ("text/html", False),
        ("image/png", False),
    ],
)
def test_types_of_content(content_type, known):
    assert (api_of("any.example", "/v1/responses", content_type) is not None) == known
