"""Paths, queries, methods and JSON documents made from what /schema says, and from what it does not say."""

import json
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from policies.kinds import Role
from tests.support.answers import sane
from tests.support.capture import Capturing
from tests.support.fuzzing import AWKWARD, JSON_VALUES, LONG, QUERIES, SEGMENTS, SMOKE, TEXTS, WHOLE, damaged
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

METHODS: Final = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS")
WORDS: Final = st.sampled_from(
    [
        "1h",
        "1d",
        "2d",
        "0.5",
        "allow",
        "opt_out",
        "normal",
        "temporary",
        "x-1",
        "s-1",
        "doc-1",
        "auditor",
        "reviewer",
        "withdrawn",
    ]
)
# Where a schema leaves names open: sessions, labels, and what a policy holds.
OPEN_NAMES: Final = st.sampled_from(["s-1", "team", "kinds", "sampling", "retention", "limits"])
NUMBERS: Final = st.one_of(WHOLE, st.integers(1, 10))
SIMPLE: Final[dict[str, st.SearchStrategy[Any]]] = {
    "string": st.one_of(WORDS, TEXTS),
    "integer": NUMBERS,
    "number": NUMBERS,
    "boolean": st.booleans(),
    "null": st.none(),
}
Schema = dict[str, Any]


def like(schema: Schema, components: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values as a schema says, with something else in their place now and then."""
    if "$ref" in schema:
        return like(components[schema["$ref"].rpartition("/")[2]], components, depth)
    found = _like(schema, components, depth)
    return (
        found if depth == 0 else st.integers(0, 9).flatmap(lambda dice: JSON_VALUES if dice == 0 else found)
    )


def _like(schema: Schema, components: Schema, depth: int) -> st.SearchStrategy[Any]:
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        return st.one_of([like(each, components, depth + 1) for each in choices])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    form = schema.get("type")
    if form == "object":
        return _object(schema, components, depth)
    if form == "array":
        if places := schema.get("prefixItems"):
            return st.tuples(*(like(each, components, depth + 1) for each in places)).map(list)
        return st.lists(like(schema.get("items", {}), components, depth + 1), max_size=4)
    return SIMPLE.get(str(form), JSON_VALUES)


def _object(schema: Schema, components: Schema, depth: int) -> st.SearchStrategy[Any]:
    fields = {name: like(each, components, depth + 1) for name, each in schema.get("properties", {}).items()}
    if fields:
        required = {name: fields.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=fields)
    inner = schema.get("additionalProperties")
    values = like(inner, components, depth + 1) if isinstance(inner, dict) else JSON_VALUES
    return st.dictionaries(OPEN_NAMES | TEXTS, values, max_size=4)


class Calls:
    """The calls that there are, and a key of each role to make them with."""

    def __init__(
        self, way: Journey, runtime: Capturing, document: Schema, keys: dict[Role, dict[str, str]]
    ) -> None:
        self.way = way
        self.runtime = runtime
        self.keys = keys
        self.components = document["components"]["schemas"]
        self.all = [
            (method.upper(), path, operation)
            for path, item in sorted(document["paths"].items())
            for method, operation in sorted(item.items())
        ]

    @property
    def with_documents(self) -> list[tuple[str, str, Schema]]:
        found = []
        for method, path, operation in self.all:
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                found.append((method, path, content["application/json"]["schema"]))
        return found

    def key_for(self, path: str, role: Role | None = None) -> dict[str, str]:
        """The key that reaches a call, unless another is named."""
        if role is not None:
            return self.keys[role]
        writes = path.startswith("/v1/runs")
        return self.runtime.headers() if writes else self.keys[Role.OPERATOR]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calls(standing: Journey) -> Calls:
    runtime = await standing.runtime(
        "fuzzed", limits={"run_parts": 100_000}, waiting={"run_parts": 4_000, "run_notes": 4_000}
    )
    keys = {role: await standing.key(role, runtime.scope) for role in Role}
    document = (await standing.client.get("/schema/openapi.json")).json()
    return Calls(standing, runtime, document, keys)


@st.composite
def filled(draw: st.DrawFn, template: str) -> str:
    """A path with something in each of its places."""
    pieces = []
    for piece in template.split("/"):
        usual = {"{run}": "fuzzed", "{kind}": "logical-request"}.get(piece, "x-1")
        pieces.append(draw(st.one_of(st.just(usual), SEGMENTS)) if piece.startswith("{") else piece)
    return "/".join(pieces)


@given(data=st.data())
@SMOKE
async def test_any_path_and_query_is_answered(calls: Calls, data: st.DataObject):
    await walked(calls, data)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(data=st.data())
@LONG
async def test_any_path_and_query_is_answered_at_length(calls: Calls, data: st.DataObject):
    await walked(calls, data)


@given(data=st.data())
@SMOKE
async def test_any_document_is_answered(calls: Calls, data: st.DataObject):
    await documented(calls, data)


@pytest.mark.long
@pytest.mark.timeout(600)
@given(data=st.data())
@LONG
async def test_any_document_is_answered_at_length(calls: Calls, data: st.DataObject):
    await documented(calls, data)


async def walked(calls: Calls, data: st.DataObject) -> None:
    """Call something with whatever in its path and query, by whatever method, with whatever key."""
    usual, template, operation = data.draw(st.sampled_from(calls.all))
    path = data.draw(st.one_of(filled(template), AWKWARD.map(lambda text: "/v1/runs/" + text)))
    method = data.draw(st.one_of(st.just(usual), st.sampled_from(METHODS)))
    role = data.draw(st.sampled_from([None, *Role]))
    answer = await asked(calls.way, method, path, calls.key_for(template, role), params=data.draw(QUERIES))
    if answer is not None:
        # Another method at that path is another operation, with statuses of its own.
        sane_or_documented(answer, operation if answer.request.method == usual else {})


async def documented(calls: Calls, data: st.DataObject) -> None:
    """Send a document that is nearly what the call takes."""
    method, template, schema = data.draw(st.sampled_from(calls.with_documents))
    whole = like(schema, calls.components).map(lambda value: json.dumps(value).encode())
    body = data.draw(
        st.one_of(whole, damaged(whole), JSON_VALUES.map(lambda value: json.dumps(value).encode()))
    )
    path = template.replace("{run}", data.draw(st.sampled_from(["fuzzed", "r-2", "r-3"]))).replace(
        "{name}", calls.runtime.scope.name
    )
    for place in ("{exchange}", "{attempt}", "{source}", "{key_id}", "{erasure}"):
        path = path.replace(place, "x-1")
    headers = {**calls.key_for(template), "Content-Type": "application/json"}
    answer = await asked(calls.way, method, path, headers, content=body)
    if answer is not None:
        sane(answer)
    await calls.way.write()


async def asked(
    way: Journey, method: str, path: str, headers: dict[str, str], **more: Any
) -> httpx.Response | None:
    """Make a call; None where the client itself will not send it."""
    try:
        request = way.client.build_request(method, path, headers=headers, **more)
    except (httpx.InvalidURL, UnicodeEncodeError):
        return None
    return await way.client.send(request)


def sane_or_documented(answer: httpx.Response, operation: Schema) -> None:
    """Check an answer, and that good news is of a status that the document names."""
    if sane(answer) is None and operation and answer.request.method not in ("HEAD", "OPTIONS"):
        assert (
            str(answer.status_code) in operation["responses"] or answer.status_code == httpx.codes.NO_CONTENT
        )
