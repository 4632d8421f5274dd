"""The allow-lists against what today's SDKs can ask for: a new option is copied, or left out for a reason."""

import typing

import botocore.session
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_message_create_params
from google.genai import types
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from custody_client.adapters.options import NAMES

# A credit that was bought is money; the header of the same name says which betas.
LEFT_OUT = {"fallback_credit_token"}


def named(*kinds):
    """Names of all fields of typed dictionaries."""
    return {name for kind in kinds for name in typing.get_type_hints(kind)}


def test_chat_completions_and_responses():
    assert named(completion_create_params.CompletionCreateParamsBase) <= NAMES["chat.completions"]
    assert named(response_create_params.ResponseCreateParamsBase) <= NAMES["responses"]


def test_messages():
    asked = named(
        message_create_params.MessageCreateParamsBase, beta_message_create_params.MessageCreateParamsBase
    )
    assert asked - NAMES["anthropic.messages"] == LEFT_OUT


def test_generate_content():
    top = {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "cachedContent",
    }
    assert top <= NAMES["gemini"]
    assert "labels" in types.GenerateContentConfig.model_fields


def test_converse():
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    for operation in ("Converse", "ConverseStream"):
        asked = set(model.operation_model(operation).input_shape.members) - {"projectIdentifier"}
        assert asked <= NAMES["bedrock.converse"]
