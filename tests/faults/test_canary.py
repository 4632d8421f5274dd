"""A marked body goes through everything that can happen to a part; its mark is found only where it was asked for."""

import secrets
from typing import Any

import httpx
import msgspec

from policies.kinds import Role
from store.wiring import duties_of
from tests.support.ledger import drained, sound
from tests.support.scan import in_clear
from tests.support.stack import Stack, until
from tests.support.traffic import Site, site

# Where the mark is put: in text, in JSON inside JSON, in what is no JSON, and in what compresses.
SHAPES = (
    b'{"messages": [{"role": "user", "content": "%s"}]}',
    b'{"tool_calls": [{"arguments": "{\\"q\\": \\"%s\\"}"}]}',
    b"\x00\xff %s \xed\xa0\xbd",
    b"%s " * 500,
)


class Answers:
    """Keeps the body of everything that is answered."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def keep(self, response: httpx.Response) -> None:
        self.bodies.append(await response.aread())
        self.bodies.append(b"\n".join(name + b": " + value for name, value in response.headers.raw))


async def test_a_mark_in_content_is_found_in_no_log_queue_table_answer_or_metric(open_stack):
    mark = f"CANARY-7f3a{secrets.token_hex(8)}".encode()
    stack = await open_stack(own=True, max_deliveries="2")
    async with site(stack) as here:
        answers = Answers()
        here.client.event_hooks = {"response": [answers.keep]}
        await captured(here, mark)
        await refused_and_failed(here, mark)
        await malformed(here, mark)
        await away(stack, here, mark)
        evidence = await written(stack, here, mark)
        spoken = [*answers.bodies, (await here.client.get("/metrics")).content]
        assert not [body for body in spoken if mark in body]
        nothing_in_the_open(stack, mark)

        here.client.event_hooks = {"response": []}
        await read_and_erased(stack, here, mark, evidence)
        nothing_in_the_open(stack, mark)
        await sound(stack)


def contents(mark: bytes) -> list[bytes]:
    return [shape.replace(b"%s", mark) for shape in SHAPES]


async def captured(here: Site, mark: bytes) -> None:
    """Queued singly, in a flush, repeated, and with other bytes under the same identity."""
    runtime = await here.runtime("captured")
    for content in contents(mark):
        await runtime.put(runtime.observe(content))
    await runtime.flush([runtime.observe(content) for content in contents(mark)])
    assert runtime.counts() == {"queued": 8}
    said = runtime.said[1]
    same = await here.client.put(runtime.path(said), content=said.content, headers=runtime.headers(said))
    assert same.json()["receipt"] == said.receipt
    other = await here.client.put(
        runtime.path(said), content=said.content + b" ", headers=runtime.headers(said)
    )
    assert other.json()["reason"] == "identity_conflict"


async def refused_and_failed(here: Site, mark: bytes) -> None:
    """Refused by policy, by bounds and by its digest; and one that the database will not take."""
    runtime = await here.runtime("refused")
    large = await runtime.put(runtime.observe(mark * 20_000))
    assert large.reason == "part_too_large"
    damaged = await runtime.put(runtime.observe(mark), Content_Digest=f"sha-256=:{'A' * 43}=:")
    assert damaged.reason == "digest_mismatch"
    opted = await here.runtime("opted-out", content="opt_out")
    opted.ticket = runtime.ticket
    assert (await opted.put(opted.observe(mark))).capture == "not_captured"

    await here.stack.rows(
        "ALTER TABLE parts ADD CONSTRAINT takes_no_poison CHECK (exchange <> 'poison') NOT VALID"
    )
    poisoned = await here.runtime("poisoned")
    assert (await poisoned.put(poisoned.observe(mark, exchange="poison"))).capture == "queued"
    # Of another one the body is refused, in the midst of a copy.
    await here.stack.rows("ALTER TABLE bodies ADD CONSTRAINT takes_no_large CHECK (length(ciphertext) < 700)")
    assert (await poisoned.put(poisoned.observe(mark + secrets.token_bytes(777)))).capture == "queued"


async def malformed(here: Site, mark: bytes) -> None:
    """What cannot be read, in every place where somebody might put content by mistake."""
    runtime = await here.runtime("malformed")
    text = mark.decode()
    client, key = here.client, {**here.key, "Custody-Ticket": runtime.ticket}
    frames = {
        **key,
        "Content-Type": "application/msgpack",
        "Custody-Session": "s",
        "Custody-Sequences": "1-3",
    }
    flush = f"/v1/runs/{runtime.run}/frames"
    cut = msgspec.msgpack.encode([["part", {"exchange": text}, mark]])
    said = runtime.observe(b"{}")
    answers = [
        await client.put("/v1/runs/x", json={"mode": text}, headers=key),
        await client.put("/v1/runs/x", json={text: 1}, headers=key),
        await client.put("/v1/runs/x", content=b'{"mode": "' + mark, headers=key),
        await client.put("/v1/runs/x", json={"labels": {f"{text} !": "v"}}, headers=key),
        await client.post(flush, content=b"\xc1" + mark, headers=frames),
        await client.post(flush, content=cut[:-5], headers=frames),
        await client.post(flush, content=cut, headers=frames),
        await client.post(f"/v1/runs/{runtime.run}/gaps", json={"gaps": [{"reason": text}]}, headers=key),
        await client.post(f"/v1/runs/{runtime.run}/close", json={"sessions": {f"{text} !": 1}}, headers=key),
        await client.put(
            f"/v1/runs/{runtime.run}/exchanges/e/attempts/a", json={"dispatch": text}, headers=key
        ),
        await client.get("/v1/parts", params={"availability": text}, headers=key),
        await client.get("/v1/parts", params={"cursor": text}, headers=key),
        await client.get(f"/v1/receipts/{text}", headers=key),
        await client.get(f"/{text}", headers=key),
        await client.get("/livez", params={"token": text}),
        await client.get("/v1/parts", headers={"Authorization": f"Bearer {text}"}),
    ]
    for name in ("Custody-Completeness", "Custody-Sources", "Custody-Captured-At", "Custody-Sequence", "Content-Type",
                 "Content-Digest", "Custody-Vantage", "Custody-Ticket", "Prefer"):  # fmt: skip
        headers = {**runtime.headers(said), name: f"{text} !"}
        answers.append(await client.put(runtime.path(said), content=mark, headers=headers))
    assert all(answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR for answer in answers)
    assert sum(answer.status_code >= httpx.codes.BAD_REQUEST for answer in answers) > 15


async def away(stack: Stack, here: Site, mark: bytes) -> None:
    """Each server is away while it is posted."""
    runtime = await here.runtime("away")
    await runtime.put(runtime.observe(mark))
    stack.restart_valkey(keep=True, kill=True)
    stack.stop_postgres()
    await runtime.put(runtime.observe(mark + b"1"))
    stack.start_postgres()
    stack.stop_valkey()
    assert (await runtime.put(runtime.observe(mark + b"2"))).reason == "queue_unavailable"
    stack.start_valkey()


async def written(stack: Stack, here: Site, mark: bytes) -> Any:
    """A writer dies in the middle; another writes what can be written, and gives up the rest."""
    first = stack.writer()

    async def something() -> bool:
        return bool(await stack.value("SELECT count(*) > 0 FROM parts"))

    await until(something, "something is written")
    first.kill()
    stack.writer()
    await drained(stack)
    assert (
        await stack.value("SELECT count(*) FROM gaps WHERE reason = 'write_failed' AND exchange IS NOT NULL")
        == 2
    )
    return await stack.value("SELECT evidence FROM parts WHERE exchange = 'exchange-1' LIMIT 1")


async def read_and_erased(stack: Stack, here: Site, mark: bytes, evidence: Any) -> None:
    reader, operator = await stack.key(Role.REVIEWER, here.scope), await stack.key(Role.OPERATOR, here.scope)
    content = await here.client.get(f"/v1/parts/{evidence}/content", headers=reader)
    assert mark in content.content
    asked = await here.client.post("/v1/erasures", json={"part": str(evidence)}, headers=operator)
    assert asked.status_code == httpx.codes.ACCEPTED
    assert (await duties_of(await stack.services()).perform("purge")).succeeded
    gone = await here.client.get(f"/v1/parts/{evidence}/content", headers=reader)
    assert (gone.status_code, gone.json()["reason"]) == (410, "erased")
    assert mark not in gone.content


def nothing_in_the_open(stack: Stack, mark: bytes) -> None:
    """Logs of all processes and servers, both data directories, and whatever Redis tells."""
    directories = stack.directory, stack.directory / "p", stack.directory / "v"
    texts = [mark, contents(mark)[0], contents(mark)[-1]]
    assert in_clear(texts, *directories) == []
    # The same look finds what does lie there, so that it can be believed.
    assert in_clear([b"parts_identity_once"], *directories)
    with stack.redis() as client:
        for key in client.keys("*"):
            kind = client.type(key)
            if kind == b"hash":
                held: Any = client.hgetall(key)
            elif kind == b"stream":
                held = client.xrange(key)
            else:
                held = client.get(key) if kind == b"string" else None
            assert mark not in repr(key).encode()
            assert mark not in repr(held).encode()
