"""What /schema says is OpenAPI, complete and true: every call is made, and every answer is what it says."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from policies.kinds import Role
from policies.reasons import Reason
from store.api import health
from store.errors import Unavailable
from store.queue import Queue
from store.services.readiness import Readiness
from tests.support.api import bearer
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.exporting import published
from tests.support.facts import classic, coverage, delivery, surface
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

METHODS: Final = frozenset({"get", "put", "post", "patch", "delete"})
Document = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(standing: Journey) -> Document:
    found: Document = (await standing.client.get("/schema/openapi.json")).json()
    return found


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, item in document["paths"].items():
        for method in sorted(METHODS & item.keys()):
            yield path, method, item[method]


async def test_it_is_openapi_3_1(document: Document):
    assert document["openapi"].startswith("3.1.")
    assert [fault.message for fault in OpenAPIV31SpecValidator(document).iter_errors()] == []


async def test_every_operation_has_a_name_of_its_own_and_says_what_it_does(document: Document):
    named = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(named) == len(set(named))
    for path, _, operation in operations(document):
        assert re.fullmatch(r"[a-z][A-Za-z]+", operation["operationId"])
        assert operation["summary"]
        assert operation["description"]
        assert len(operation["tags"]) == 1
        told = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
        assert sorted(told) == sorted(re.findall(r"\{(\w+)\}", path))
        refused = operation["responses"]["default"]["content"]["application/problem+json"]["schema"]
        assert refused == {"$ref": "#/components/schemas/Problem"}
        # Only what tells of health may be asked without a key.
        assert (operation.get("security") == [{}]) is (operation["tags"] == ["health"])
    assert set(document["components"]["schemas"]["Reason"]["enum"]) == set(Reason)


async def test_document_and_page_name_no_other_place(way: Journey, document: Document):
    page = await way.client.get("/schema")
    whole = await way.client.get("/schema/openapi.json")
    for answer in (page, whole):
        assert not re.findall(r"(?:https?:)?//[\w.-]+", answer.text)
    assert "<script" not in page.text
    assert not re.findall(r"<(?:link|img|iframe|object|embed|style)\b", page.text)
    for _, _, operation in operations(document):
        assert operation["operationId"] in page.text


class Watch:
    """Compares every answer with the document, and remembers which of its statuses occurred."""

    def __init__(self, document: Document) -> None:
        self.components = {
            "schemas": {name: closed(each) for name, each in document["components"]["schemas"].items()}
        }
        self.calls = [
            (method.upper(), re.compile(_any_of(path) + "/?"), operation)
            for path, method, operation in operations(document)
        ]
        self.seen: set[tuple[str, str]] = set()

    async def see(self, answer: httpx.Response) -> None:
        request = answer.request
        matching = [
            each
            for method, path, each in self.calls
            if method == request.method and path.fullmatch(request.url.path)
        ]
        if not matching:
            return
        # Of two templates that fit, the one without a parameter in that place comes first.
        operation = matching[0]
        status = str(answer.status_code)
        name = operation["operationId"]
        assert status in operation["responses"] or answer.is_error, (name, status)
        told = operation["responses"].get(status, operation["responses"]["default"])
        self.seen.add((name, status))
        await answer.aread()
        self.compare(name, answer, told["content"])

    def compare(self, name: str, answer: httpx.Response, content: Mapping[str, Any]) -> None:
        media_type = answer.headers["content-type"].partition(";")[0]
        known = {each.partition(";")[0]: form["schema"] for each, form in content.items()}
        assert media_type in known, (name, answer.status_code, media_type)
        if media_type.endswith("json"):
            whole = {**known[media_type], "components": self.components}
            faults = [fault.message for fault in OAS31Validator(whole).iter_errors(answer.json())]
            assert not faults, (name, answer.status_code, faults)


def _any_of(path: str) -> str:
    # `path` is the one parameter that holds slashes: a tile's.
    return re.sub(r"\{\w+\}", "[^/]+", path.replace("{path}", ".+"))


def closed(component: Document) -> Document:
    """The same form, in which nothing may be that it does not name."""
    form = deepcopy(component)
    if form.get("type") == "object" and "properties" in form:
        form.setdefault("additionalProperties", False)
    return form


async def test_every_answer_is_what_the_document_says_and_every_status_occurs(
    way: Journey, document: Document, monkeypatch: pytest.MonkeyPatch
):
    watch = Watch(document)
    way.client.event_hooks = {"response": [watch.see]}
    try:
        runtime = await way.runtime(of=await way.scope(), wishes={"labels": {"team": "blue"}, "sources": []})
        await administered(way)
        await captured(way, runtime)
        await read(way, runtime)
        await erased(way, runtime)
        await refused(way, runtime)
        await while_something_is_away(way, runtime, monkeypatch)
    finally:
        way.client.event_hooks = {"response": []}
    promised = {
        (operation["operationId"], status)
        for _, _, operation in operations(document)
        for status in operation["responses"]
        if status != "default"
    }
    assert promised - watch.seen == set()
    assert {name for name, _ in watch.seen} == {
        operation["operationId"] for _, _, operation in operations(document)
    }


async def administered(way: Journey) -> None:
    whole = bearer(await way.api.key(Role.OPERATOR))
    second = bearer(await way.api.key(Role.OPERATOR))
    client = way.client
    await client.post("/v1/scopes", json={"name": "named", "policy": {"sampling": 0.5}}, headers=whole)
    await client.get("/v1/scopes", headers=whole)
    await client.get("/v1/scopes/named", headers=whole)
    await client.put("/v1/scopes/named/policy", json={"policy": {"destroy_after": "never"}}, headers=whole)
    await client.get("/v1/duties", headers=whole)
    await client.get("/v1/completeness", headers=whole)
    await client.get("/v1/queue", headers=whole)

    inside = {**whole, "Custody-Scope": "named"}
    made = (
        await client.post("/v1/keys", json={"role": "reviewer", "clearances": ["legal"]}, headers=inside)
    ).json()
    await client.post(f"/v1/keys/{made['key']['key_id']}/confirm", headers=second)
    auditor = (await client.post("/v1/keys", json={"role": "auditor", "note": "a"}, headers=inside)).json()
    for verb in ("rotate", "retire", "revoke"):
        await client.post(f"/v1/keys/{auditor['key']['key_id']}/{verb}", headers=whole)
    await client.get("/v1/keys", headers=inside)

    for name in ("doc-1", "doc-2"):
        await client.put(f"/v1/sources/{name}", json={"audience": ["legal"]}, headers=inside)
    await client.post("/v1/sources/doc-1/revoke", json={"version": 1}, headers=inside)
    await client.post("/v1/sources/doc-1/restore", json={"version": 1}, headers=inside)
    await client.get("/v1/sources", params={"limit": 1}, headers=inside)
    await client.get("/v1/sources/doc-1", headers=inside)


async def captured(way: Journey, runtime: Capturing) -> None:
    await runtime.put(b"one", Custody_Session="s-1", Custody_Sequence="1")
    await way.write()
    await runtime.put(b"one")
    waiting = asyncio.create_task(runtime.put(b"two", kind=OUTPUT, Prefer="wait=5"))
    while not waiting.done():
        await way.write()
        await asyncio.sleep(0.01)
    await runtime.flush(
        [
            "part",
            {"exchange": "x-2", "attempt": "a-1", "kind": REQUEST, "session": "s-1", "sequence": 2},
            b"three",
        ],
        ["part", {"exchange": "x-3", "attempt": "a-1", "kind": REQUEST}, b"x" * 300_000],
        ["state", {"exchange": "x-2", "attempt": "a-1", "dispatch": "dispatched"}],
        ["gap", {"session": "s-1", "sequences": "3-4", "reason": "client_queue_full"}],
        ["verse", {}],
    )
    state = {"dispatch": "dispatched", "settlement": "completed", "refs": ["trace-1"]}
    await way.client.put(
        f"/v1/runs/{runtime.run}/exchanges/x-1/attempts/a-1", json=state, headers=runtime.headers()
    )
    losses = {"gaps": [{"session": "s-1", "sequences": "5", "reason": "not_observed"}]}
    await way.client.post(f"/v1/runs/{runtime.run}/gaps", json=losses, headers=runtime.headers())
    told = {"facts": [*classic(), surface("x-9"), coverage("file-1", 10), delivery("report", "met"), {}]}
    await way.client.post(f"/v1/runs/{runtime.run}/facts", json=told, headers=runtime.headers())
    await runtime.declare(labels={"team": "blue"})
    await way.write()


async def read(way: Journey, runtime: Capturing) -> None:
    receipts = (await way.client.get(f"/v1/runs/{runtime.run}/receipts?limit=1", headers=runtime.key)).json()
    for path in (f"/v1/receipts/{receipts['items'][0]['receipt']}", runtime.path()):
        await way.client.get(path, headers=runtime.key)
    part = await way.json(runtime.path(), runtime)
    for path, more in (
        ("/v1/parts", {"limit": 1}), (f"/v1/parts/{part['evidence']}", {}),
        (f"/v1/parts/{part['evidence']}/content", {}),
        (f"{runtime.path()}/content", {}), (runtime.path("x-3"), {}), ("/v1/runs", {}), (f"/v1/runs/{runtime.run}", {}),
        (f"/v1/runs/{runtime.run}/gaps", {}), ("/v1/attempts", {"ref": "trace-1"}),
        *((f"/v1/runs/{runtime.run}/{lens}", {"limit": 1}) for lens in ("actions", "surface", "coverage", "delivery")),
        (f"/v1/runs/{runtime.run}/actions/a-1", {}), (f"/v1/runs/{runtime.run}/actions/a-9", {}),
        ("/v1/runs/never/actions/a-1", {}),
    ):  # fmt: skip
        await way.get(path, runtime, params=more)
    for path in ("/v1/accesses", "/v1/actions"):
        await way.json(path, runtime, Role.AUDITOR)
    await published(way.house.duties, way.settings.mirror_dir)
    headers = await way.key(Role.REVIEWER, runtime.scope)
    asked = await way.client.post("/v1/exports", json={"runs": [runtime.run]}, headers=headers)
    await way.get(asked.json()["bundle"], runtime)
    for path in ("/v1/log/checkpoint", "/v1/log/tile/0/000.p/1", f"/v1/log/proof/{part['evidence']}"):
        await way.get(path, runtime)
    for path in ("/livez", "/readyz", "/metrics"):
        await way.client.get(path)


async def erased(way: Journey, runtime: Capturing) -> None:
    operator = await way.key(Role.OPERATOR, runtime.scope)
    asked = (await way.client.post("/v1/erasures", json={"run": runtime.run}, headers=operator)).json()
    await way.client.get(f"/v1/erasures/{asked['erasure_id']}", headers=operator)
    await way.client.get("/v1/erasures", headers=operator)
    kept = {"run": runtime.run, "reason": "matter 7"}
    hold = (await way.client.post("/v1/holds", json=kept, headers=operator)).json()["hold_id"]
    await way.client.get(f"/v1/holds/{hold}", headers=operator)
    await way.client.get("/v1/holds", headers=operator)
    await way.client.post(f"/v1/holds/{hold}/release", headers=operator)
    closing = {"sessions": {"s-1": 5, "s-2": None}}
    await way.client.post(f"/v1/runs/{runtime.run}/close", json=closing, headers=runtime.key)


async def refused(way: Journey, runtime: Capturing) -> None:
    """Problems of several kinds; one with a receipt, and one that says only whether it is recorded."""
    answers = [
        await runtime.put(b"late", exchange="x-9"),
        await runtime.flush(Custody_Session="s-1", Custody_Sequences="8-9"),
        await way.client.get("/v1/parts"),
        await way.client.get("/v1/parts?limit=0", headers=await way.key(Role.AUDITOR, runtime.scope)),
        await way.get("/v1/parts/never", runtime),
        await way.client.put("/v1/runs/r-1", json=[], headers=runtime.key),
    ]
    assert [answer.status_code for answer in answers] == [409, 409, 401, 400, 404, 400]


async def while_something_is_away(way: Journey, runtime: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable(Reason.QUEUE_UNAVAILABLE, cause="ConnectionError")

    async def not_ready(*_: Any) -> Readiness:
        return Readiness(["postgres: does not answer"], None)

    monkeypatch.setattr(Queue, "open_run", away)
    monkeypatch.setattr(Queue, "close_run", away)
    await runtime.declare("another")
    await way.client.post("/v1/runs/another/close", json={"sessions": {}}, headers=runtime.key)
    monkeypatch.setattr(health, "readiness", not_ready)
    assert (await way.client.get("/readyz")).status_code == 503
    monkeypatch.undo()
