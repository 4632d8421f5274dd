"""Narrowing, closing, revoking and erasing meet a part that already waits, or one that is posted at that moment."""

from typing import Any

import httpx

from policies.kinds import Role
from store.services.keys import COMMAND_LINE
from store.wiring import duties_of
from tests.support.ledger import Runtime, agree, books_of, drained, sound
from tests.support.stack import until
from tests.support.traffic import Site, site


async def ask(here: Site, role: Role, method: str, path: str, body: Any = None) -> httpx.Response:
    """One call of another role of the same scope."""
    key = await here.stack.key(role, here.scope)
    return await here.client.request(method, path, json=body, headers=key)


async def three_queued(here: Site) -> Runtime:
    runtime = await here.runtime("run")
    await runtime.flush([runtime.observe(b'{"part": %d}' % number) for number in range(3)])
    assert runtime.counts() == {"queued": 3}
    return runtime


async def written(here: Site, runtime: Runtime, **outcomes: int) -> None:
    """Let a writer do what waits; both books agree, and say this."""
    here.stack.writer()
    await drained(here.stack)
    books = await books_of(here.stack, runtime)
    agree(runtime, books)
    assert books.by_outcome() == outcomes
    for said in runtime.told("queued"):
        found = await runtime.receipt(said)
        assert (found["reason"] or found["capture"]) == books.outcome(said.sequence)
    await sound(here.stack)


# --- erasing


async def test_a_run_is_erased_by_its_runtime_while_its_parts_wait(stack):
    async with site(stack) as here:
        runtime = await three_queued(here)
        admission = await runtime.declare(erase=True)
        assert (admission["admitted"], admission["reason"]) == (False, "erased")
        await written(here, runtime, erased=3)


async def test_a_run_is_erased_by_an_operator_while_its_parts_wait(stack):
    async with site(stack) as here:
        runtime = await three_queued(here)
        answer = await ask(here, Role.OPERATOR, "POST", "/v1/erasures", {"run": runtime.run})
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        await written(here, runtime, erased=3)
        late = await runtime.put(runtime.observe(b"{}"))
        assert (late.status, late.reason) == (409, "erased")


async def test_one_part_is_erased_by_its_identity_while_it_waits(stack):
    async with site(stack) as here:
        runtime = await three_queued(here)
        second = runtime.said[2]
        named = {
            "run": runtime.run,
            "exchange": second.exchange,
            "attempt": second.attempt,
            "kind": second.kind,
        }
        answer = await ask(here, Role.OPERATOR, "POST", "/v1/erasures", named)
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        await written(here, runtime, stored=2, erased=1)
        assert (await runtime.receipt(second))["reason"] == "erased"


async def test_what_was_erased_is_never_stored_again_however_late_it_comes(stack):
    async with site(stack) as here:
        runtime = await three_queued(here)
        with stack.redis() as client:
            copies = client.xrange("custody:{q0}:entries")
        await written(here, runtime, stored=3)
        evidence = (await books_of(stack, runtime)).stored[2]
        answer = await ask(here, Role.OPERATOR, "POST", "/v1/erasures", {"part": str(evidence)})
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text

        # Posted again, with the same bytes and with others; then once more where the queue has forgotten all of it.
        first = runtime.said[2]
        for forget in (False, True):
            if forget:
                with stack.redis() as client:
                    client.flushall()
            for content in (first.content, b"other bytes"):
                again = runtime.observe(content, exchange=first.exchange)
                await runtime.put(again)
                assert (again.status, again.reason) == (409, "erased")

        # And delivered again, as by a queue that was restored from an old copy.
        duties = duties_of(await stack.services())
        for purged in (False, True):
            if purged:
                assert (await duties.perform("purge")).succeeded
            with stack.redis() as client:
                for _, fields in copies:
                    client.xadd("custody:{q0}:entries", fields)
            await drained(stack)
            rows = await stack.rows(
                "SELECT p.evidence = $2 AS erased, b.evidence IS NOT NULL AS body FROM parts p"
                " LEFT JOIN bodies b ON (b.span_start, b.scope_id, b.evidence) = (p.span_start, p.scope_id, p.evidence)"
                " WHERE p.scope_id = $1",
                runtime.scope, evidence,
            )  # fmt: skip
            assert len(rows) == 3
            if purged:
                assert [row["body"] for row in rows if row["erased"]] == [False]
        reader = await stack.key(Role.REVIEWER, here.scope)
        gone = await here.client.get(f"/v1/parts/{evidence}/content", headers=reader)
        assert (gone.status_code, gone.json()["reason"]) == (410, "erased")


# --- closing


async def test_a_closing_run_takes_what_its_session_announced_and_nothing_beyond(stack):
    async with site(stack) as here:
        runtime = await here.runtime("run")
        announced = [runtime.observe(b'{"part": %d}' % number) for number in range(5)]
        await runtime.flush(announced[:3])
        standing = await runtime.close()
        assert (standing["state"], standing["effective"]) == ("closing", "now")
        await runtime.flush(announced[3:])
        assert runtime.counts() == {"queued": 5}
        beyond = await runtime.put(runtime.observe(b"{}"))
        assert (beyond.status, beyond.reason) == (403, "run_closed")
        await written(here, runtime, stored=5, run_closed=1)

        duties = duties_of(await stack.services())

        async def closed() -> bool:
            assert (await duties.perform("reconcile")).succeeded
            return bool((await runtime.close())["state"] == "closed")

        await until(closed, "the run is closed")
        late = await runtime.put(runtime.observe(b"{}"))
        assert (late.status, late.reason) == (403, "run_closed")


async def test_what_was_announced_and_never_came_is_unaccounted_once_the_run_is_closed(stack):
    async with site(stack) as here:
        runtime = await here.runtime("run")
        announced = [runtime.observe(b'{"part": %d}' % number) for number in range(5)]
        await runtime.flush(announced[:3])
        await runtime.close()
        await written(here, runtime, stored=3)
        duties = duties_of(await stack.services())

        async def closed() -> bool:
            assert (await duties.perform("reconcile")).succeeded
            return bool((await runtime.close())["state"] == "closed")

        await until(closed, "the run is closed")
        books = await books_of(stack, runtime)
        assert books.by_outcome() == {"stored": 3, "unaccounted": 2}
        await sound(stack)


# --- policies, sources


async def test_a_ticket_of_an_older_policy_is_expired_within_moments_and_a_new_one_is_good(stack):
    roomy = {"limits": {"run_parts": 1000}, "waiting": {"run_parts": 1000}}
    async with site(stack, **roomy) as here:
        runtime = await here.runtime("run")
        assert (await runtime.put(runtime.observe(b"{}"))).capture == "queued"
        services = await stack.services()
        document = {"retention": {"default": "1d", "max": "1d"}, "kinds": ["logical-request"], **roomy}
        await services.scopes.put_policy(here.scope.scope_id, document, COMMAND_LINE)

        async def refused() -> bool:
            said = await runtime.put(runtime.observe(b"{}"))
            assert said.reason in (None, "ticket_expired")
            return said.reason is not None

        await until(refused, "the old ticket is refused", within_s=5)
        await runtime.declare()
        assert (await runtime.put(runtime.observe(b"{}"))).capture == "queued"
        other = await runtime.put(runtime.observe(b"{}", kind="observable-output"))
        assert (other.status, other.reason) == (403, "kind_not_admitted")
        counts = runtime.counts()
        await written(here, runtime, stored=counts.pop("queued"), **counts)


async def test_a_part_whose_source_is_revoked_while_it_waits_is_not_written(stack):
    async with site(stack) as here:
        assert (await ask(here, Role.OPERATOR, "PUT", "/v1/sources/doc-7", {})).status_code == httpx.codes.OK
        runtime = await here.runtime("run")
        bound = await runtime.put(runtime.observe(b"{}"), Custody_Sources='"doc-7";v=1')
        free = await runtime.put(runtime.observe(b"{}"))
        assert bound.capture == free.capture == "queued"
        answer = await ask(here, Role.OPERATOR, "POST", "/v1/sources/doc-7/revoke", {})
        assert answer.status_code == httpx.codes.OK, answer.text
        await written(here, runtime, stored=1, source_revoked=1)
        assert (await runtime.receipt(bound))["reason"] == "source_revoked"


async def test_a_part_whose_source_is_revoked_after_it_was_written_is_refused_to_readers_at_once(stack):
    async with site(stack) as here:
        await ask(here, Role.OPERATOR, "PUT", "/v1/sources/doc-7", {})
        runtime = await here.runtime("run")
        await runtime.put(runtime.observe(b"what was read"), Custody_Sources='"doc-7";v=1')
        await written(here, runtime, stored=1)
        evidence = (await books_of(stack, runtime)).stored[1]
        reader = await stack.key(Role.REVIEWER, here.scope)

        async def read() -> tuple[int, Any]:
            answer = await here.client.get(f"/v1/parts/{evidence}/content", headers=reader)
            is_content = answer.status_code == httpx.codes.OK
            return answer.status_code, answer.content if is_content else answer.json()["reason"]

        assert await read() == (200, b"what was read")
        await ask(here, Role.OPERATOR, "POST", "/v1/sources/doc-7/revoke", {})
        assert await read() == (403, "source_unavailable")
        listed = await here.client.get("/v1/parts", params={"run": "run"}, headers=reader)
        assert [item["availability"]["reason"] for item in listed.json()["items"]] == ["source_unavailable"]
        await ask(here, Role.OPERATOR, "POST", "/v1/sources/doc-7/restore", {})
        assert await read() == (200, b"what was read")


# --- several processes


async def test_what_one_api_narrows_every_other_refuses_at_once(stack):
    async with site(stack) as here:
        other = await stack.api()
        runtime = await here.runtime("run")
        async with httpx.AsyncClient(base_url=other.url, trust_env=False) as client:
            elsewhere = Runtime(client, here.key, runtime.scope, runtime.run, ticket=runtime.ticket)
            elsewhere.said = runtime.said
            for _ in range(3):
                assert (await elsewhere.put(elsewhere.observe(b"{}"))).capture == "queued"
            await runtime.declare(content="opt_out")
            # The other one has a copy of the run that is younger than a second; the queue decides all the same.
            for _ in range(3):
                late = await elsewhere.put(elsewhere.observe(b"{}"))
                assert (late.status, late.reason) == (403, "content_opt_out")
        await written(here, runtime, content_opt_out=6)
