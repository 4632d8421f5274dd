"""What the completion hook makes of an instrumentation's messages; the real one is in client/tests/providers."""

from types import SimpleNamespace

import msgspec
import pytest

from custody_client.adapters import otel_content

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "server.address": "api.openai.com"}


def part(kind, **held):
    return SimpleNamespace(type=kind, **held)


def call(arguments, call_id="c1"):
    return part("tool_call", arguments=arguments, name="f", id=call_id)


def message(*parts, finish="stop"):
    return SimpleNamespace(role="assistant", parts=list(parts), finish_reason=finish, name=None)


def output(*messages, **attributes):
    told = {**CHAT, **{f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}}
    return msgspec.to_builtins(otel_content.output(messages, told))


def item(*parts, finish="stop"):
    return output(message(*parts, finish=finish))["choices"][0]["items"][0]


@pytest.mark.parametrize(
    ("given", "finish", "raw", "state"),
    [
        (
            {"city": "Rome", "n": 9007199254740993},
            "tool_call",
            '{"city":"Rome","n":9007199254740993}',
            "object",
        ),
        ({"big": 2**70}, "tool_call", '{"big":1180591620717411303424}', "object"),
        ("", "tool_call", "", "empty"),
        (None, "tool_call", "", "empty"),
        ('{"ci', "tool_call", '{"ci', "invalid-json"),
        ('{"ci', "error", '{"ci', "incomplete"),
        ('{"a":  1}', "tool_call", '{"a":  1}', "valid-json"),
        ("[" * 100_000, "tool_call", "[" * 100_000, "invalid-json"),
    ],
)
def test_text_stays_and_what_was_parsed_is_marked(given, finish, raw, state):
    made = item(call(given), finish=finish)
    assert (made["arguments"]["raw"], made["arguments"]["state"]) == (raw, state)


def test_that_arguments_were_parsed_is_said_of_both_parts():
    parsed = message(call({"a": 1}))
    assert "arguments-reparsed" in output(parsed)["notes"]
    assert "arguments-reparsed" not in output(message(call('{"a')))["notes"]
    assert "arguments-reparsed" in otel_content.request([parsed], [], None, CHAT)["notes"]


def test_every_kind_of_part_is_named_for_what_it_is():
    made = output(
        message(
            part("text", content="a"),
            part("reasoning", content="b"),
            call({}),
            call({}, "c2"),
            part("server_tool_call", name="search", id="s", server_tool_call={"type": "x"}),
            part("blob", mime_type="image/png", content=b"\x89PNG"),
            part("uri", mime_type=None, modality="image", uri="https://e.example/x"),
        )
    )
    items = made["choices"][0]["items"]
    kinds = ["text", "reasoning", "tool_call", "tool_call", "server_tool", "media", "unrecognised"]
    assert [each["type"] for each in items] == kinds
    assert [each["ordinal"] for each in items[2:4]] == [0, 1]
    assert items[5]["size"] == 4
    assert "https://e.example/x" in items[6]["raw"]


def test_the_providers_own_word_of_the_end_is_kept():
    told = output(message(finish="tool_call"), response__finish_reasons=("tool_calls",))
    assert told["choices"][0]["finish"] == {"reason": "tool_calls", "class": "tool_call"}
    mapped = output(message(finish="length"))
    assert mapped["choices"][0]["finish"] == {"reason": "length", "class": "length"}
    assert "finish-reason-mapped" in mapped["notes"]


def test_a_stream_that_was_cut_is_interrupted_though_no_error_was_told():
    told = output(message(part("text", content="Le"), finish="error"), response__finish_reasons=("error",))
    assert told["stream"]["state"] == "interrupted"
    assert told["choices"][0]["finish"] is None
    assert "finish-missing-or-error" in told["notes"]


def test_a_stream_has_no_terminal_marker_that_anybody_saw():
    assert output(message(), request__stream=True)["stream"]["state"] == "finished-no-terminal"
    assert output(message())["stream"]["state"] == "completed"


def test_an_error_is_named_and_an_answer_that_never_came_is_no_answer():
    failed = msgspec.to_builtins(
        otel_content.output([], {**CHAT, "error.type": "openai.InternalServerError"})
    )
    assert failed["stream"]["state"] == "error"
    assert failed["stream"]["error"]["kind"] == "openai.InternalServerError"
    assert output()["stream"]["state"] == "interrupted"


def test_unknown_usage_is_unknown():
    assert output(message())["usage"]["source"] == "none"
    counted = output(message(), usage__input_tokens=11, usage__cache_read__input_tokens=3)["usage"]
    assert (counted["input"], counted["output"], counted["cache_read"], counted["source"]) == (
        11,
        None,
        3,
        "provider",
    )


def test_what_a_span_that_is_not_sampled_did_not_say_is_not_made_up():
    request = otel_content.request([], [], None, {})
    assert (request["model"], request["route"]) == (None, {"host": "", "api": "otel.unknown"})
    assert {"operation-not-seen", "model-and-options-not-seen"} <= set(request["notes"])
    made = msgspec.to_builtins(otel_content.output([message()], {}))
    assert {"operation-not-seen", "usage-and-streaming-not-seen"} <= set(made["notes"])


def test_options_are_those_of_the_conventions_only():
    told = {
        **CHAT,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.api_key": "k",
        "http.request.header.x": "y",
    }
    assert otel_content.request([], [], None, told)["body"]["options"] == {"temperature": 0.5}
