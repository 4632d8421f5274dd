"""Whether a process says what it lacks, counts without naming anybody, and writes one line a request."""

import asyncio
import io
import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from policies.kinds import Kind
from policies.reasons import Reason
from store import logging
from store.commitments import leaf
from store.ids import new_id
from store.services import readiness
from store.services.buckets import ensure_buckets
from store.services.rewrapping import Rewrapping, Selection
from store.tables import held_bodies
from tests.support.api import problem, running, settings_for
from tests.support.duties import duties_database, execute, keyring_of, new_run, scalar
from tests.support.log_queue import queue
from tests.support.outages import NO_POSTGRES, NOWHERE, postgres_away
from tests.support.sources import ROOT


async def test_it_lives_and_is_ready(database_url: str, redis_url: str, keys_dir: Path):
    async with running(settings_for(database_url, redis_url, keys_dir, build_commit="0123abc")) as api:
        alive = (await api.client.get("/livez")).json()
        ready = await api.client.get("/readyz")

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (alive["status"], alive["version"], alive["commit"]) == ("alive", project["version"], "0123abc")
    assert alive["started_at"].endswith("Z")
    well = {"ready": True, "missing": [], "canary_age_s": None, "reads_closed": None}
    assert (ready.status_code, ready.json()) == (200, well)


async def test_it_starts_without_postgres_and_redis_and_says_what_is_missing(keys_dir: Path):
    async with running(settings_for(NO_POSTGRES, NOWHERE, keys_dir)) as api:
        alive = await api.client.get("/livez")
        ready = await api.client.get("/readyz")
        counted = await api.client.get("/metrics")
        refused = await api.client.get(
            "/v1/keys", headers={"Authorization": "Bearer ck_operator_" + "0" * 16 + "_" + "A" * 43}
        )

    assert (alive.status_code, alive.json()["commit"]) == (200, "unknown")
    assert ready.status_code == 503
    assert ready.json()["missing"][0] == "Postgres does not answer"
    assert len(ready.json()["missing"]) == 2
    assert 'custody_unanswered{what="queue"} 1.0' in counted.text
    assert 'custody_unanswered{what="database"} 1.0' in counted.text
    assert (refused.status_code, problem(refused)["reason"]) == (503, "store_unavailable")


async def test_a_database_without_the_schema_is_named(postgres_url: str, redis_url: str, keys_dir: Path):
    async with running(settings_for(postgres_url, redis_url, keys_dir)) as api:
        ready = await api.client.get("/readyz")

    assert ready.status_code == 503
    assert len(ready.json()["missing"]) == 1


async def test_the_key_directory_of_another_store_is_noticed(
    database_url: str, redis_url: str, keys_dir: Path
):
    async with (
        running(settings_for(database_url, redis_url, keys_dir)) as api,
        duties_database(database_url) as database,
    ):
        await api.scope()
        await ensure_buckets(database, keyring_of(keys_dir), span_s=86_400)
        assert (await api.client.get("/readyz")).status_code == 200
        (keys_dir / "bucket").rename(keys_dir / "away")
        away = await api.client.get("/readyz")
        (keys_dir / "bucket").mkdir(mode=0o700)
        empty = await api.client.get("/readyz")

    for answer in (away, empty):
        assert answer.status_code == 503
        assert "key directory" in answer.json()["missing"][0]


async def test_it_stays_ready_when_the_keys_of_buckets_were_changed(
    database_url: str, redis_url: str, keys_dir: Path
):
    keyring = keyring_of(keys_dir)
    async with (
        running(settings_for(database_url, redis_url, keys_dir)) as api,
        duties_database(database_url) as database,
    ):
        await api.scope()
        await ensure_buckets(database, keyring, span_s=86_400)
        first = await scalar(
            database_url, "SELECT bucket_id FROM buckets WHERE span_end > now() ORDER BY span_end LIMIT 1"
        )
        done = await Rewrapping(database, keyring, grace_s=0).run("op", Selection(bucket=first))
        answer = await api.client.get("/readyz")

    assert done.changed == 1
    assert (answer.status_code, answer.json()["missing"]) == (200, [])


async def test_it_is_ready_again_when_postgres_is_back(
    postgres_url: str, database_url: str, redis_url: str, keys_dir: Path
):
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        assert (await api.client.get("/readyz")).status_code == 200
        async with postgres_away(postgres_url, database_url):
            away = await api.client.get("/readyz")
        back = await api.client.get("/readyz")

    assert (away.status_code, away.json()["missing"]) == (503, ["Postgres does not answer"])
    assert back.status_code == 200


async def test_the_age_of_the_last_canary_and_what_the_look_at_keys_found_are_shown(
    database_url: str, redis_url: str, keys_dir: Path
):
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "INSERT INTO leases (duty, holder, last_success, last_outcome) "
        "VALUES ('canary', $1, now() - interval '90 s', 'ok'), ('bucket_keys', NULL, now(), 'ok live=9 faults=2')",
        new_id(),
    )
    await connection.close()
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        ready = (await api.client.get("/readyz")).json()
        counted = (await api.client.get("/metrics")).text

    assert 90 <= ready["canary_age_s"] < 120
    assert 'custody_duty_success_age_seconds{duty="canary"} 9' in counted
    assert "custody_key_faults 2.0" in counted


async def test_it_counts_what_is_there_and_what_is_missing_by_scope(
    database_url: str, redis_url: str, keys_dir: Path
):
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        scope = await api.scope()
        run = await new_run(database_url, scope.scope_id, retain_until=datetime.now(UTC) + timedelta(days=1))
        await execute(
            database_url,
            "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, merged, first_at, last_at)"
            " VALUES ($1, $2, $2, 'client', 'client_queue_full', 3, now(), now())",
            scope.scope_id,
            run,
        )
        counted = (await api.client.get("/metrics")).text

    assert 'custody_recent_stored{scope="scope-one"} 0.0' in counted
    assert 'custody_recent_missing{scope="scope-one"} 3.0' in counted
    assert 'custody_integrity_failures_total{reason="integrity_mismatch"} 0.0' in counted
    assert 'custody_unanswered{what="completeness"} 0.0' in counted


async def test_what_waits_for_the_log_is_counted_and_its_age_told(
    database_url: str, redis_url: str, keys_dir: Path
):
    async def counted() -> dict[str, float]:
        lines = (await api.client.get("/metrics")).text.splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("custody_log_q")}

    leaves, oldest = "custody_log_queue_leaves", "custody_log_queue_oldest_seconds"
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        assert await counted() == {leaves: 0.0, oldest: 0.0}
        made_at = datetime.now(UTC) - timedelta(hours=1)
        told = [leaf("key", op="add", t=made_at, u="v"), leaf("key", op="add", t=datetime.now(UTC), u="v")]
        await queue(database_url, told)
        found = await counted()
        await queue(database_url, [b"no leaf"])
        await execute(database_url, "DELETE FROM log_queue WHERE leaf <> 'no leaf'")
        unreadable = await counted()

    assert (found[leaves], unreadable[leaves], unreadable[oldest]) == (2.0, 1.0, 0.0)
    assert 3_600 <= found[oldest] < 3_700


async def test_counts_name_closed_words_and_scopes_only(database_url: str, redis_url: str, keys_dir: Path):
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        scope = await api.scope()
        runtime = await api.runtime(scope)
        await api.client.put("/v1/runs/run-CANARY", json={"labels": {"a": "CANARY"}}, headers=runtime)
        api.services.metrics.refused(Kind.LOGICAL_REQUEST, Reason.CAPACITY_EXCEEDED)
        counted = await api.client.get("/metrics")

    # Word for word: a collector refuses a parameter that is there twice.
    assert counted.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'custody_request_seconds_count{method="PUT",status="2xx"} 1.0' in counted.text
    assert 'custody_queue_parts{shard="0"} 0.0' in counted.text
    assert "CANARY" not in counted.text
    assert str(scope.scope_id) not in counted.text


async def test_a_request_leaves_one_line_with_its_route_and_none_of_its_values(
    database_url: str, redis_url: str, keys_dir: Path
):
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        scope = await api.scope()
        runtime = await api.runtime(scope)
        lines = io.StringIO()
        logging.configure(stream=lines)
        try:
            await api.client.put(
                "/v1/runs/run-1?note=CANARY-1",
                json={"labels": {"a": "CANARY-2"}, "subject": "CANARY-3"},
                headers=runtime,
            )
            await api.client.get("/CANARY-4")
            await api.client.put("/v1/runs/run-1", json={"mode": "CANARY-5"}, headers=runtime)
        finally:
            logging.configure()

    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    requests = [line for line in said if line["event"] == "request"]
    assert [(line["route"], line["status"], line["reason"]) for line in requests] == [
        ("/v1/runs/{run}", 201, None),
        (None, 404, "not_found"),
        ("/v1/runs/{run}", 400, "malformed_request"),
    ]
    assert requests[0]["key_id"] == runtime["Authorization"].split("_")[2]
    assert requests[0]["scope_id"] == str(scope.scope_id)
    assert "CANARY" not in lines.getvalue()
    assert runtime["Authorization"].rpartition("_")[2] not in lines.getvalue()


async def test_what_alarms_hang_on_is_shown_also_where_very_much_is_held(
    database_url: str, redis_url: str, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    async def counts_for_long(_: object) -> dict[str, int]:
        await asyncio.sleep(10)
        return {}

    monkeypatch.setattr(readiness, "DEADLINE_S", 0.5)
    monkeypatch.setattr(held_bodies, "counts", counts_for_long)
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        text = (await api.client.get("/metrics")).text

    assert 'custody_unanswered{what="database"} 1.0' in text
    assert "\ncustody_expiry_lag_seconds " in text
    assert "\ncustody_log_queue_leaves " in text
