"""What is made of LiteLLM's payloads; the real one is in client/tests/providers."""

import msgspec
import pytest

from custody_client.adapters import litellm_content

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "large-3",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}},
    ],
    "usage": {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9},
}


def payload(**changed):
    return {
        "call_type": "completion",
        "status": "success",
        "stream": None,
        "custom_llm_provider": "openai",
        "model": "large-3",
        "api_base": "https://user:hidden@api.example:8443/v1?key=hidden",
        "messages": [{"role": "user", "content": "hi"}],
        "model_parameters": {"temperature": 0.5, "extra_headers": {"x-api-key": "hidden"}},
        "response": ANSWER,
        **changed,
    }


def output(**changed):
    return msgspec.to_builtins(litellm_content.output(payload(**changed)))


def test_an_answer_is_read_as_its_shape_says():
    told = output()
    assert told["choices"][0]["items"][0]["text"] == "Hello"
    assert (told["vantage"], told["response_id"], told["stream"]["state"]) == (
        "gateway",
        "chatcmpl-1",
        "completed",
    )
    assert (told["usage"]["input"], told["usage"]["source"]) == (8, "provider")


def test_what_litellm_may_have_filled_in_is_not_believed():
    told = output(stream=True)
    assert told["stream"] == {**told["stream"], "streamed": True, "state": "finished-no-terminal"}
    assert told["usage"]["source"] == "estimated"
    assert {"finish-reason-perhaps-filled-in", "usage-perhaps-estimated"} <= set(told["notes"])


def test_a_failure_is_named_by_its_class_alone():
    error = {
        "error_class": "ServiceUnavailableError",
        "error_message": "CANARY-7f3a",
        "traceback": "CANARY-7f3a",
    }
    told = output(status="failure", response={}, error_information=error, error_str="CANARY-7f3a")
    assert told["stream"]["state"] == "error"
    assert told["stream"]["error"]["kind"] == "ServiceUnavailableError"
    assert "CANARY" not in str(told)


def test_no_credential_is_copied():
    request = litellm_content.request(payload())
    assert request["route"] == {"host": "api.example", "api": "chat.completions"}
    assert request["body"]["temperature"] == 0.5
    assert "extra_headers" in request["left_out"]
    assert "hidden" not in str(request)
    assert "hidden" not in str(output())


@pytest.mark.parametrize(
    ("messages", "redacted"),
    [
        ([{"role": "user", "content": "redacted-by-litellm"}], True),
        ("redacted-by-litellm", True),
        (None, True),
        ([{"role": "user", "content": "hi"}], False),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], False),
        ("hi", False),
        ([], False),
    ],
)
def test_what_litellm_was_told_to_keep_is_known(messages, redacted):
    assert litellm_content.redacted(payload(messages=messages)) is redacted
