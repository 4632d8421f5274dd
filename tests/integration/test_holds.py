"""The table of cases of holds, erasures and expiry, against real servers."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from policies.holds import Placing
from store.db import SERVICE_ROLE, Connection, Database
from store.errors import Malformed, NotFound, Unavailable
from store.keyring import Keyring
from store.queue import Queue
from store.services.buckets import ensure_buckets
from store.services.erasures import Erasures, StoredPart, WholeRun, WholeSource
from store.services.expiry import Expiry
from store.services.holds import Holds, On, OnPart, OnRun, OnScope
from store.services.purge import Purge
from store.services.rewrapping import Rewrapping, Selection
from store.services.verify import verify
from store.tables import buckets, held_bodies, spans
from store.tables.held_bodies import HoldBucket
from tests.support.duties import (
    end_span,
    execute,
    leaves,
    new_run,
    new_scope,
    scalar,
)
from tests.support.held import HELD, body_of, opens, sealed_parts
from tests.support.logs import heard
from tests.support.publication import publish, publish_at_once, publish_no_more

DAY = 86_400
GRACE_S = 3_600.0


@pytest.fixture(autouse=True)
async def published(database_url: str) -> None:
    await publish_at_once(database_url)


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=SERVICE_ROLE, size=4)
    yield opened
    await opened.close()


@pytest.fixture
def holds(service: Database) -> Holds:
    return Holds(service)


@pytest.fixture
def erasures(service: Database, keyring: Keyring, queue: Queue) -> Erasures:
    return Erasures(service, keyring, queue)


@pytest.fixture
def purge(database: Database, keyring: Keyring, queue: Queue) -> Purge:
    return Purge(database, keyring, queue, grace_s=GRACE_S)


@pytest.fixture
def expiry(database: Database, keyring: Keyring, queue: Queue) -> Expiry:
    return Expiry(database, keyring, queue, DAY)


@pytest.fixture
async def scope(database: Database, keyring: Keyring, database_url: str) -> UUID:
    made = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    return made


async def _run(url: str, scope: UUID, name: str = "r-1") -> UUID:
    return await new_run(url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), run=name)


async def _state(url: str, evidence: UUID) -> tuple[str, str | None]:
    text = await scalar(
        url, "SELECT json_build_array(state, purge_reason)::text FROM parts WHERE evidence = $1", evidence
    )
    state, reason = json.loads(text)
    return state, reason


async def _expire(url: str, expiry: Expiry, evidence: UUID) -> None:
    await end_span(url, await scalar(url, "SELECT span_start FROM parts WHERE evidence = $1", evidence))
    assert (await expiry.run())["expired"] >= 1


async def _let_go(url: str, holds: Holds, scope: UUID, *placed: UUID) -> None:
    """Release holds, and let the grace pass."""
    for hold in placed:
        await holds.release(scope, hold, "op-2")
    await execute(url, "ALTER TABLE holds DISABLE TRIGGER holds_forward_only")
    await execute(
        url, "UPDATE holds SET released_at = released_at - interval '1 hour' WHERE ended_at IS NULL"
    )
    await execute(url, "ALTER TABLE holds ENABLE TRIGGER holds_forward_only")


# --- placing


async def test_a_scope_s_hold_bucket_is_made_with_it_and_has_its_key(
    scope: UUID, keyring: Keyring, database_url: str
) -> None:
    bucket = await scalar(
        database_url, "SELECT bucket_id FROM buckets WHERE scope_id = $1 AND span_start IS NULL", scope
    )
    assert keyring.has_bucket_key(scope, bucket)


async def test_placing_writes_the_hold_its_leaf_and_what_the_operator_did_and_nothing_else(
    scope: UUID, holds: Holds, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    (evidence, _) = await sealed_parts(database_url, keyring, scope, run, 2)
    rows = "SELECT array_agg(xmin::text || ctid::text ORDER BY evidence) FROM parts"
    before = await scalar(database_url, rows)

    on_part = await holds.place(scope, OnPart(evidence), "matter 7", "op")
    on_run = await holds.place(scope, OnRun("r-1"), "matter 7", "op")
    on_scope = await holds.place(scope, OnScope(), "matter 7", "op")

    assert [each.answer for each in (on_part, on_run, on_scope)] == [Placing.PLACED] * 3
    assert (on_part.run, on_part.evidence, on_part.reason, on_part.placed_by) == (
        "r-1",
        evidence,
        "matter 7",
        "op",
    )
    assert await scalar(database_url, rows) == before
    said = [(leaf["k"], leaf["op"], leaf["sk"], leaf["h"], leaf["si"]) for leaf in await leaves(database_url)]
    assert said == [
        ("hold", "place", "part", on_part.hold_id.hex, evidence.hex),
        ("hold", "place", "run", on_run.hold_id.hex, run.hex),
        ("hold", "place", "scope", on_scope.hold_id.hex, scope.hex),
    ]
    assert await scalar(database_url, "SELECT array_agg(action) FROM operator_actions") == ["hold_placed"] * 3
    page = await holds.page(scope, None, 2)
    assert [row.hold_id for row in page.rows] == [on_scope.hold_id, on_run.hold_id]
    assert [row.hold_id for row in (await holds.page(scope, page.next_id, 2)).rows] == [on_part.hold_id]


async def test_what_is_not_there_or_not_said_is_not_held(
    scope: UUID, holds: Holds, keyring: Keyring, database_url: str
) -> None:
    other = await new_scope(database_url)
    run = await _run(database_url, scope)
    (evidence,) = await sealed_parts(database_url, keyring, scope, run, 1)
    for on in (OnPart(evidence), OnRun("r-1")):
        with pytest.raises(NotFound):
            await holds.place(other, on, "matter 7", "op")
    for reason in ("", "x" * 501, "a\nb", "\x00"):
        with pytest.raises(Malformed):
            await holds.place(scope, OnRun("r-1"), reason, "op")
    with pytest.raises(NotFound):
        await holds.release(other, (await holds.place(scope, OnRun("r-1"), "m", "op")).hold_id, "op")


# --- expiry


@pytest.mark.parametrize("reach", ["part", "run", "scope"])
async def test_what_is_held_outlives_its_bucket_byte_for_byte_and_its_siblings_do_not(
    reach: str,
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    keyring: Keyring,
    database: Database,
    database_url: str,
) -> None:
    other = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    run, sibling_run, foreign_run = (
        await _run(database_url, scope), await _run(database_url, scope, "r-2"), await _run(database_url, other)
    )  # fmt: skip
    secrets = await sealed_parts(database_url, keyring, scope, run, 3)
    (sibling,) = await sealed_parts(database_url, keyring, scope, sibling_run, 1)
    (foreign,) = await sealed_parts(database_url, keyring, other, foreign_run, 1)
    first, *_ = secrets
    covering: dict[str, On] = {"part": OnPart(first), "run": OnRun("r-1"), "scope": OnScope()}
    await holds.place(scope, covering[reach], "matter 7", "op")
    kept = {"part": [first], "run": [*secrets], "scope": [*secrets, sibling]}[reach]
    before = {each: await body_of(database_url, each) for each in kept}
    own_bucket = await scalar(database_url, "SELECT bucket_id FROM parts WHERE evidence = $1", first)

    await _expire(database_url, expiry, first)

    assert set(await scalar(database_url, "SELECT array_agg(evidence) FROM bodies")) == set(kept)
    hold_bucket = await scalar(
        database_url, "SELECT bucket_id FROM buckets WHERE scope_id = $1 AND span_start IS NULL", scope
    )
    for evidence, was in before.items():
        now = await body_of(database_url, evidence)
        assert now is not None
        assert was is not None
        assert (now.ciphertext, now.exact_bytes) == (was.ciphertext, was.exact_bytes)
        assert (now.span_start, now.bucket_id) == (held_bodies.HELD, hold_bucket)
        if evidence in secrets:
            assert opens(keyring, scope, evidence, now, secrets[evidence])
            assert not opens(keyring, scope, evidence, was, secrets[evidence])
    assert await scalar(database_url, "SELECT bucket_id FROM parts WHERE evidence = $1", first) == own_bucket
    assert not keyring.has_bucket_key(scope, own_bucket)
    counted = {leaf["b"]: leaf["n"] for leaf in await leaves(database_url) if leaf["k"] == "expire"}
    assert counted[own_bucket.hex] == 4
    assert await body_of(database_url, foreign) is None
    late = await holds.place(scope, OnPart(kept[0]), "another matter", "op")
    assert late.answer is Placing.PLACED


@pytest.mark.parametrize("reach", ["run", "scope"])
async def test_rows_without_a_body_hide_nothing_that_is_held(
    reach: str,
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    keyring: Keyring,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("store.services.hold_buckets.BATCH", 2)
    monkeypatch.setattr("store.services.expiry.BATCH", 2)
    secrets = [*await sealed_parts(database_url, keyring, scope, await _run(database_url, scope), 6)]
    on: On = OnRun("r-1") if reach == "run" else OnScope()
    await holds.place(scope, on, "matter 7", "op")
    torn, kept = secrets[:4], secrets[4:]
    # Somebody took some bodies away; others lie where their parts do not say.
    await execute(database_url, "DELETE FROM bodies WHERE evidence = ANY($1)", torn[:2])
    await execute(
        database_url,
        "UPDATE parts SET span_start = span_start - interval '1 day' WHERE evidence = ANY($1)",
        torn[2:],
    )

    await _expire(database_url, expiry, kept[0])

    assert set(await scalar(database_url, "SELECT array_agg(evidence) FROM bodies")) == set(kept)


async def test_what_was_not_held_in_time_is_too_late_and_does_not_come_back(
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    erasures: Erasures,
    purge: Purge,
    keyring: Keyring,
    database_url: str,
) -> None:
    run = await _run(database_url, scope)
    erased, expired = await sealed_parts(database_url, keyring, scope, run, 2)
    await erasures.ask(scope, StoredPart(erased), "op")
    assert (await holds.place(scope, OnPart(erased), "m", "op")).answer is Placing.TOO_LATE
    await purge.run()
    assert (await holds.place(scope, OnPart(erased), "m", "op")).answer is Placing.TOO_LATE
    await _expire(database_url, expiry, expired)
    late = await holds.place(scope, OnPart(expired), "m", "op")
    await execute(database_url, "UPDATE runs SET state = 'closed', closed_at = now()")
    late_run = await holds.place(scope, OnRun("r-1"), "m", "op")
    assert (late.answer, late_run.answer) == (Placing.TOO_LATE, Placing.TOO_LATE)
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 0
    assert sum(leaf["k"] == "hold" for leaf in await leaves(database_url)) == 4


async def test_nothing_expires_while_there_is_no_place_for_what_is_held(
    scope: UUID, holds: Holds, expiry: Expiry, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    (evidence,) = await sealed_parts(database_url, keyring, scope, run, 1)
    await holds.place(scope, OnRun("r-1"), "m", "op")
    await execute(database_url, "DELETE FROM buckets WHERE span_start IS NULL")
    await end_span(database_url, await scalar(database_url, "SELECT span_start FROM parts"))
    with pytest.raises(Exception, match="store_unavailable"):
        await expiry.run()
    assert await body_of(database_url, evidence) is not None
    assert await scalar(database_url, "SELECT count(*) FROM buckets WHERE state <> 'live'") == 0


async def test_nothing_expires_while_the_key_for_what_is_held_is_lost(
    scope: UUID, holds: Holds, expiry: Expiry, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    ((evidence, secret),) = (await sealed_parts(database_url, keyring, scope, run, 1)).items()
    await holds.place(scope, OnRun("r-1"), "m", "op")
    holding = await scalar(database_url, "SELECT bucket_id FROM buckets WHERE span_start IS NULL")
    keyring.destroy_bucket_key(scope, holding)
    await end_span(database_url, await scalar(database_url, "SELECT span_start FROM parts"))
    with pytest.raises(Exception, match="store_unavailable"):
        await expiry.run()
    body = await body_of(database_url, evidence)
    assert body is not None
    assert opens(keyring, scope, evidence, body, secret)


async def _spans(url: str) -> list[datetime]:
    """The starts of two spans whose ends have not come."""
    starts: list[datetime] = await scalar(
        url,
        "SELECT array_agg(DISTINCT span_start ORDER BY span_start) FROM buckets WHERE span_start IS NOT NULL",
    )
    return starts[1:3]


async def _a_minute_later(url: str) -> None:
    await execute(url, "UPDATE leases SET paced_at = paced_at - interval '61 seconds'")


async def test_a_lost_hold_key_keeps_nothing_of_other_scopes_and_no_later_span(
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    keyring: Keyring,
    database: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    first, second = await _spans(database_url)
    held_run = await new_run(database_url, scope, retain_until=first + timedelta(hours=1), run="r-1")
    ((held, secret),) = (await sealed_parts(database_url, keyring, scope, held_run, 1)).items()
    others = {}
    for start in (first, second):
        run = await new_run(database_url, other, retain_until=start + timedelta(hours=1))
        for evidence in await sealed_parts(database_url, keyring, other, run, 2):
            others[evidence] = await body_of(database_url, evidence)
    await holds.place(scope, OnRun("r-1"), "m", "op")
    holding = await scalar(
        database_url, "SELECT bucket_id FROM buckets WHERE span_start IS NULL AND scope_id = $1", scope
    )
    keyring.destroy_bucket_key(scope, holding)
    for start in (first, second):
        await end_span(database_url, start)
    rewritten = 0
    rewrite = Queue.rewrite_file

    async def counting(queue: Queue) -> None:
        nonlocal rewritten
        rewritten += 1
        await rewrite(queue)

    monkeypatch.setattr(Queue, "rewrite_file", counting)

    # Each run says that it failed, and lets go what it can: at most one span's worth a minute.
    with pytest.raises(Unavailable), heard() as log:
        await expiry.run()
    assert "hold_key_lost" in log.getvalue()
    assert scope.hex in log.getvalue().replace("-", "")
    of_other = "SELECT array_agg(state ORDER BY span_start) FROM buckets WHERE scope_id = $1 AND span_start = ANY($2)"
    assert await scalar(database_url, of_other, other, [first, second]) == ["destroyed", "live"]
    await _a_minute_later(database_url)
    with pytest.raises(Unavailable):
        await expiry.run()
    assert await scalar(database_url, of_other, other, [first, second]) == ["destroyed", "destroyed"]
    assert await scalar(database_url, of_other, scope, [first, second]) == ["live", "destroyed"]
    # Nothing was left to be destroyed: no run goes on writing the queue's file anew.
    with pytest.raises(Unavailable):
        await expiry.run()
    assert rewritten == 2

    for body in others.values():
        assert body is not None
        assert not keyring.has_bucket_key(other, body.bucket_id)
    kept = await body_of(database_url, held)
    assert kept is not None
    assert opens(keyring, scope, held, kept, secret)
    counted = [leaf["n"] for leaf in await leaves(database_url) if leaf["k"] == "expire"]
    assert sorted(counted) == [0, 2, 2]

    # The repair.
    await Rewrapping(database, keyring, grace_s=0).run("op", Selection(scope, holding))
    assert await expiry.run() == {"expired": 1}
    moved = await body_of(database_url, held)
    assert moved is not None
    assert opens(keyring, scope, held, moved, secret)
    assert not opens(keyring, scope, held, kept, secret)
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 1
    async with database.connection() as connection:
        assert not {first, second} & {each.span_start for each in await spans.attached(connection)}
        assert await spans.stray(connection) == []


async def test_a_span_of_which_nothing_can_go_takes_no_later_spans_turn(
    scope: UUID, holds: Holds, expiry: Expiry, keyring: Keyring, database_url: str
) -> None:
    first, second = await _spans(database_url)
    for start, name in ((first, "r-1"), (second, "r-2")):
        run = await new_run(database_url, scope, retain_until=start + timedelta(hours=1), run=name)
        await sealed_parts(database_url, keyring, scope, run, 1)
        await end_span(database_url, start)
    await holds.place(scope, OnRun("r-1"), "m", "op")
    keyring.destroy_bucket_key(
        scope, await scalar(database_url, "SELECT bucket_id FROM buckets WHERE span_start IS NULL")
    )

    with pytest.raises(Unavailable):
        await expiry.run()

    states = "SELECT array_agg(state ORDER BY span_start) FROM buckets WHERE span_start = ANY($1)"
    assert await scalar(database_url, states, [first, second]) == ["live", "destroyed"]


STEPS = ["move", "share_bucket", "part_leaves", "mark_expired"]


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_while_held_bodies_move_is_continued(
    step: str,
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    keyring: Keyring,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await _run(database_url, scope)
    secrets = await sealed_parts(database_url, keyring, scope, run, 5)
    kept = [*secrets][:3]
    for evidence in kept:
        await holds.place(scope, OnPart(evidence), "m", "op")
    monkeypatch.setattr("store.services.hold_buckets.BATCH", 2)
    await end_span(database_url, await scalar(database_url, "SELECT DISTINCT span_start FROM parts"))
    calls = 0

    async def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    real = held_bodies.move

    async def move_once(*arguments: object, **named: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise ZeroDivisionError
        await real(*arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        module = held_bodies if step in ("move", "share_bucket") else buckets
        patch.setattr(module, step, move_once if step == "move" else crash)
        with pytest.raises(ZeroDivisionError):
            await expiry.run()
    await execute(database_url, "UPDATE leases SET paced_at = paced_at - interval '1 minute'")
    await expiry.run()

    assert set(await scalar(database_url, "SELECT array_agg(evidence) FROM bodies")) == set(kept)
    for evidence in kept:
        body = await body_of(database_url, evidence)
        assert body is not None
        assert opens(keyring, scope, evidence, body, secrets[evidence])
    assert [leaf["n"] for leaf in await leaves(database_url) if leaf["k"] == "expire"] == [5]


# --- release


async def test_after_release_and_grace_what_is_overdue_goes_and_the_hold_key_is_changed(
    scope: UUID, holds: Holds, expiry: Expiry, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    secrets = await sealed_parts(database_url, keyring, scope, run, 2)
    gone, kept = secrets
    first = await holds.place(scope, OnPart(gone), "m", "op")
    await holds.place(scope, OnPart(kept), "m", "op")
    await _expire(database_url, expiry, gone)
    bodies = {each: await body_of(database_url, each) for each in secrets}
    old = await scalar(
        database_url, "SELECT bucket_id FROM buckets WHERE span_start IS NULL AND scope_id = $1", scope
    )

    released = await holds.release(scope, first.hold_id, "op-2")
    again = await holds.release(scope, first.hold_id, "op-3")
    assert (again.released_at, again.released_by) == (released.released_at, "op-2")
    await purge.run()
    assert await body_of(database_url, gone) is not None
    assert not await purge.due()
    await _let_go(database_url, holds, scope)
    assert await purge.due()
    counts = await purge.run()

    assert (counts["ended"], counts["released"], counts["bodies"], counts["keys"]) == (1, 1, 1, 1)
    assert await _state(database_url, gone) == ("purged", "retention_expired")
    assert not keyring.has_bucket_key(scope, old)
    now = await body_of(database_url, kept)
    was = bodies[kept]
    assert now is not None
    assert was is not None
    assert now.ciphertext == was.ciphertext
    assert opens(keyring, scope, kept, now, secrets[kept])
    for evidence, copied in bodies.items():
        assert copied is not None
        assert not opens(keyring, scope, evidence, copied, secrets[evidence])
    said = [(leaf["op"], leaf["h"]) for leaf in await leaves(database_url) if leaf["k"] == "hold"]
    assert said[2:] == [("release", first.hold_id.hex)]
    assert not await purge.due()


async def test_another_hold_and_the_grace_keep_what_one_hold_lets_go(
    scope: UUID, holds: Holds, expiry: Expiry, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    (evidence,) = await sealed_parts(database_url, keyring, scope, run, 1)
    placed = [await holds.place(scope, on, "m", "op") for on in (OnPart(evidence), OnRun("r-1"), OnScope())]
    await _expire(database_url, expiry, evidence)
    for hold in placed:
        await purge.run()
        assert await _state(database_url, evidence) == ("stored", None)
        await _let_go(database_url, holds, scope, hold.hold_id)
    await purge.run()
    assert await _state(database_url, evidence) == ("purged", "retention_expired")


@pytest.mark.parametrize("step", ["retire", "put_wrapped", "left_in", "set_destroyed", "_destroy_key"])
async def test_a_crash_while_the_hold_key_is_changed_is_continued(
    step: str,
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    purge: Purge,
    keyring: Keyring,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await _run(database_url, scope)
    secrets = await sealed_parts(database_url, keyring, scope, run, 3)
    gone, *kept = secrets
    placed = {each: await holds.place(scope, OnPart(each), "m", "op") for each in secrets}
    await _expire(database_url, expiry, gone)
    await _let_go(database_url, holds, scope, placed[gone].hold_id)
    monkeypatch.setattr("store.services.hold_buckets.BATCH", 1)

    async def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        if step == "_destroy_key":
            patch.setattr(Keyring, "destroy_bucket_key", lambda *_: 1 // 0)
        else:
            patch.setattr(held_bodies, step, crash)
        with pytest.raises(ZeroDivisionError):
            await purge.run()
    assert await _state(database_url, gone) == ("purging", "retention_expired")
    await purge.run()

    assert await _state(database_url, gone) == ("purged", "retention_expired")
    for evidence in kept:
        body = await body_of(database_url, evidence)
        assert body is not None
        assert opens(keyring, scope, evidence, body, secrets[evidence])
    states = "SELECT array_agg(state ORDER BY state) FROM buckets WHERE span_start IS NULL AND scope_id = $1"
    assert await scalar(database_url, states, scope) == ["destroyed", "live"]


async def test_without_the_new_hold_key_the_old_one_stays(
    scope: UUID,
    holds: Holds,
    expiry: Expiry,
    purge: Purge,
    keyring: Keyring,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await _run(database_url, scope)
    secrets = await sealed_parts(database_url, keyring, scope, run, 2)
    gone, kept = secrets
    placed = {each: await holds.place(scope, OnPart(each), "m", "op") for each in secrets}
    await _expire(database_url, expiry, gone)
    await _let_go(database_url, holds, scope, placed[gone].hold_id)
    insert = held_bodies.insert_bucket

    async def insert_and_lose_key(connection: Connection, bucket: HoldBucket) -> bool:
        keyring.destroy_bucket_key(*bucket)
        return await insert(connection, bucket)

    monkeypatch.setattr(held_bodies, "insert_bucket", insert_and_lose_key)
    await purge.run()
    body = await body_of(database_url, kept)
    assert body is not None
    assert opens(keyring, scope, kept, body, secrets[kept])
    assert await _state(database_url, gone) == ("purging", "retention_expired")


# --- erasures


async def test_an_erasure_of_what_is_held_closes_now_and_destroys_at_release(
    scope: UUID, holds: Holds, erasures: Erasures, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    held, free = await sealed_parts(database_url, keyring, scope, run, 2)
    hold = await holds.place(scope, OnPart(held), "m", "op")

    of_part = await erasures.ask(scope, StoredPart(held), "op")
    of_run = await erasures.ask(scope, WholeRun("r-1"), "op")
    await purge.run()

    assert (of_part.state, of_part.waits_for) == ("deferred", "hold")
    for erasure in (of_part, of_run):
        now = await erasures.one(scope, erasure.erasure_id)
        assert (now.state, now.waits_for) == ("deferred", "hold")
    assert await _state(database_url, held) == ("stored", "erased")
    assert await _state(database_url, free) == ("purged", "erased")
    assert await body_of(database_url, held) is not None
    assert not await purge.due()

    await _let_go(database_url, holds, scope, hold.hold_id)
    await purge.run()
    assert await _state(database_url, held) == ("purged", "erased")
    for erasure in (of_part, of_run):
        done = await erasures.one(scope, erasure.erasure_id)
        assert (done.state, done.waits_for, done.purged_at is None) == ("purged", None, False)


async def test_what_is_erased_and_held_outlives_its_bucket_closed_and_goes_as_erased(
    scope: UUID,
    holds: Holds,
    erasures: Erasures,
    expiry: Expiry,
    purge: Purge,
    keyring: Keyring,
    database_url: str,
) -> None:
    run = await _run(database_url, scope)
    (held,) = await sealed_parts(database_url, keyring, scope, run, 1)
    hold = await holds.place(scope, OnRun("r-1"), "m", "op")
    asked = await erasures.ask(scope, StoredPart(held), "op")
    await _expire(database_url, expiry, held)
    await purge.run()
    assert await _state(database_url, held) == ("stored", "erased")
    assert (await body_of(database_url, held)) is not None
    await _let_go(database_url, holds, scope, hold.hold_id)
    await purge.run()
    assert await _state(database_url, held) == ("purged", "erased")
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"


async def _source(url: str, scope: UUID) -> bytes:
    await execute(
        url,
        "INSERT INTO sources (scope_id, source, source_uid, latest) VALUES ($1, 'doc', gen_random_uuid(), 1)",
        scope,
    )
    await execute(
        url,
        "INSERT INTO source_sets (scope_id, set_id, sources, versions) VALUES ($1, 'set', '{doc}', '{NULL}')",
        scope,
    )
    return b"set"


async def test_a_revoked_source_s_held_parts_stay_closed_and_are_kept_until_release(
    database: Database, holds: Holds, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    scope = await new_scope(database_url, policy={"destroy_after": "1h"})
    await ensure_buckets(database, keyring, span_s=DAY)
    run = await _run(database_url, scope)
    held, free = await sealed_parts(database_url, keyring, scope, run, 2)
    await execute(database_url, "UPDATE parts SET source_set = $1", await _source(database_url, scope))
    hold = await holds.place(scope, OnPart(held), "m", "op")
    await execute(database_url, "UPDATE sources SET revoked_at = now() - interval '2 hours'")

    assert (await purge.run())["revoked"] == 1
    assert (await _state(database_url, held), await _state(database_url, free)) == (
        ("stored", None), ("purged", "source_unavailable")
    )  # fmt: skip
    assert not await scalar(database_url, "SELECT destroyed FROM sources")

    await _let_go(database_url, holds, scope, hold.hold_id)
    assert (await purge.run())["revoked"] == 1
    assert await _state(database_url, held) == ("purged", "source_unavailable")
    assert await scalar(database_url, "SELECT destroyed FROM sources")


async def test_a_shortened_run_s_held_parts_are_kept_until_release(
    scope: UUID, holds: Holds, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=2), run="r-1")
    (held,) = await sealed_parts(database_url, keyring, scope, run, 1)
    hold = await holds.place(scope, OnPart(held), "m", "op")
    await execute(
        database_url,
        "UPDATE runs SET retain_until = now() - interval '1 day', destroy_from = now() - interval '1 day'",
    )
    assert (await purge.run())["expired"] == 0
    await _let_go(database_url, holds, scope, hold.hold_id)
    assert (await purge.run())["expired"] == 1
    assert await _state(database_url, held) == ("purged", "retention_expired")


async def test_an_erased_source_is_closed_for_good_and_takes_all_that_depends_on_it(
    scope: UUID, erasures: Erasures, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    bound, free = await sealed_parts(database_url, keyring, scope, run, 2)
    mark = await _source(database_url, scope)
    await execute(database_url, "UPDATE parts SET source_set = $1 WHERE evidence = $2", mark, bound)
    with pytest.raises(NotFound):
        await erasures.ask(scope, WholeSource("unknown"), "op")

    asked = await erasures.ask(scope, WholeSource("doc"), "op")
    assert (asked.target_kind, asked.source, asked.run, asked.state) == ("source", "doc", None, "accepted")
    assert (await erasures.ask(scope, WholeSource("doc"), "op")).erasure_id == asked.erasure_id
    assert await scalar(database_url, "SELECT revoked_at IS NOT NULL AND erased_at IS NOT NULL FROM sources")
    assert [(leaf["k"], leaf["op"]) for leaf in await leaves(database_url)] == [("revoke", "revoke")]

    await purge.run()
    assert await _state(database_url, bound) == ("purged", "erased")
    assert await _state(database_url, free) == ("stored", None)
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"


async def test_an_erasure_is_purged_only_once_the_log_says_so(
    scope: UUID, erasures: Erasures, purge: Purge, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope)
    (evidence,) = await sealed_parts(database_url, keyring, scope, run, 1)
    await publish_no_more(database_url)
    asked = await erasures.ask(scope, StoredPart(evidence), "op")
    for _ in range(2):
        await purge.run()
        assert await _state(database_url, evidence) == ("purging", "erased")
        assert await body_of(database_url, evidence) is None
        now = await erasures.one(scope, asked.erasure_id)
        assert (now.state, now.waits_for, now.purged_at) == ("purging", "publication", None)
        # Nothing is to be done every second for what only waits.
        assert not await purge.due()

    await publish(database_url)
    assert await purge.due()
    assert (await purge.run())["purged"] == 1
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"
    assert HELD.startswith(str(held_bodies.HELD.date()))


# --- what verify makes of it


async def test_a_hold_that_somebody_took_away_or_released_by_hand_is_found(
    scope: UUID, holds: Holds, service: Database, keyring: Keyring, database_url: str
) -> None:
    await publish_no_more(database_url)
    first = await holds.place(scope, OnScope(), "m", "op")
    second = await holds.place(scope, OnScope(), "m", "op")
    third = await holds.place(scope, OnScope(), "m", "op")
    await holds.release(scope, third.hold_id, "op")
    assert (await verify(service, keyring)).sound

    await execute(database_url, "DELETE FROM holds WHERE hold_id = $1", first.hold_id)
    await execute(database_url, "UPDATE holds SET released_at = now() WHERE hold_id = $1", second.hold_id)
    found = await verify(service, keyring)
    assert {(fault.kind, fault.id) for fault in found.faults} == {
        ("hold_missing", str(first.hold_id)),
        ("hold_mismatch", str(second.hold_id)),
    }
