"""What a fault looks like over the wire: one shape, no cause, no value, and never a body left in the way."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar import Request

from policies.kinds import Role
from policies.reasons import READ_STATUS, STATUS, Reason
from store.api import problems
from store.errors import (
    Conflict,
    Corrupt,
    CustodyError,
    Gone,
    Malformed,
    NotFound,
    RowRefused,
    Unauthenticated,
    Unavailable,
)
from tests.support.api import Api, bearer, problem, running, settings_for


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir, body_deadline="300ms")) as api:
        yield api


class _Handler:
    opt: dict[str, Any] = {}  # noqa: RUF012 - stands for a handler that captures nothing


class _Captures:
    opt: dict[str, Any] = {problems.CAPTURES: True}  # noqa: RUF012 - stands for a handler that captures


def answer(error: Exception, method: str = "PUT", handler: type = _Handler) -> dict[str, Any]:
    """Return the problem that an error becomes."""
    scope: Any = {"type": "http", "method": method, "state": {}, "headers": [], "route_handler": handler}
    handlers = [problems.HANDLERS[each] for each in type(error).__mro__ if each in problems.HANDLERS]
    response = handlers[0](Request(scope), error)
    found: dict[str, Any] = json.loads(response.content)
    assert found["status"] == response.status_code
    return found


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_that_is_an_answer_has_one_status(reason: Reason):
    written, read = answer(CustodyError(reason)), answer(CustodyError(reason), "GET")

    expected = STATUS.get(reason, READ_STATUS.get(reason, 500))
    assert written["status"] == expected
    assert read["status"] == READ_STATUS.get(reason, expected)
    assert written["type"] in (f"urn:custody:reason:{reason.value}", "urn:custody:reason:internal")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("CANARY-7f3a"),
        KeyError("CANARY-7f3a"),
        RowRefused("CANARY-7f3a"),
        CustodyError(Reason.WRITE_FAILED, "CANARY-7f3a"),
        CustodyError(Reason.UNACCOUNTED, "CANARY-7f3a"),
    ],
)
def test_what_is_not_in_the_table_is_internal_and_says_nothing_else(error: Exception):
    found = answer(error)

    assert (found["status"], found["reason"], found["retryable"]) == (500, "internal", False)
    assert "CANARY" not in json.dumps(found)


def test_of_an_outage_only_the_reason_is_told():
    found = answer(Unavailable(Reason.STORE_UNAVAILABLE, cause="ConnectionRefusedError"))

    assert "ConnectionRefused" not in json.dumps(found)


@pytest.mark.parametrize("reason", [Reason.QUEUE_UNAVAILABLE, Reason.STORE_UNAVAILABLE])
def test_an_outage_is_worth_another_try_only_to_who_waits(reason: Reason):
    assert answer(Unavailable(reason))["retryable"] is True
    assert answer(Unavailable(reason), handler=_Captures)["retryable"] is False


def test_bounds_are_never_worth_another_try():
    for reason in (
        Reason.CAPACITY_EXCEEDED,
        Reason.RUN_PART_LIMIT,
        Reason.RUN_BYTE_LIMIT,
        Reason.PART_TOO_LARGE,
    ):
        assert answer(CustodyError(reason))["retryable"] is False


def test_what_is_destroyed_is_gone():
    assert answer(Gone(Reason.SOURCE_UNAVAILABLE), "GET")["status"] == 410
    assert answer(CustodyError(Reason.SOURCE_UNAVAILABLE), "GET")["status"] == 403


def test_the_errors_of_the_service_keep_their_reasons():
    found = [
        answer(error, "GET")["reason"]
        for error in (NotFound(), Malformed(), Unauthenticated(), Conflict(Reason.IDENTITY_CONFLICT),
                      Corrupt(Reason.KEY_LOST))
    ]  # fmt: skip

    assert found == ["not_found", "malformed_request", "unauthenticated", "identity_conflict", "key_lost"]


WITH_CREDENTIALS = [
    "/v1/keys?token=x",
    "/v1/keys?Access_Token=x",
    "/v1/keys?limit=1&api_key=x",
    "/v1/keys?key=",
    "/v1/keys?authorization=Bearer+x",
    "/livez?x=ck_runtime_0123456789abcdef_" + "A" * 43,
    "/v1/keys/ck_runtime_0123456789abcdef_" + "A" * 43 + "/revoke",
    "/v1/keys?" + "&".join(f"a{n}=1" for n in range(100)),
]


async def test_credentials_in_a_url_are_refused(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))
    for path in WITH_CREDENTIALS:
        method = "POST" if path.endswith("revoke") else "GET"
        response = await api.client.request(method, path, headers=operator)

        assert (response.status_code, problem(response)["reason"]) == (400, "malformed_request"), path
    userinfo = await api.client.get("/livez", headers={"Host": "user:secret@here"})
    assert problem(userinfo)["reason"] == "malformed_request"


async def test_what_the_framework_refuses_has_the_same_shape(api: Api):
    for method, path, status, reason in (
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/runs/a/b/c", 404, "not_found"),
        ("DELETE", "/v1/keys", 405, "malformed_request"),
    ):
        response = await api.client.request(method, path)

        assert (response.status_code, problem(response)["reason"]) == (status, reason), path
        assert response.headers.get("allow") == ("GET, OPTIONS, POST" if status == 405 else None)


async def test_validation_names_the_parameter_and_never_the_value(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))

    wrong = [
        {"role": "CANARY-7f3a"},
        {"role": "runtime", "CANARY": 1},
        {"role": "runtime", "clearances": ["x", 7]},
    ]
    answers = [await api.client.post("/v1/keys", json=each, headers=operator) for each in wrong]

    said = [problem(each)["detail"] for each in answers]
    assert said == [f"the body is not as /schema says{where}" for where in (": role", "", ": clearances[1]")]
    assert [each.status_code for each in answers] == [400, 400, 400]


async def test_a_body_that_is_refused_unread_closes_the_connection(api: Api):
    refused = await api.client.put("/v1/runs/r", json={})
    bodiless = await api.client.get("/v1/keys")

    assert (refused.status_code, refused.headers["connection"]) == (401, "close")
    assert "connection" not in bodiless.headers


async def test_with_expect_a_refused_body_is_never_asked_for(api: Api):
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(
        b"PUT /v1/runs/r HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    answered = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()

    assert answered.startswith(b"HTTP/1.1 401 ")


async def test_a_body_that_does_not_come_is_interrupted(api: Api):
    runtime = await api.runtime(await api.scope())
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(
        b"PUT /v1/runs/r HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 20\r\n"
        + f"Authorization: {runtime['Authorization']}\r\n\r\n".encode()
        + b'{"mode":'
    )
    answered = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()

    assert answered.startswith(b"HTTP/1.1 408 ")
    assert b'"interrupted"' in answered


async def test_the_schema_is_complete_and_names_no_other_place(api: Api):
    document = (await api.client.get("/schema/openapi.json")).json()
    page = await api.client.get("/schema")

    operations = [
        operation
        for item in document["paths"].values()
        for method, operation in item.items()
        if method in ("get", "put", "post", "delete", "patch")
    ]
    ids = [operation["operationId"] for operation in operations]
    assert document["openapi"].startswith("3.1")
    assert len(ids) == len(set(ids)) > 10
    assert {"declareRun", "closeRun", "createScope", "createKey", "livez"} <= set(ids)
    # What the framework would name by itself is a handler's name in capitals.
    assert [each for each in ids if not each[0].islower()] == []
    for operation in operations:
        errors = {status for status in operation["responses"] if status[0] in "45"}
        # What says more than a problem does; the framework's own errors are nobody's answer.
        more = {"readyz": {"503"}, "getPartByIdentity": {"404"}, "getRunAction": {"404"}}
        assert errors == more.get(operation["operationId"], set()), operation["operationId"]
        assert list(operation["responses"]["default"]["content"]) == ["application/problem+json"]
    declared = document["paths"]["/v1/runs/{run}"]["put"]["responses"]
    assert set(declared) == {"200", "201", "202", "default"}
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert referred <= document["components"]["schemas"].keys()
    assert page.status_code == 200
    assert re.findall(r"https?://|src=|<script|<link|@import", page.text) == []
    for each in ids:
        assert each in page.text


async def test_every_answer_may_rest_in_no_cache(api: Api):
    operator = bearer(await api.key(Role.OPERATOR))
    answers: list[httpx.Response] = [
        await api.client.get(path, headers=operator)
        for path in (
            "/livez",
            "/readyz",
            "/metrics",
            "/v1/keys",
            "/nowhere",
            "/schema",
            "/schema/openapi.json",
        )
    ]

    assert {each.headers["cache-control"] for each in answers} == {"no-store"}
    assert {each.headers["x-content-type-options"] for each in answers} == {"nosniff"}
