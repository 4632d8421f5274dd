"""Keys belong into one header. In an address they are refused, in a body they are content; nowhere are they told."""

import io
from collections.abc import Iterator

import pytest

from policies.kinds import Role
from tests.support.api import problem
from tests.support.capture import head, speak
from tests.support.journey import Journey
from tests.support.logs import heard

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Every line that the service writes meanwhile."""
    with heard() as lines:
        yield lines


NAMES = [
    "token",
    "key",
    "access_token",
    "authorization",
    "api_key",
    "apikey",
    "auth",
    "bearer",
    "secret",
    "password",
    "TOKEN",
    "%74oken",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_credential_in_a_query_is_refused_and_logged_nowhere(
    way: Journey, log: io.StringIO, name: str
):
    """Also beside a good key in its header, and whatever the call."""
    runtime = await way.runtime()
    for method, path in (
        ("GET", "/v1/parts"),
        ("PUT", runtime.path()),
        ("GET", "/livez"),
        ("GET", "/schema"),
    ):
        answer = await way.client.request(
            method,
            f"{path}?{name}=sk-CANARY-7f3a",
            headers=runtime.headers(),
            content=b"{}" if method == "PUT" else None,
        )
        assert problem(answer)["reason"] == "malformed_request"
        assert "CANARY" not in answer.text
    assert "request" in log.getvalue()
    assert "CANARY" not in log.getvalue()


async def test_a_key_of_ours_is_refused_wherever_it_stands_in_an_address(way: Journey, log: io.StringIO):
    """As a parameter of any name, in a path, as a user in the host."""
    runtime = await way.runtime()
    text = runtime.key["Authorization"].removeprefix("Bearer ")
    for path in (
        f"/v1/parts?x={text}",
        f"/v1/parts?{text}",
        f"/v1/runs/{text}",
        f"/v1/parts?x=a%20{text}",
        f"/{text}",
    ):
        answer = await way.client.get(path, headers=await way.key(Role.REVIEWER, runtime.scope))
        assert problem(answer)["reason"] in ("malformed_request", "not_found")
        assert text not in answer.text
    named = head("GET", "/livez", {"Authorization": f"Bearer {text}", "Connection": "close"})
    spoken = await speak(way.api.port, named.replace(b"Host: custody", f"Host: user:{text}@custody".encode()))
    assert spoken.status == 400
    assert text not in log.getvalue()
    assert text.split("_")[-1] not in log.getvalue()


@pytest.mark.parametrize(
    "said",
    [
        "Basic dXNlcjpwdw==",
        "Bearer",
        "bearer  x y",
        "ck_runtime",
        "Bearer \xff",
        "",
        "Bearer " + "a" * 9_000,
    ],
)
async def test_what_is_no_key_is_unauthenticated_and_not_told(way: Journey, log: io.StringIO, said: str):
    """Whatever somebody shows in place of a key stays with him."""
    runtime = await way.runtime()
    for method, path in (("GET", "/v1/parts"), ("PUT", runtime.path()), ("PUT", f"/v1/runs/{runtime.run}")):
        shown = {name.encode(): value.encode() for name, value in runtime.headers().items()}
        shown[b"Authorization"] = said.encode("latin-1")
        answer = await way.client.request(
            method, path, headers=shown, content=b"{}" if method == "PUT" else None
        )
        assert problem(answer)["reason"] == "unauthenticated"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert "aaaaaaaa" not in log.getvalue()
    assert "dXNlcjpwdw" not in log.getvalue()


async def test_a_credential_in_a_body_is_content_and_in_no_place_beside_it(way: Journey, log: io.StringIO):
    """The store looks into no body; dropping credentials from options is the client's work."""
    runtime = await way.runtime()
    body = (
        b'{"options":{"base_url":"https://api.example/v1?key=sk-CANARY-7f3a","extra_headers":{"Authorization":"Bearer'
        b' sk-CANARY-7f3a"},"proxy":"http://user:pw-CANARY-7f3a@host"}}'
    )
    assert (await runtime.put(body)).status_code == 202
    await way.write()
    assert await way.content(runtime) == body
    for path in ("/v1/parts", f"/v1/runs/{runtime.run}", runtime.path(), f"/v1/runs/{runtime.run}/receipts"):
        assert "CANARY" not in (await way.get(path, runtime)).text
    assert "CANARY" not in (await way.client.get("/metrics")).text
    assert "CANARY" not in log.getvalue()
