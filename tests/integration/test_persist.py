import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from policies.reasons import Reason
from store import commitments
from store.errors import RowRefused, Unavailable
from store.queue import Settlement
from tests.support import factories
from tests.support.factories import OUTPUT, House, evidence_of

pytestmark = pytest.mark.usefixtures("house")


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


def outcomes(settlements: list[Settlement]) -> dict[str, tuple[str, Reason | None]]:
    return {each.entry_id: (each.outcome, each.reason) for each in settlements}


# --- what is stored is what was posted

CONTENTS = [
    b"",
    b"yes",
    b'{"messages":[{"role":"tool","content":"head\\u0000tail"}]}',
    b'{"text":"\\\\u0000"}',
    b'{"text":"a\x00b"}',
    b'{"text":"done \\ud83d"}',
    b'{"text":"\xed\xa0\xbd"}',
    b"[" * 100_000 + b"]" * 100_000,
    b'{"model":"model-a","messages":[],"model":"model-b","run_id":"r-1","run_id":"r-2"}',
    bytes(range(256)) * 1024,
]


async def test_every_content_comes_back_byte_for_byte(house: House) -> None:
    run = await house.declare()
    entries = [house.part(run, content, exchange=f"x-{n}") for n, content in enumerate(CONTENTS)]

    done = await house.persister().persist(entries)

    assert [each.outcome for each in done.settlements] == ["stored"] * len(CONTENTS)
    for entry, content in zip(entries, CONTENTS, strict=True):
        assert await house.read_back(evidence_of(entry)) == content


async def test_a_part_s_row_says_what_was_said_of_it_and_commits_to_it(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"x" * 300, session="s-1", sequence=7, sources=[("doc-8", None), ("doc-7", 3)])
    await house.add_source("doc-7", versions=3)
    await house.add_source("doc-8")

    await house.persister().persist([entry])

    (row,) = await house.rows("SELECT * FROM parts")
    (body,) = await house.rows("SELECT exact_bytes, bucket_id FROM bodies")
    assert (row["evidence"], row["run_uid"], row["session"], row["sequence"]) == (
        evidence_of(entry), run.run_uid, "s-1", 7,
    )  # fmt: skip
    assert (row["size_class"], body["exact_bytes"] < 0, row["state"]) == (512, True, "stored")
    meta = commitments.meta_bytes(
        commitments.Identity(run.scope, run.run, "exchange-1", "attempt-1", "logical-request"),
        bucket=row["bucket_id"], captured_at=row["captured_at"], completeness=row["completeness"],
        media_type=row["media_type"], received_at=row["received_at"], sequence=row["sequence"],
        session=row["session"], size_class=row["size_class"], sources=[("doc-7", 3), ("doc-8", None)],
        vantage=row["vantage"],
    )  # fmt: skip
    assert commitments.meta_commitment(row["meta_opening"], meta) == row["meta_commitment"]
    (kept,) = await house.rows("SELECT set_id, sources, versions FROM source_sets")
    assert (kept["set_id"], kept["sources"], kept["versions"]) == (
        row["source_set"],
        ["doc-7", "doc-8"],
        [3, None],
    )


async def test_its_leaf_is_committed_with_it(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")

    await house.persister().persist([entry])

    (row,) = await house.rows("SELECT bucket_id, commitment, meta_commitment, stored_at FROM parts")
    (queued,) = await house.rows("SELECT scope_id, leaf FROM log_queue")
    assert queued["scope_id"] == run.scope
    assert queued["leaf"] == commitments.leaf(
        "part", b=row["bucket_id"], c=row["commitment"], m=row["meta_commitment"], p=evidence_of(entry),
        t=row["stored_at"],
    )  # fmt: skip
    assert set(json.loads(queued["leaf"])) == {"b", "c", "k", "m", "p", "t", "v"}


async def test_parts_go_to_the_bucket_in_which_their_run_expires(house: House) -> None:
    near, far = (
        await house.declare(keep=timedelta(hours=1)),
        await house.declare(keep=timedelta(days=2, hours=1)),
    )

    await house.persister().persist([house.part(near, b"near"), house.part(far, b"far")])

    rows = await house.rows(
        "SELECT p.run_uid, b.span_start, b.span_end, p.span_start AS part_span, o.span_start AS body_span"
        " FROM parts p JOIN buckets b USING (scope_id, bucket_id) JOIN bodies o USING (scope_id, evidence)"
    )
    ends = {near.run_uid: near.retain_until, far.run_uid: far.retain_until}
    assert len(rows) == 2
    for row in rows:
        assert (
            row["span_start"]
            == row["part_span"]
            == row["body_span"]
            <= ends[row["run_uid"]]
            < row["span_end"]
        )


async def test_a_batch_over_scopes_and_runs(house: House) -> None:
    other = await house.add_scope()
    runs = [await house.declare(scope=scope) for scope in (house.scope, other, house.scope)]
    entries = [
        house.part(run, b"%d %d" % (n, m), exchange=f"x-{n}") for n in range(20) for m, run in enumerate(runs)
    ]

    done = await house.persister().persist(entries)

    assert len(done.settlements) == await house.count("parts") == await house.count("bodies") == 60
    assert await house.count("log_queue") == 60


async def test_a_part_of_no_known_kind_is_at_fault_and_takes_no_other_with_it(house: House) -> None:
    run = await house.declare()
    strange = house.part(run, b"strange", exchange="x-1", kind="telemetry")

    done = await house.persister().persist([house.part(run, b"content"), strange])

    assert [each.outcome for each in done.settlements] == ["stored"]
    assert done.faulty == [strange]


# --- delivered twice changes nothing


async def test_a_second_delivery_changes_nothing(house: House) -> None:
    run = await house.declare()
    entries = [house.part(run, b"content %d" % n, exchange=f"x-{n}", dispatch="dispatched") for n in range(3)]
    persister = house.persister()
    first = await persister.persist(entries)
    before = [
        await house.rows(f"SELECT * FROM {table}")  # noqa: S608 - a test's own names
        for table in ("parts", "bodies", "attempts", "log_queue")
    ]

    second = await house.persister().persist(entries)

    assert outcomes(second.settlements) == outcomes(first.settlements)
    after = [
        await house.rows(f"SELECT * FROM {table}")  # noqa: S608 - a test's own names
        for table in ("parts", "bodies", "attempts", "log_queue")
    ]
    assert after == before
    assert await house.count("gaps") == 0


async def test_one_entry_twice_in_a_batch_is_written_once(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")

    done = await house.persister().persist([entry, entry])

    assert [each.outcome for each in done.settlements] == ["stored", "stored"]
    assert await house.count("bodies") == await house.count("log_queue") == 1


async def test_what_was_stored_stays_stored_when_it_is_delivered_after_a_narrowing(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    await house.persister().persist([entry])
    await house.narrow(run, erased=True)

    done = await house.persister().persist([entry])

    assert outcomes(done.settlements) == {entry.id: ("stored", None)}
    assert await house.count("gaps") == 0


async def test_other_content_under_an_identity_is_a_conflict_and_the_first_stays(house: House) -> None:
    run = await house.declare()
    first, second = house.part(run, b"first"), house.part(run, b"second")
    await house.persister().persist([first])

    done = await house.persister().persist([second])

    assert outcomes(done.settlements) == {second.id: ("refused", Reason.IDENTITY_CONFLICT)}
    assert await house.read_back(evidence_of(first)) == b"first"
    (gap,) = await house.rows("SELECT said_by, reason, exchange, superseded_by FROM gaps")
    assert gap == {
        "said_by": "store", "reason": "identity_conflict", "exchange": "exchange-1", "superseded_by": None,
    }  # fmt: skip


async def test_of_two_contents_under_one_identity_in_a_batch_one_is_stored(house: House) -> None:
    run = await house.declare()
    entries = [house.part(run, b"first"), house.part(run, b"second")]

    done = await house.persister().persist(entries)

    assert sorted(each.outcome for each in done.settlements) == ["refused", "stored"]
    assert await house.count("parts") == await house.count("bodies") == 1


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("erased", Reason.ERASED),
        ("retention_expired", Reason.RETENTION_EXPIRED),
        ("source_unavailable", Reason.ERASED),
    ],
)
async def test_an_identity_is_taken_also_after_its_part_was_purged(
    house: House, why: str, reason: Reason
) -> None:
    run = await house.declare()
    first, late = house.part(run, b"first"), house.part(run, b"late")
    await house.persister().persist([first])
    await house.execute("UPDATE parts SET state = 'purging', purge_reason = $1", why)
    await house.execute("DELETE FROM bodies")

    done = await house.persister().persist([late])

    assert outcomes(done.settlements) == {late.id: ("refused", reason)}
    assert await house.count("bodies") == 0


# --- not yet, and never


async def test_without_a_bucket_nothing_is_refused_and_nothing_is_settled(house: House) -> None:
    run = await house.declare(keep=timedelta(days=300))
    entry, other = house.part(run, b"content"), house.part(await house.declare(), b"other")

    done = await house.persister().persist([entry, other])

    assert done.waiting == [entry]
    assert outcomes(done.settlements) == {other.id: ("stored", None)}
    assert await house.count("gaps") == 0


async def test_it_is_stored_once_the_bucket_is_there(house: House) -> None:
    run = await house.declare(keep=timedelta(days=30))
    entry, persister = house.part(run, b"content"), house.persister()
    assert (await persister.persist([entry])).waiting == [entry]
    await house.execute("UPDATE scopes SET retention_max_s = 31 * 86400")
    await house.make_buckets()

    done = await persister.persist([entry])

    assert outcomes(done.settlements) == {entry.id: ("stored", None)}


async def test_without_the_bucket_s_key_it_waits(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    for scope, bucket in house.keyring.bucket_keys():
        house.keyring.destroy_bucket_key(scope, bucket)

    done = await house.persister().persist([entry])

    assert done.waiting == [entry]
    assert await house.count("gaps") == 0


async def test_without_the_partition_it_waits(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    for row in await house.rows(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'bodies'::regclass"
    ):
        await house.execute(f"DROP TABLE {row['name']}")

    done = await house.persister().persist([entry])

    assert done.waiting == [entry]


async def test_what_does_not_open_is_at_fault_and_its_neighbours_are_not(house: House) -> None:
    run = await house.declare()
    good, bad = house.part(run, b"good", exchange="good"), house.part(run, b"bad", exchange="bad")
    assert bad.sealed is not None
    damaged = type(bad)(bad.id, bad.type, bad.header, bad.sealed[:-1] + bytes([bad.sealed[-1] ^ 1]), None)

    done = await house.persister().persist([good, damaged])

    assert done.faulty == [damaged]
    assert outcomes(done.settlements) == {good.id: ("stored", None)}


async def test_a_sealed_body_of_another_part_does_not_open(house: House) -> None:
    run = await house.declare()
    one, other = house.part(run, b"one", exchange="one"), house.part(run, b"other", exchange="other")
    moved = type(one)(one.id, one.type, one.header, other.sealed, None)

    assert (await house.persister().persist([moved])).faulty == [moved]


async def test_a_row_that_the_database_refuses_raises_and_leaves_nothing(house: House) -> None:
    run = await house.declare()
    good, bad = house.part(run, b"good", exchange="good"), house.part(run, b"bad", exchange="bad\x00")

    with pytest.raises(RowRefused):
        await house.persister().persist([good, bad])

    assert await house.count("parts") == await house.count("bodies") == await house.count("log_queue") == 0


async def test_without_keys_it_is_an_outage(house: House, keys_dir: Path) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    persister = house.persister()
    os.rename(keys_dir, keys_dir.with_name("away"))  # noqa: PTH104 - a moment's work
    house.keyring._remembered["bucket"].kept.clear()

    with pytest.raises(Unavailable):
        await persister.persist([entry])


async def test_a_run_that_is_narrowed_meanwhile_gets_its_part_sealed_for_where_it_belongs(
    house: House,
) -> None:
    run = await house.declare(keep=timedelta(days=2, hours=1))
    persister = house.persister()
    await persister.persist([house.part(run, b"before", exchange="before")])
    await house.execute("UPDATE runs SET retain_until = now() + interval '1 hour'")
    entry = house.part(run, b"after", exchange="after")

    done = await persister.persist([entry])

    assert outcomes(done.settlements) == {entry.id: ("stored", None)}
    rows = await house.rows(
        "SELECT r.retain_until, b.span_start, b.span_end FROM parts p JOIN runs r USING (scope_id, run_uid)"
        " JOIN buckets b USING (scope_id, bucket_id) WHERE p.exchange = 'after'"
    )
    assert rows[0]["span_start"] <= rows[0]["retain_until"] < rows[0]["span_end"]
    assert await house.read_back(evidence_of(entry)) == b"after"


async def test_nothing_of_the_content_rests_outside_the_ciphertext(house: House) -> None:
    run = await house.declare()
    marker = b"CANARY-7f3a"
    await house.persister().persist([house.part(run, marker * 40), house.part(run, marker, kind=OUTPUT)])

    for row in await house.rows(
        "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND oid > 16384"
    ):
        text = await house.value(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {row['name']} t")  # noqa: S608
        assert marker.decode() not in text
        assert marker.hex() not in text
