"""A request whose tools are not those that its owner admitted is not dispatched, however they were changed."""

import copy
import json
import time
from collections import OrderedDict
from enum import StrEnum
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.facts import Change, Check, Difference, SurfaceFact, Verdict, encode
from custody_toolchain.surface import (
    AsyncGuard,
    Guard,
    PreDispatchRejected,
    Reason,
    Surface,
    Unreadable,
    tools_of,
)
from custody_toolchain.surface import differences as comparing


def search():
    return {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Search the documents.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for"},
                    "filter": {
                        "type": "object",
                        "properties": {"year": {"type": "integer", "minimum": 0, "maximum": 9.0}},
                        "additionalProperties": False,
                    },
                },
                "required": ["query", "filter"],
            },
            "strict": True,
        },
    }


def named(name, description="Something."):
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {}},
        },
    }


def tools():
    return [search(), named("read", "Read a document."), named("sum", "Add numbers.")]


def request():
    return {
        "model": "large-3",
        "messages": [{"role": "user", "content": "Find a flight."}] * 20,
        "tools": tools(),
    }


class Runtime:
    """The owner of one request: what it reserved, and what it really sent."""

    def __init__(self, surface, early=None, late=None):
        self.surface = surface
        self.early, self.late = early, late
        self.settled = []
        self.sent = []
        self.others = {"other-request": "reserved"}

    def call(self, asked):
        guard = Guard(self.surface, "call-8", self.settled.append, "physical-1")
        if self.early:
            asked = self.early(asked) or asked
        guard.check_early(asked)
        if self.late:
            asked = self.late(asked) or asked
        guard.check_final(asked)
        assert guard.passed
        self.sent.append(asked)

    async def call_async(self, asked):
        async def settle(rejection):
            self.settled.append(rejection)

        guard = AsyncGuard(self.surface, "call-8", settle, "physical-1")
        if self.early:
            asked = self.early(asked) or asked
        await guard.check_early(asked)
        if self.late:
            asked = self.late(asked) or asked
        await guard.check_final(asked)
        assert guard.passed
        self.sent.append(asked)


def parameters(asked):
    return asked["tools"][0]["function"]["parameters"]


def swap(asked):
    asked["tools"][1:] = asked["tools"][:0:-1]


def shared_reference(asked):
    # One object stands in two tools, and is changed through the one that nobody looks at.
    asked["tools"][2]["function"]["parameters"] = asked["tools"][1]["function"]["parameters"]
    asked["tools"][2]["function"]["parameters"]["properties"]["secret"] = {"type": "string"}


def in_the_sdks_extra(asked):
    asked["extra_body"] = {"tools": [named("sneaked")]}


WAYS = {
    "add": (lambda a: a["tools"].append(named("delete")), {(Change.ADDED, "delete", None)}),
    "add-a-control": (
        lambda a: a["tools"].insert(0, named("read_tool_result")),
        {(Change.ADDED, "read_tool_result", None)},
    ),
    "add-the-same-again": (
        lambda a: a["tools"].append(named("sum", "Add numbers.")),
        {(Change.ADDED, "sum", None)},
    ),
    "add-by-the-older-field": (
        lambda a: a.update(functions=[named("delete")["function"]]),
        {(Change.ADDED, "delete", None)},
    ),
    "add-by-what-is-merged-in": (in_the_sdks_extra, {(Change.ADDED, "sneaked", None)}),
    "add-the-providers-own": (
        lambda a: a["tools"].append({"type": "web_search"}),
        {(Change.ADDED, "web_search", None)},
    ),
    "remove": (lambda a: a["tools"].pop(1), {(Change.REMOVED, "read", None)}),
    "remove-all": (
        lambda a: a.pop("tools"),
        {(Change.REMOVED, "search", None), (Change.REMOVED, "read", None), (Change.REMOVED, "sum", None)},
    ),
    "keep-the-top-n": (
        lambda a: a.update(tools=a["tools"][:2]),
        {(Change.REMOVED, "sum", None)},
    ),
    "rename": (lambda a: a["tools"][1]["function"].update(name="fetch"), {(Change.RENAMED, "read", None)}),
    "rename-case": (
        lambda a: a["tools"][1]["function"].update(name="Read"),
        {(Change.RENAMED, "read", None)},
    ),
    "reorder": (swap, {(Change.REORDERED, "read", None)}),
    "description": (
        lambda a: a["tools"][1]["function"].update(description="Read a document. "),
        {(Change.DESCRIPTION, "read", None)},
    ),
    "description-gone": (
        lambda a: a["tools"][1]["function"].pop("description"),
        {(Change.DESCRIPTION, "read", None)},
    ),
    "schema-shallow": (
        lambda a: parameters(a).update(required=["query"]),
        {(Change.SCHEMA, "search", "/schema/required/1")},
    ),
    "schema-deep": (
        lambda a: parameters(a)["properties"]["filter"]["properties"]["year"].update(minimum=1),
        {(Change.SCHEMA, "search", "/schema/properties/filter/properties/year/minimum")},
    ),
    "schema-description": (
        lambda a: parameters(a)["properties"]["query"].update(description="Anything"),
        {(Change.SCHEMA, "search", "/schema/properties/query/description")},
    ),
    "schema-list-order": (
        lambda a: parameters(a)["required"].reverse(),
        {(Change.SCHEMA, "search", "/schema/required/0"), (Change.SCHEMA, "search", "/schema/required/1")},
    ),
    "schema-gone": (
        lambda a: a["tools"][2]["function"].pop("parameters"),
        {(Change.SCHEMA, "sum", "/schema")},
    ),
    "shared-reference": (
        shared_reference,
        {
            (Change.SCHEMA, "read", "/schema/properties/secret"),
            (Change.SCHEMA, "sum", "/schema/properties/secret"),
        },
    ),
    "another-field": (
        lambda a: a["tools"][0]["function"].update(strict=False),
        {(Change.SCHEMA, "search", "/other/strict")},
    ),
    "a-field-around-it": (
        lambda a: a["tools"][0].update(cache_control={"type": "ephemeral"}),
        {(Change.SCHEMA, "search", "/tool/cache_control")},
    ),
    "its-type-gone": (lambda a: a["tools"][0].pop("type"), {(Change.SCHEMA, "search", "/tool/type")}),
    "true-for-one": (
        lambda a: a["tools"][0]["function"].update(strict=1),
        {(Change.SCHEMA, "search", "/other/strict")},
    ),
    "false-for-nothing": (
        lambda a: parameters(a)["properties"]["filter"].update(additionalProperties=0),
        {(Change.SCHEMA, "search", "/schema/properties/filter/additionalProperties")},
    ),
    "whole-for-broken": (
        lambda a: parameters(a)["properties"]["filter"]["properties"]["year"].update(maximum=9),
        {(Change.SCHEMA, "search", "/schema/properties/filter/properties/year/maximum")},
    ),
    "minus-nothing": (
        lambda a: parameters(a)["properties"]["filter"]["properties"]["year"].update(minimum=-0.0),
        {(Change.SCHEMA, "search", "/schema/properties/filter/properties/year/minimum")},
    ),
    "no-number": (
        lambda a: parameters(a)["properties"]["filter"]["properties"]["year"].update(maximum=float("nan")),
        {(Change.SCHEMA, "search", "/schema/properties/filter/properties/year/maximum")},
    ),
    "refers-to-itself": (
        lambda a: parameters(a)["properties"].update(query=parameters(a)),
        {(Change.SCHEMA, "search", "/schema/properties/query")},
    ),
    "no-tool": (lambda a: a["tools"].append("delete"), {(Change.ADDED, "?", None)}),
    "no-list": (
        lambda a: a.update(tools=iter(a["tools"])),
        {
            (Change.REMOVED, "search", None),
            (Change.REMOVED, "read", None),
            (Change.REMOVED, "sum", None),
            (Change.ADDED, "?", None),
        },
    ),
}


@pytest.mark.parametrize("when", ["before", "early", "late"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_change_the_tools_is_refused_before_dispatch(way, when):
    change, expected = WAYS[way]
    told: list[Any] = []
    surface = Surface.admit(tools(), told.append)
    asked = request()
    # Without any hook, by a hook, and by what prepares the request after the early check.
    hooks = {"before": {}, "early": {"early": change}, "late": {"late": change}}[when]
    if when == "before":
        change(asked)
    runtime = Runtime(
        surface, **{name: lambda a, change=change: change(a) and None for name, change in hooks.items()}
    )
    with pytest.raises(PreDispatchRejected) as refused:
        runtime.call(asked)
    rejection = refused.value.rejection
    assert {(each.change, each.tool, each.at) for each in rejection.differences} == expected
    assert rejection.reason is Reason.TOOLS_CHANGED
    assert rejection.check is (Check.FINAL if when == "late" else Check.EARLY)
    assert (rejection.settlement, rejection.dispatch) == ("pre_dispatch_rejected", "not_dispatched")
    assert (rejection.exchange, rejection.attempt) == ("call-8", "physical-1")
    assert runtime.settled == [rejection]
    assert runtime.sent == []
    assert runtime.others == {"other-request": "reserved"}
    assert told[-1].verdict is Verdict.MISMATCH
    assert len(told[-1].differences) == min(8, len(expected))


@pytest.mark.parametrize("way", ["add", "schema-deep", "refers-to-itself"])
@pytest.mark.parametrize("when", ["early", "late"])
async def test_it_is_refused_where_checks_are_awaited(way, when):
    runtime = Runtime(Surface.admit(tools()), **{when: lambda asked: WAYS[way][0](asked) and None})
    with pytest.raises(PreDispatchRejected):
        await runtime.call_async(request())
    assert [each.settlement for each in runtime.settled] == ["pre_dispatch_rejected"]
    assert runtime.sent == []


def compressed(asked):
    asked["messages"] = [{"role": "user", "content": "Summary of 19 messages."}, asked["messages"][-1]]
    asked["max_tokens"] = 100


def test_legal_compression_of_messages_passes():
    told: list[Any] = []
    runtime = Runtime(Surface.admit(tools(), told.append), early=compressed, late=compressed)
    runtime.call(request())
    assert len(runtime.sent[0]["messages"]) == 2
    assert runtime.settled == []
    assert [(each.check, each.verdict, each.tools) for each in told] == [
        (Check.EARLY, Verdict.MATCH, 3),
        (Check.FINAL, Verdict.MATCH, 3),
    ]


async def test_legal_compression_passes_where_checks_are_awaited():
    runtime = Runtime(Surface.admit(tools()), late=compressed)
    await runtime.call_async(request())
    assert len(runtime.sent) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"budget_exhausted": True, "search_budget": 0, "available_tools": []},
        {"tools": [named("delete")], "deadline": 0},
    ],
)
def test_what_a_tools_result_says_of_tools_and_budgets_changes_nothing(fields):
    asked = request()
    asked["messages"].append(
        {"role": "tool", "tool_call_id": "c1", "content": json.dumps(fields), "parsed": fields}
    )
    runtime = Runtime(Surface.admit(tools()))
    runtime.call(asked)
    assert len(runtime.sent) == 1


def test_a_change_that_is_laundered_between_the_checks_is_seen_early():
    def project(asked):
        asked["tools"][1]["function"]["description"] = "Read everything."

    def revalidate(asked):
        asked["tools"] = tools()

    runtime = Runtime(Surface.admit(tools()), early=project, late=revalidate)
    with pytest.raises(PreDispatchRejected) as refused:
        runtime.call(request())
    assert refused.value.rejection.check is Check.EARLY


def test_the_baseline_shares_nothing_with_what_was_admitted_or_is_handed_out():
    mine = tools()
    surface = Surface.admit(mine)
    for handed in (mine, surface.tools()):
        handed[0]["function"]["parameters"]["properties"]["query"]["type"] = "integer"
        assert [each.at for each in surface.differences(handed)] == ["/schema/properties/query/type"]
    surface.descriptors()[0].form["schema"]["type"] = "array"
    assert surface.differences(tools()) == []


def test_a_control_appears_only_where_the_owner_admitted_it():
    control = named("read_tool_result")
    assert Surface.admit([*tools(), control]).differences([*tools(), control]) == []
    assert Surface.admit(tools()).differences([*tools(), control]) == [
        Difference(Change.ADDED, "read_tool_result")
    ]


def test_a_request_without_tools_stays_one():
    surface = Surface.admit([])
    assert surface.differences({"messages": []}) == []
    assert surface.differences(request())[0].change is Change.ADDED


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(each) for each in value] if isinstance(value, list) else value


class Word(StrEnum):
    OBJECT = "object"


def test_what_is_the_same_json_is_the_same():
    surface = Surface.admit(tools())
    assert surface.differences(reversed_keys(tools())) == []
    assert surface.differences(json.loads(json.dumps(tools()))) == []
    assert surface.differences(tuple(tools())) == []
    assert surface.differences([OrderedDict(each) for each in tools()]) == []
    other = tools()
    other[0]["function"]["parameters"]["type"] = Word.OBJECT
    other[0]["function"]["parameters"]["required"] = ("query", "filter")
    assert surface.differences(other) == []


class Lying(dict[Any, Any]):
    def items(self):
        return {"name": "delete"}.items()

    def __eq__(self, other):
        return True

    __hash__ = None


class LyingText(str):
    __slots__ = ()

    def __eq__(self, other):
        return True

    def __str__(self):
        return "search"

    def __len__(self):
        return 6

    __hash__ = str.__hash__


class LyingKey(LyingText):
    __slots__ = ()

    def __hash__(self):
        return hash("type")


class Pretending:
    @property  # type: ignore[misc] # that is what is wrong with it
    def __class__(self) -> Any:
        return str

    def __eq__(self, other):
        return True

    __hash__ = None  # type: ignore[assignment]


def test_what_only_says_that_it_is_equal_is_not():
    surface = Surface.admit(tools())
    lying = tools()
    lying[1]["function"] = Lying(lying[1]["function"])
    assert surface.differences(lying) != []
    named_so = tools()
    named_so[0]["function"]["name"] = LyingText("delete")
    assert surface.differences(named_so) == [Difference(Change.RENAMED, "search", now="delete")]
    key = tools()
    schema = key[1]["function"]["parameters"]
    key[1]["function"]["parameters"] = {LyingKey("kind"): schema["type"], "properties": schema["properties"]}
    assert key == tools()
    assert {each.at for each in surface.differences(key)} == {"/schema/type", "/schema/kind"}
    assert not comparing.same({"type": 1}, {LyingKey("kind"): 1})
    pretending = tools()
    pretending[0]["function"]["description"] = Pretending()
    assert surface.differences(pretending) == [Difference(Change.DESCRIPTION, "search")]


def test_what_explodes_is_refused_in_bounds():
    layers: object = {"type": "object"}
    for _ in range(60):
        layers = {f"p{at}": layers for at in range(10)}
    exploding = tools()
    exploding[0]["function"]["parameters"] = layers
    assert Surface.admit(tools()).differences(exploding) != []
    with pytest.raises(Unreadable, match="too many values"):
        Surface.admit(exploding)


def test_hundreds_of_renamed_tools_are_not_all_held_against_each_other():
    def numbered(first):
        many = [named(f"t{at}") for at in range(first, first + 400)]
        for at, each in enumerate(many):
            each["function"]["parameters"] = {"enum": [*range(100), first + at]}
        return many

    surface = Surface.admit(numbered(0))
    began = time.thread_time()
    assert len(surface.differences(numbered(400))) == 800
    # Two hundred thousand comparisons to the last value of each took over ten seconds.
    assert time.thread_time() - began < 2


def circle():
    schema: dict[str, object] = {"type": "object"}
    schema["self"] = [schema]
    return schema


def deep(levels):
    schema: dict[str, object] = {}
    for _ in range(levels):
        schema = {"p": schema}
    return schema


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([named("a"), named("a")], "descriptor 1 has the name"),
        ([{"type": "function", "function": {"description": "no name"}}], "descriptor 0 is no tool"),
        ([named("")], "descriptor 0 is no tool"),
        (["a"], "descriptor 0 is no tool"),
        ("tools", "descriptor 0 is no tool"),
        ([{"name": "a", "input_schema": circle()}], "tool 0 holds something that refers to itself"),
        ([named("a"), {"name": "b", "input_schema": deep(1000)}], "tool 1 holds more than 64 levels"),
        (
            [{"name": "a", "input_schema": {"maximum": float("nan")}}],
            "tool 0 holds a number that is not finite",
        ),
        ([{"name": "a", "input_schema": {"maximum": float("-inf")}}], "not finite"),
        ([{"name": "a", "input_schema": {"maximum": 10**2000}}], "a number too large"),
        ([{"name": "a", "input_schema": {1: "a"}}], "a key that is no text"),
        ([{"name": "a", "input_schema": {"enum": {1, 2}}}], "something that is not JSON"),
        ([{"name": "a", "description": "x" * (8 * 2**20 + 1)}], "too much text"),
        ([{"name": "a", "input_schema": {"enum": [0] * 200_001}}], "too many values"),
        ([named(f"t{at}") for at in range(1025)], "more than 1024 tools"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_a_baseline_is_refused_with_its_reason(given, why):
    with pytest.raises(Unreadable, match=why) as refused:
        Surface.admit(given)
    assert len(str(refused.value)) < 100


FORMATS = {
    "chat": lambda name, text, schema: {
        "type": "function",
        "function": {"name": name, "description": text, "parameters": schema},
    },
    "functions": lambda name, text, schema: {"name": name, "description": text, "parameters": schema},
    "responses": lambda name, text, schema: {
        "type": "function",
        "name": name,
        "description": text,
        "parameters": schema,
    },
    "anthropic": lambda name, text, schema: {"name": name, "description": text, "input_schema": schema},
    "anthropic-custom": lambda name, text, schema: {
        "type": "custom",
        "name": name,
        "description": text,
        "input_schema": schema,
    },
    "gemini": lambda name, text, schema: {
        "functionDeclarations": [{"name": name, "description": text, "parametersJsonSchema": schema}]
    },
    "bedrock": lambda name, text, schema: {
        "toolSpec": {"name": name, "description": text, "inputSchema": {"json": schema}}
    },
    "mcp": lambda name, text, schema: {"name": name, "description": text, "inputSchema": schema},
}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


# Where the fields are called the same, a type too much or too little is a change, and no other format.
ALIKE = [{"functions", "responses"}, {"anthropic", "anthropic-custom"}]


@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("admit", FORMATS)
def test_the_same_tool_in_another_providers_format_is_the_same(admit, write):
    surface = Surface.admit([FORMATS[admit]("search", "Search.", SCHEMA)])
    (descriptor,) = surface.descriptors()
    assert (descriptor.name, descriptor.description, descriptor.schema) == ("search", "Search.", SCHEMA)
    expected = [Difference(Change.SCHEMA, "search", at="/tool/type")] if {admit, write} in ALIKE else []
    assert surface.differences([FORMATS[write]("search", "Search.", SCHEMA)]) == expected


@pytest.mark.parametrize(
    ("admit", "write"),
    [each for each in product(FORMATS, FORMATS) if set(each) not in ALIKE],
    ids=lambda name: name,
)
def test_a_change_in_another_providers_format_is_named_alike(admit, write):
    surface, write = Surface.admit([FORMATS[admit]("search", "Search.", SCHEMA)]), FORMATS[write]
    other = copy.deepcopy(SCHEMA) | {"properties": {"q": {"type": "integer"}}}
    assert surface.differences([write("search", "Search.", other)]) == [
        Difference(Change.SCHEMA, "search", at="/schema/properties/q/type")
    ]
    assert surface.differences([write("find", "Search.", SCHEMA)]) == [
        Difference(Change.RENAMED, "search", now="find")
    ]
    assert surface.differences([write("search", "Find.", SCHEMA)]) == [
        Difference(Change.DESCRIPTION, "search")
    ]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"tools": tools()}, ("search", "read", "sum")),
        ({"functions": [named("old")["function"]]}, ("old",)),
        ({"toolConfig": {"tools": [FORMATS["bedrock"]("a", "b", {}), {"cachePoint": {"type": "default"}}]}},
         ("a", "cachePoint")),
        ({"config": {"tools": [{"functionDeclarations": [named("a")["function"], named("b")["function"]],
                                "googleSearch": {}}]}}, ("a", "b", "googleSearch")),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, ("mcp",)),
        ({"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "docs"}]}, ("docs",)),
        ({"tools": [named("a")], "extra_body": {"tools": [named("b")]}}, ("a", "b")),
        ({}, ()),
    ],
)  # fmt: skip
def test_all_that_shows_tools_to_the_model_is_found_in_a_request(asked, names):
    surface = Surface.admit(asked)
    assert surface.names == names
    assert surface.differences(asked) == []


@pytest.mark.parametrize("name", ["config", "extra_body", "toolConfig"])
def test_what_may_hold_tools_and_cannot_be_looked_into_is_refused(name):
    deep: dict[str, Any] = {}
    deep[name] = deep
    for held in (object(), OrderedDict(tools=[named("sneaked")]), deep):
        assert Surface.admit([]).differences({"messages": [], name: held}) != []


def test_the_very_list_of_a_request_is_looked_at():
    asked = request()
    assert tools_of(asked) is asked["tools"]


def test_a_moved_tool_is_named_and_not_those_that_it_passed():
    many = [named(f"t{at}") for at in range(10)]
    moved = [many[9], *many[:9]]
    assert Surface.admit(many).differences(moved) == [Difference(Change.REORDERED, "t9")]


def test_names_of_facts_are_short_and_whole_facts_too():
    told: list[Any] = []
    many = [named(f"{at:0200}") for at in range(100)]
    guard = Guard(Surface.admit([], told.append), "call-8", lambda _: None)
    with pytest.raises(PreDispatchRejected) as refused:
        guard.check_early(many)
    assert len(refused.value.rejection.differences) == 100
    (fact,) = told
    assert len(encode(fact)) <= 1024
    assert len(fact.differences) + fact.more == 100
    assert fact.differences[0].tool.endswith("…")


@pytest.mark.parametrize("name", ["\ud800", "\x00", "?", "é" * 64])
def test_odd_names_are_facts_too(name):
    told: list[Any] = []
    guard = Guard(Surface.admit(tools(), told.append), "call-8", lambda _: None)
    with pytest.raises(PreDispatchRejected):
        guard.check_early([*tools(), named(name)])
    assert encode(told[0])
    assert isinstance(told[0], SurfaceFact)


# -- any single change --------------------------------------------------------------------------------------------

SCHEMAS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, -0.0, 1.0, 2.5])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
DESCRIPTORS = st.builds(
    lambda write, name, text, schema: write(name, text, schema),
    st.sampled_from([FORMATS[name] for name in ("chat", "responses", "anthropic", "bedrock")]),
    st.text("abcdefgh", min_size=1, max_size=6),
    st.text(max_size=6),
    st.dictionaries(st.text(max_size=5), SCHEMAS, max_size=4),
)
SETS = st.lists(DESCRIPTORS, min_size=1, max_size=6, unique_by=lambda tool: body(tool)["name"])


def body(tool):
    return tool.get("function") if isinstance(tool.get("function"), dict) else tool.get("toolSpec", tool)


def schema_of(tool):
    fields = body(tool)
    where = next(name for name in ("parameters", "input_schema", "inputSchema") if name in fields)
    return fields[where]["json"] if where == "inputSchema" else fields[where]


def every_place(value, at=""):
    """Give every place of a tree: the container, the key or index in it, and the pointer."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        pointer = f"{at}/{key.replace('~', '~0').replace('/', '~1') if isinstance(key, str) else key}"
        yield value, key, pointer
        yield from every_place(each, pointer)


@given(SETS, st.data())
def test_any_single_change_of_a_schema_is_named_at_its_place(admitted, data):
    surface = Surface.admit(admitted)
    presented = copy.deepcopy(admitted)
    tool = data.draw(st.sampled_from(presented))
    places = list(every_place(schema_of(tool)))
    if not places:
        return
    within, key, pointer = data.draw(st.sampled_from(places))
    before = within[key]
    after = data.draw(
        SCHEMAS.filter(lambda value: json.dumps(value, sort_keys=True) != json.dumps(before, sort_keys=True))
    )
    within[key] = after
    found = surface.differences(presented)
    assert found
    assert {each.tool for each in found} == {body(tool)["name"]}
    assert all(
        each.change is Change.SCHEMA and str(each.at).startswith(f"/schema{pointer}") for each in found
    )
    within[key] = before
    assert surface.differences(presented) == []


@given(SETS, st.data())
def test_any_single_change_of_the_set_is_named(admitted, data):
    surface = Surface.admit(admitted)
    presented = copy.deepcopy(admitted)
    at = data.draw(st.integers(0, len(presented) - 1))
    name = body(presented[at])["name"]
    way = data.draw(st.sampled_from(["add", "remove", "rename", "move", "describe", "field"]))
    if way == "add":
        presented.insert(at, named("new"))
        expected = [Difference(Change.ADDED, "new")]
    elif way == "remove":
        del presented[at]
        expected = [Difference(Change.REMOVED, name)]
    elif way == "rename":
        body(presented[at])["name"] = "new"
        expected = [Difference(Change.RENAMED, name, now="new")]
    elif way == "describe":
        body(presented[at])["description"] += "."
        expected = [Difference(Change.DESCRIPTION, name)]
    elif way == "field":
        body(presented[at])["extra"] = True
        expected = [Difference(Change.SCHEMA, name, at="/other/extra")]
    else:
        presented.insert(0, presented.pop(at))
        expected = [Difference(Change.REORDERED, name)] if at else []
    found = surface.differences(presented)
    # Of two neighbours that changed places, either was moved.
    assert found == expected or (way, at, found) == (
        "move",
        1,
        [Difference(Change.REORDERED, body(admitted[0])["name"])],
    )


@given(SETS, SETS)
def test_there_is_no_difference_exactly_where_the_json_is_the_same(admitted, presented):
    def written(tools):
        return json.dumps(tools, sort_keys=True)

    same = written(admitted) == written(presented)
    layouts = [
        [each.layout for each in Surface.admit(given).descriptors()] for given in (admitted, presented)
    ]
    if same or layouts[0] == layouts[1]:
        assert (Surface.admit(admitted).differences(presented) == []) is same


@given(SCHEMAS, SCHEMAS)
def test_the_fast_and_the_close_look_agree(one, other):
    assert comparing.same(one, other) is (next(comparing.unlike(one, other, ""), None) is None)
    assert comparing.same(one, copy.deepcopy(one))
