"""Captures are served without the framework's layers: what they answer, log and count is the same as with them."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from store import logging
from store.api.app import Api, create_app
from store.api.problems import CAPTURES
from tests.support.api import bearer, settings_for
from tests.support.capture import OUTPUT, REQUEST, Capturing, capturing, head, speak

PART = f"/v1/runs/r/exchanges/x/attempts/a/parts/{REQUEST}"
# Of each answer its own.
OWN = ("exchange_id", "receipt", "received_at")


@pytest.fixture
def app(keys_dir: Path) -> Api:
    return create_app(settings_for("postgresql://127.0.0.1:1/none", "redis://127.0.0.1:1", keys_dir))


@pytest.fixture
async def runtime(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Capturing]:
    async with capturing(database_url, redis_url, keys_dir, {"kinds": [REQUEST]}) as found:
        yield found


def found(app: Api, method: str, path: str) -> str | None:
    scope: Any = {"type": "http", "method": method, "path": path}
    direct = app._short_ways.find(scope)
    return None if direct is None else str(direct._handler.operation_id)


def test_every_call_that_captures_goes_the_short_way(app: Api):
    marked = {
        handler.operation_id
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if handler.opt.get(CAPTURES)
    }
    served = {
        found(app, "PUT", PART),
        found(app, "POST", "/v1/runs/r/frames"),
        found(app, "PUT", "/v1/runs/r/exchanges/x/attempts/a"),
        found(app, "POST", "/v1/runs/r/gaps"),
        found(app, "POST", "/v1/runs/r/facts"),
    }
    assert served == marked


def test_content_is_read_the_short_way(app: Api):
    assert found(app, "GET", "/v1/parts/01a229f9-cde4-72a0-899b-35a8069eeb44/content") == "getContent"
    assert found(app, "GET", f"{PART}/content") == "getContentByIdentity"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", PART + "/"),
        ("PUT", PART.replace("/x/", "//")),
        ("PUT", PART + "/more"),
        ("PUT", "/" + PART),
        ("GET", PART),
        ("OPTIONS", PART),
        ("PUT", "/v1/runs/r"),
        ("POST", "/v1/runs/r/close"),
    ],
)
def test_whatever_else_is_the_framework_s(app: Api, method: str, path: str):
    assert found(app, method, path) is None


def test_the_scope_says_what_the_framework_would_say(app: Api):
    scope: Any = {"type": "http", "method": "PUT", "path": PART}
    assert app._short_ways.find(scope) is not None
    _, handler, path, parameters, template = app.asgi_router.handle_routing(path=PART, method="PUT")
    assert (scope["route_handler"], scope["path"], scope["path_params"], scope["path_template"]) == (
        handler,
        path,
        parameters,
        template,
    )


ASKED: dict[str, tuple[str, dict[str, str], int]] = {
    "queued": (REQUEST, {}, 202),
    "not admitted": (OUTPUT, {}, 403),
    "opted out": (REQUEST, {"Custody-Content": "no"}, 403),
    "malformed": (REQUEST, {"Content-Digest": "sha-256=:no"}, 400),
    "damaged": (REQUEST, {"Content-Digest": f"sha-256=:{'A' * 43}=:"}, 400),
    "no kind": ("thoughts", {}, 400),
    "nobody": (REQUEST, bearer("ck_runtime_0123456789abcdef_" + "a" * 43), 401),
    "a host with a name before it": (REQUEST, {"Host": "a@b"}, 400),
}


@pytest.mark.parametrize("case", ASKED)
async def test_both_ways_answer_and_log_the_same(runtime: Capturing, case: str):
    kind, headers, status = ASKED[case]
    lines = io.StringIO()
    logging.configure(stream=lines)
    try:
        short = await asked(runtime, runtime.path("x-1", kind=kind), headers)
        # A slash at the end is left to the framework.
        usual = await asked(runtime, runtime.path("x-2", kind=kind) + "/", headers)
    finally:
        logging.configure()

    assert short.status_code == usual.status_code == status
    assert short.headers.keys() == usual.headers.keys()
    assert of_both(short) == of_both(usual)
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    for line in (first, second):
        del line["ts"], line["duration_ms"]
    assert first == second


async def test_a_host_that_can_be_none_is_refused_both_ways(runtime: Capturing):
    for path in (runtime.path(), runtime.path() + "/"):
        heard = await speak(
            runtime.api.port,
            head("PUT", path, runtime.headers(Content_Length="2")).replace(b"Host: custody", b'Host: a"b'),
        )
        assert heard.status == 400


async def asked(runtime: Capturing, path: str, headers: dict[str, str]) -> httpx.Response:
    return await runtime.api.client.put(path, content=b"{}", headers={**runtime.headers(), **headers})


def of_both(answer: httpx.Response) -> dict[str, Any]:
    """Return what must not depend on the way."""
    said: dict[str, Any] = answer.json()
    receipt = said.pop("receipt", None)
    said |= receipt if isinstance(receipt, dict) else {}
    return {name: value for name, value in said.items() if name not in OWN}
