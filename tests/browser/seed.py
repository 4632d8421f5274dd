"""A store with something of everything that the pages show, put there through the api.

What no runtime can bring about (a key that is lost, bytes that were changed, a backup that lacks a part) is done to the
database and the keys directly.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from custody_client.streams import Assembler
from policies.kinds import Role
from store.services.keys import COMMAND_LINE, Wanted
from store.services.scopes import Scope
from tests.browser import acted, hostile, losses
from tests.browser.losses import TEMPORARY
from tests.support.api import DAY, bearer
from tests.support.stack import Proc, Stack, until

REQUEST: Final = "logical-request"
OUTPUT: Final = "observable-output"
MAIN: Final = "report-2026-11"
HOSTILE: Final = "hostile-inputs"
GONE: Final = "gone"
# What runtimes know a call by: its trace, and the ids that a provider gave the answer and the request.
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
RESPONSE: Final = "chatcmpl-9f1cQ2hT7"
REQUEST_ID: Final = "req_011CSHoEeqs5C35K2UUqR7Fy"
# Of several attempts of one run, and of more attempts than a page shows, each in a run of its own.
SHARED: Final = "0af7651916cd43dd8448eb211c80319c"
NIGHT: Final = "nightly-2026-11-30"
NIGHTLY: Final = 60
SHORT_S: Final = 3
DIGITS: Final = "9007199254740993"


@dataclass
class Place:
    """Where everything is: the processes, one scope and its keys, and of each part that has a role its evidence."""

    stack: Stack
    api: Proc
    console: Proc
    scope: Scope
    client: httpx.AsyncClient
    keys: dict[Role, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    exports: dict[Role, str] = field(default_factory=dict)
    tickets: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def as_(self, role: Role) -> dict[str, str]:
        return bearer(self.keys[role])

    async def call(self, method: str, path: str, role: Role = Role.OPERATOR, **more: Any) -> Any:
        """Call the api, which must say yes, and return what it says."""
        answer = await self.client.request(method, path, headers=self.as_(role), **more)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    async def declare(self, run: str, **wishes: Any) -> None:
        said = await self.call("PUT", f"/v1/runs/{run}", Role.RUNTIME, json=wishes)
        self.tickets[run] = said["ticket"] or ""

    async def post(
        self,
        run: str,
        exchange: str,
        content: object,
        *,
        attempt: str = "1",
        kind: str = REQUEST,
        **headers: str,
    ) -> str:
        """Post a part and wait until it is stored; return its evidence."""
        found = await self._put(run, exchange, content, attempt=attempt, kind=kind, headers=headers)
        assert found.get("capture") == "stored", found
        evidence: str = found["evidence"]
        return evidence

    async def tried(self, run: str, exchange: str, content: object, **headers: str) -> str:
        """Post a request that does not become a part, and return the reason."""
        found = await self._put(run, exchange, content, attempt="1", kind=REQUEST, headers=headers)
        assert found.get("capture") != "stored", found
        return str(found["reason"])

    async def accepted(self, run: str, exchange: str, content: object) -> str:
        """Post a request without waiting for it, and return what became of it."""
        found = await self._put(
            run, exchange, content, attempt="1", kind=REQUEST, headers={"Prefer": "respond-async"}
        )
        return str(found["capture"])

    async def _put(
        self, run: str, exchange: str, content: object, *, attempt: str, kind: str, headers: Mapping[str, str]
    ) -> Any:
        number = self.sequences[run] = self.sequences.get(run, 0) + 1
        answer = await self.client.put(
            f"/v1/runs/{run}/exchanges/{exchange}/attempts/{attempt}/parts/{kind}",
            content=content if isinstance(content, bytes) else json.dumps(content).encode(),
            headers={
                "Content-Type": "application/json",
                **self.as_(Role.RUNTIME),
                **({"Custody-Ticket": self.tickets[run]} if self.tickets[run] else {}),
                "Custody-Session": "agent-1",
                "Custody-Sequence": str(number),
                "Custody-Captured-At": datetime.now(UTC).isoformat(),
                "Prefer": "wait=5",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
        )
        return answer.json()

    async def say(self, run: str, exchange: str, attempt: str = "1", **state: Any) -> None:
        """Say how an attempt went."""
        answer = await self.client.put(
            f"/v1/runs/{run}/exchanges/{exchange}/attempts/{attempt}",
            json=state,
            headers={**self.as_(Role.RUNTIME), "Custody-Ticket": self.tickets[run]},
        )
        assert answer.is_success, answer.text

    async def close(self, run: str, others: Mapping[str, int] | None = None) -> None:
        """Close a run and wait until it is; `others` are further sessions, and how many each observed."""
        sessions = {"agent-1": self.sequences.get(run, 0), **(others or {})}
        await self.call("POST", f"/v1/runs/{run}/close", Role.RUNTIME, json={"sessions": sessions})

        async def closed() -> bool:
            return bool((await self.call("GET", f"/v1/runs/{run}"))["state"] == "closed")

        await until(closed, f"{run} is closed")

    async def published(self) -> None:
        """Wait until what is stored has its place in the published log."""

        async def look() -> bool:
            waits = await self.stack.value("SELECT count(*) FROM log_queue")
            state = (await self.stack.rows("SELECT size, published_size FROM log_state"))[0]
            return bool(waits == 0 and state["published_size"] == state["size"] > 0)

        await until(look, "the log is published", 30)


async def planted(stack: Stack, api: Proc, console: Proc, client: httpx.AsyncClient) -> Place:
    """Put everything there."""
    services = await stack.services()
    policy = {"retention": {"default": "1d", "max": "3d"}}
    scope = await services.scopes.create("research", policy, COMMAND_LINE)
    await stack.make_buckets()
    place = Place(stack, api, console, scope, client)
    for role in (Role.RUNTIME, Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR):
        place.keys[role] = (await services.keys.create(Wanted(role, scope.scope_id, DAY), COMMAND_LINE)).text
    await _sources(place)
    await _main(place)
    await _hostile(place)
    await _few(place)
    await _gone(place)
    await losses.planted(place)
    for run in ("flow-revoke", "flow-hold", "flow-erase", "flow-bare"):
        await place.declare(run, labels={"team": "flows"})
        sources = {"Custody_Sources": '"doc-live";v=1'} if run == "flow-revoke" else {}
        place.parts[run] = await place.post(run, "x-1", _asked("Who was here?"), **sources)
        await place.post(run, "x-1", _said("Nobody."), kind=OUTPUT)
    await acted.planted(place)
    await place.published()
    for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR):
        said = await place.call("POST", "/v1/exports", role, json={"runs": [MAIN, GONE]})
        place.exports[role] = said["export_id"]
    return place


async def _sources(place: Place) -> None:
    for source, wish in (
        ("doc-live", {}), ("doc-revoked", {}), ("doc-old", {}), ("doc-secret", {"audience": ["board"]}),
    ):  # fmt: skip
        await place.call("PUT", f"/v1/sources/{source}", json=wish)


async def _main(place: Place) -> None:
    """A run as runs are: retries, a stream that was cut, tool calls, media, losses of several kinds."""
    await place.declare(MAIN, labels={"team": "search", "ticket": "OPS-4711"})
    plan = await place.post(MAIN, "plan", _asked("Write the monthly report. Which numbers do you need?"))
    place.parts["request"] = plan
    place.parts["output"] = await place.post(
        MAIN, "plan", _said("Revenue by region, and what changed since October."), kind=OUTPUT
    )
    await place.say(
        MAIN, "plan", dispatch="dispatched", settlement="completed", refs=[TRACE, RESPONSE, REQUEST_ID]
    )
    for attempt, end in (("1", "failed"), ("2", "failed"), ("3", "completed")):
        await place.post(MAIN, "search", _searched(attempt), attempt=attempt)
        if attempt != "1":
            whole = attempt == "3"
            await place.post(
                MAIN, "search", _streamed(cut=not whole), attempt=attempt, kind=OUTPUT,
                Custody_Completeness="complete" if whole else "interrupted",
            )  # fmt: skip
        await place.say(MAIN, "search", attempt, dispatch="dispatched", settlement=end, refs=[SHARED])
    await place.post(MAIN, "numbers", _ODD)
    await place.post(MAIN, "numbers", b'{"deep":' + b"[" * 3000 + b"]" * 3000 + b"}", kind=OUTPUT)
    assert await place.tried(MAIN, "large", {"messages": "m" * (300 << 10)}) == "part_too_large"
    await place.post(MAIN, "large", _said("That was a long question."), kind=OUTPUT)
    await place.post(MAIN, "bytes", bytes(range(256)), Content_Type="application/octet-stream")
    place.sequences[MAIN] += 6
    lost = {"session": "agent-1", "sequences": "13-16", "reason": "client_queue_full"}
    await place.call(
        "POST", f"/v1/runs/{MAIN}/gaps", Role.RUNTIME, json={"gaps": [lost]},
    )  # fmt: skip
    await place.close(MAIN)


async def _hostile(place: Place) -> None:
    await place.declare(HOSTILE, labels={"team": hostile.INPUTS["failing-picture"], "next": "=1+1"})
    await asyncio.gather(
        *(
            place.declare(f"{HOSTILE}-{number}", labels={name: text})
            for number, (name, text) in enumerate(hostile.TYPED.items())
        )
    )
    run, source, exchange, session, attempt = hostile.IDS
    await place.declare(run)
    await place.call("PUT", f"/v1/sources/{source}", json={})
    place.parts["ids"] = await place.post(
        run,
        exchange,
        _asked("Who?"),
        attempt=attempt,
        Custody_Sources=f'"{source}";v=1',
        Custody_Session=session,
    )
    lost = {"session": session, "sequences": "2-9", "reason": "client_shutdown"}
    await place.call("POST", f"/v1/runs/{run}/gaps", Role.RUNTIME, json={"gaps": [lost]})
    await asyncio.gather(*(_hostile_exchange(place, name, text) for name, text in hostile.INPUTS.items()))


async def _hostile_exchange(place: Place, name: str, text: str) -> None:
    await place.post(HOSTILE, name, hostile.request_of(text), Custody_Vantage="wire")
    await place.post(HOSTILE, name, hostile.output_of(text), kind=OUTPUT)
    raw = await place.post(HOSTILE, name, text.encode(), attempt="raw", kind=OUTPUT, Content_Type="text/html")
    place.parts[f"raw-{name}"] = raw


async def _few(place: Place) -> None:
    """Runs for the list: of several modes, and more than a page of them."""
    await place.declare(TEMPORARY, mode="temporary")
    await place.declare("quiet-opted-out", content="opt_out")
    for number in range(NIGHTLY):
        await place.declare(f"nightly-{number:02}", labels={"team": "batch"})
    await asyncio.gather(
        *(
            place.say(f"nightly-{number:02}", "only", dispatch="dispatched", refs=[NIGHT])
            for number in range(NIGHTLY)
        )
    )
    await place.post("nightly-59", "only", _asked("Is everything well?"))
    await place.close("nightly-59")


async def _gone(place: Place) -> None:
    """One part for each reason for which content cannot be read."""
    await place.declare(GONE, labels={"team": "legal"})
    bound = {"revoked": "doc-revoked", "withdrawn": "doc-old", "not-cleared": "doc-secret"}
    for name, source in bound.items():
        place.parts[name] = await place.post(GONE, name, _asked(name), Custody_Sources=f'"{source}";v=1')
    for name in ("erased", "changed", "restored"):
        place.parts[name] = await place.post(GONE, name, _asked(name))
    for run in ("gone-expired", "gone-held"):
        await place.declare(run, retention=f"{SHORT_S}s")
        place.parts[run] = await place.post(run, "x-1", _asked(run))
    await place.call("POST", "/v1/holds/", json={"run": "gone-held", "reason": hostile.INPUTS["script"]})
    await place.call("POST", "/v1/sources/doc-revoked/revoke", json={})
    await place.call("PUT", "/v1/sources/doc-old", json={"earlier": "withdrawn"})
    await place.call("POST", "/v1/erasures/", json={"part": place.parts["erased"]})
    await _damage(place)


async def _damage(place: Place) -> None:
    stack = place.stack
    await stack.rows(
        "UPDATE bodies SET ciphertext = set_byte(ciphertext, 40, get_byte(ciphertext, 40) # 255) WHERE evidence = $1",
        place.parts["changed"],
    )
    await stack.rows("DELETE FROM bodies WHERE evidence = $1", place.parts["restored"])
    # Its bucket is another day's, whose key nothing else needs.
    await place.declare("gone-key", retention="3d")
    place.parts["key-lost"] = await place.post("gone-key", "x-1", _asked("key"))
    bucket = await stack.value("SELECT bucket_id FROM parts WHERE evidence = $1", place.parts["key-lost"])
    (await stack.services()).keyring.destroy_bucket_key(place.scope.scope_id, bucket)


def _asked(text: str) -> dict[str, Any]:
    return {
        "model": "small-1",
        "messages": [
            {"role": "system", "content": "You answer in one sentence."},
            {"role": "user", "content": text},
        ],
        "options": {"temperature": 0, "max_tokens": 200},
    }


def _said(text: str) -> bytes:
    whole = Assembler("chat.completions", provider="example", host="api.example", streamed=False)
    whole.answer(
        {"id": "chatcmpl-1", "object": "chat.completion", "model": "small-1-2026-10", "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}},
        ], "usage": {"prompt_tokens": 31, "completion_tokens": 12, "total_tokens": 43}}
    )  # fmt: skip
    return whole.encode()


def _searched(attempt: str) -> dict[str, Any]:
    asked = _asked("Find the revenue of November by region.")
    asked["options"]["temperature"] = 0 if attempt == "1" else 0.2
    asked["tools"] = [
        {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}},
    ]  # fmt: skip
    asked["messages"].append({"role": "user", "content": [
        {"type": "text", "text": "As in this picture:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgoA" * 400}},
    ]})  # fmt: skip
    return asked


def _streamed(*, cut: bool) -> bytes:
    """An answer in pieces, whose tool call has its arguments cut anywhere; or only the first of them."""
    stream = Assembler("chat.completions", provider="example", host="api.example")
    deltas: list[Mapping[str, Any]] = [
        {"role": "assistant", "content": "I look "}, {"content": "it up."},
        {"tool_calls": [{"index": 0, "id": "call-1", "function": {"name": "find", "arguments": '{"re'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'gion": "north", "order_id": ' + DIGITS}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
    ]  # fmt: skip
    for delta in deltas[:3] if cut else deltas:
        stream.event({"id": "chatcmpl-2", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    if not cut:
        stream.event(
            {"id": "chatcmpl-2", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        )
        stream.feed(b"data: [DONE]\n\n")
    return stream.encode()


_ODD: Final = (
    '{"model": "small-1", "model": "other", "order_id": 9007199254740993, "max": 18446744073709551616,'
    ' "neg": -9223372036854775809, "float": 1.0000000000000000001, "nul": "a\\u0000b", "hidden": "pass\u200bword",'
    ' "override": "invoice\u202egnp.exe", "messages": [{"role": "user", "content": "Add them."}]}'
).encode()
