"""The fake is believed by the real SDKs: what they make of it is what it says."""

import json

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from client.tests.providers.answers import ARGUMENTS, TEXT

PROMPT = "What is the weather?"
MESSAGES = [{"role": "user", "content": PROMPT}]


@pytest.fixture
def chat(provider):
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="sk-none", max_retries=0) as client:
        yield client


def test_openai_reads_a_chat_completion(chat):
    message = chat.chat.completions.create(model="gpt-x", messages=MESSAGES).choices[0].message
    assert message.content == TEXT
    assert message.tool_calls[0].function.arguments == "".join(ARGUMENTS)


def test_openai_reads_a_stream_of_chunks(chat):
    with chat.chat.completions.stream(model="gpt-x", messages=MESSAGES) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content == TEXT
    assert message.tool_calls[0].function.arguments == "".join(ARGUMENTS)


def test_openai_reads_responses(chat):
    whole = chat.responses.create(model="gpt-x", input=PROMPT)
    with chat.responses.stream(model="gpt-x", input=PROMPT) as stream:
        streamed = stream.get_final_response()
    assert whole.output_text == streamed.output_text == TEXT
    assert whole.output[1].arguments == streamed.output[1].arguments == "".join(ARGUMENTS)


def test_anthropic_reads_messages(provider):
    with anthropic.Anthropic(base_url=provider.url, api_key="sk-none", max_retries=0) as client:
        whole = client.messages.create(model="claude-x", max_tokens=9, messages=MESSAGES)
        with client.messages.stream(model="claude-x", max_tokens=9, messages=MESSAGES) as stream:
            streamed = stream.get_final_message()
    assert whole.content[0].text == streamed.content[0].text == TEXT
    assert whole.content[1].input == streamed.content[1].input == json.loads("".join(ARGUMENTS))


def test_gemini_reads_contents(provider):
    client = genai.Client(api_key="sk-none", http_options=types.HttpOptions(base_url=provider.url))
    whole = client.models.generate_content(model="gemini-x", contents=PROMPT)
    chunks = list(client.models.generate_content_stream(model="gemini-x", contents=PROMPT))
    assert whole.candidates[0].content.parts[0].text == TEXT
    assert "".join(chunk.candidates[0].content.parts[0].text or "" for chunk in chunks) == TEXT
