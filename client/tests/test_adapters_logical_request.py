"""What is copied of a request: its own fields as they are, and nothing that lets anybody in anywhere."""

import msgspec
import pytest

from client.tests.recorded import Untouchable
from custody_client.adapters.logical_request import of_bytes, of_options
from custody_client.adapters.options import NAMES
from custody_client.adapters.routes import Route, provider_of, route_of
from custody_client.streams.assembler import _FORMATS

SECRET = "sk-CANARY"


def to(host: str, path: str) -> Route:
    route = route_of(host, path)
    assert route is not None
    return route


CHAT = to("api.openai.com", "/v1/chat/completions")
RESPONSES = to("api.openai.com", "/v1/responses")
MESSAGES = to("api.anthropic.com", "/v1/messages?beta=true")
GEMINI = to("generativelanguage.googleapis.com", "/v1beta/models/gemini-x:streamGenerateContent")


def written(document):
    return msgspec.json.encode(document)


def test_there_is_a_list_for_each_wire_format():
    assert set(NAMES) == set(_FORMATS)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[]}',
        b'{ "messages" : [ {"role":"user","content":"\xc3\xa9 \\ud83d"} ], "model":"m", "seed":9007199254740993 }',
        b'{"model":"a","messages":[],"model":"m"}',
        b'{"model":"m","messages":[],"temperature":1E400}',
    ],
)
def test_bytes_stay_the_very_bytes(body):
    document = of_bytes(CHAT, body)
    assert body in written(document)
    assert document["model"] == "m"
    assert "left_out" not in document


def test_fields_that_nobody_documents_are_left_out_by_name():
    body = {"model": "m", "messages": [1], "api_key": SECRET, "aws_secret": SECRET}
    for document in (of_options(CHAT, body), of_bytes(CHAT, written(body))):
        assert document["left_out"] == ["api_key", "aws_secret"]
        assert SECRET.encode() not in written(document)
        assert msgspec.json.decode(written(document))["body"] == {"model": "m", "messages": [1]}


def test_half_a_surrogate_pair_hides_no_credential():
    document = of_bytes(CHAT, b'{"model":"m","messages":["\\ud83d"],"api_key":"sk-CANARY"}')
    assert document["left_out"] == ["api_key"]
    assert SECRET.encode() not in written(document)
    assert b'"messages":["\\ud83d"]' in written(document)


def test_what_is_left_out_is_not_looked_at():
    of_options(CHAT, {"model": "m", "secret": Untouchable()})


def test_names_that_are_left_out_are_bounded():
    document = of_bytes(CHAT, written({f"{number}-{'x' * 500}": 1 for number in range(500)}))
    assert len(written(document)) < 4096


@pytest.mark.parametrize(
    ("route", "name", "tool", "kept"),
    [
        (
            RESPONSES,
            "tools",
            {
                "type": "mcp",
                "server_url": f"https://u:{SECRET}@x.example:8443/a?k={SECRET}#{SECRET}",
                "headers": {"k": SECRET},
            },
            {"type": "mcp", "server_url": "https://x.example:8443/a"},
        ),
        (
            MESSAGES,
            "mcp_servers",
            {
                "type": "url",
                "name": "x",
                "url": f"https://x.example/?k={SECRET}",
                "authorization_token": SECRET,
            },
            {"type": "url", "name": "x", "url": "https://x.example/"},
        ),
        (
            GEMINI,
            "tools",
            {
                "retrieval": {
                    "externalApi": {"endpoint": f"https://x/?k={SECRET}", "apiAuth": {"apiKeyConfig": SECRET}}
                }
            },
            {"retrieval": {"externalApi": {"endpoint": "https://x/"}}},
        ),
        (GEMINI, "tools", {"googleMaps": {"authConfig": {"k": SECRET}}}, {"googleMaps": {}}),
        (RESPONSES, "tools", {"type": "mcp", "server_url": "http://[bad"}, {"type": "mcp", "server_url": ""}),
    ],
)
def test_tools_keep_no_credentials(route, name, tool, kept):
    body = {name: [tool]}
    for document in (of_options(route, body), of_bytes(route, written(body))):
        assert msgspec.json.decode(written(document))["body"] == {name: [kept]}


def test_what_a_tool_takes_is_not_a_credential():
    function = {
        "name": "login",
        "parameters": {"properties": {"headers": {}, "api_key": {}, "url": {"const": "http://a?b"}}},
    }
    tools = [
        {"type": "function", "function": function},
        {"name": "x", "input_schema": function["parameters"]},
    ]
    for document in (of_options(CHAT, {"tools": tools}), of_bytes(CHAT, written({"tools": tools}))):
        assert msgspec.json.decode(written(document))["body"] == {"tools": tools}


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"\xff\xfe{}", b"{", b"[" * 100_000, b'{"a":' * 2000, b'{"model":"m","seed":NaN}']
)
def test_what_is_no_object_is_kept_as_text_and_said_so(body):
    document = of_bytes(CHAT, body)
    assert document["shape"] == "unrecognised"
    assert len(document["body"]) >= len(body)
    written(document)


def test_a_model_may_be_in_the_address_only():
    assert of_options(GEMINI, {"contents": []})["model"] == "gemini-x"
    bedrock = to("bedrock-runtime.eu-west-1.amazonaws.com", "/model/anthropic.claude-x:0/converse")
    assert of_bytes(bedrock, b'{"messages":[]}')["model"] == "anthropic.claude-x:0"
    assert of_bytes(bedrock, b'{"messages":[]}')["provider"] == "aws.bedrock"


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("eu.api.openai.com", "openai"),
        ("x.openai.azure.com", "azure.ai.openai"),
        ("api.anthropic.com", "anthropic"),
        ("europe-west1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("api.x.ai", "x_ai"),
        ("notopenai.com", ""),
        ("openai.com.evil.example", ""),
        ("127.0.0.1", ""),
        ("", ""),
    ],
)
def test_a_provider_is_named_by_its_host_only(host, provider):
    assert provider_of(host) == provider


@pytest.mark.parametrize(
    "path", ["/v1/embeddings", "/v1/messages/count_tokens", "/v1/messages/batches", "/v1/files"]
)
def test_other_addresses_are_no_calls_of_a_model(path):
    assert route_of("api.openai.com", path) is None
