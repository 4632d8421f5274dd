"""Reading content over HTTP: the order of a read, what is given out, what is recorded, and what never is."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from policies.kinds import Role
from store import ids
from store.services.content import ContentReads
from store.services.paging import Reader
from store.tables.contents import ReadRow
from tests.support.api import problem
from tests.support.factories import OUTPUT
from tests.support.reading import Library, identity_path, library

EMOJI_CUT = b'{"text":"done \\ud83d"}'


@pytest.fixture
async def shelf(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Library]:
    async with library(database_url, redis_url, keys_dir) as opened:
        yield opened


async def accesses(shelf: Library) -> list[tuple[str, str | None, str]]:
    rows = await shelf.house.rows("SELECT role, purpose, outcome FROM accesses ORDER BY at, access_id")
    return [(row["role"], row["purpose"], row["outcome"]) for row in rows]


def content_of(evidence: UUID) -> str:
    return f"/v1/parts/{evidence}/content"


# --- what is given out


@pytest.mark.parametrize(
    ("content", "media_type", "text"),
    [
        (b'{"order_id":9007199254740993,"max":18446744073709551616}', "application/json", True),
        (EMOJI_CUT, "application/json", True),
        (b'{"text":"a\x00b"}', "application/json", True),
        (b"data: {}\n\n", "text/event-stream", True),
        (b"<script>alert(1)</script>", "text/html", True),
        ("\x1b]8;;\u202e =HYPERLINK()".encode(), "text/plain", True),
        (b'{"text":"\xed\xa0\xbd"}', "application/json", False),
        (b"\xff\xfe", "text/plain", False),
        (b"plain text", "application/octet-stream", False),
        (b"", "application/json", True),
        (b"[" * 100_000 + b"]" * 100_000, "application/json", True),
    ],
)
async def test_bytes_come_back_as_they_were_and_never_as_something_to_run(shelf, content, media_type, text):
    run = await shelf.house.declare()
    evidence = await shelf.store(run, content, media_type=media_type)
    reviewer = await shelf.key(Role.REVIEWER)
    for path in (content_of(evidence), identity_path(run) + "/content"):
        response = await shelf.get(path, reviewer)
        assert response.status_code == 200
        assert response.content == content
        headers = response.headers
        assert headers["content-type"] == (
            "text/plain; charset=utf-8" if text else "application/octet-stream"
        )
        assert headers.get("content-disposition") == (
            None if text else f'attachment; filename="{evidence}.bin"'
        )
        assert headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert headers["repr-digest"] == f"sha-256=:{digest}:"
        assert [headers[f"custody-{name}"] for name in ("run", "exchange", "attempt", "kind", "media-type")] == [
            run.run, "exchange-1", "attempt-1", "logical-request", media_type,
        ]  # fmt: skip


async def test_the_etag_is_the_commitment_and_never_makes_a_304(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"yes")
    reviewer = await shelf.key(Role.REVIEWER)
    first = await shelf.get(content_of(evidence), reviewer)
    commitment = await shelf.house.value("SELECT commitment FROM parts")
    assert first.headers["etag"] == f'"{base64.b64encode(commitment).decode()}"'
    again = await shelf.get(content_of(evidence), {**reviewer, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (200, b"yes")


# --- who may


async def test_only_reviewers_and_custodians_read_content(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"yes")
    for role, status in (
        (Role.REVIEWER, 200), (Role.CUSTODIAN, 200), (Role.AUDITOR, 403), (Role.OPERATOR, 403), (Role.RUNTIME, 403),
    ):  # fmt: skip
        response = await shelf.get(content_of(evidence), await shelf.key(role))
        assert response.status_code == status
        if status == 403:
            assert problem(response)["reason"] == "permission_denied"
    assert (await shelf.get(content_of(evidence), {})).status_code == 401
    # A runtime's key reaches no such call at all; the others asked about a part that exists.
    assert [row[0::2] for row in await accesses(shelf)] == [
        ("reviewer", "read"), ("custodian", "read"),
        ("auditor", "permission_denied"), ("operator", "permission_denied"),
    ]  # fmt: skip


async def test_a_source_s_audience_needs_every_clearance_and_is_asked_at_each_read(shelf):
    await shelf.house.add_source("doc-7")
    evidence = await shelf.store(await shelf.house.declare(), b"yes", sources=[("doc-7", 1)])
    plain = await shelf.key(Role.REVIEWER)
    cleared = await shelf.key(Role.REVIEWER, None, "legal", "hr")
    assert (await shelf.get(content_of(evidence), plain)).status_code == 200
    await shelf.house.execute("UPDATE sources SET audience = '{legal,hr}'")
    assert problem(await shelf.get(content_of(evidence), plain))["reason"] == "permission_denied"
    half = await shelf.key(Role.REVIEWER, None, "legal")
    assert (await shelf.get(content_of(evidence), half)).status_code == 403
    assert (await shelf.get(content_of(evidence), cleared)).status_code == 200


async def test_another_scope_s_part_is_what_never_was(shelf):
    mine = await shelf.house.declare("same-run")
    evidence = await shelf.store(mine, b"yes")
    other = await shelf.house.add_scope()
    foreign = await shelf.key(Role.REVIEWER, other)
    answers = [
        await shelf.get(path, foreign)
        for path in (
            content_of(evidence), content_of(uuid4()), "/v1/parts/no-uuid/content", identity_path(mine) + "/content",
            f"/v1/parts/{evidence}", f"/v1/parts/{uuid4()}", identity_path(mine), f"/v1/runs/{mine.run}",
        )
    ]  # fmt: skip
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
    assert problem(answers[0])["reason"] == "not_found"
    assert {tuple(sorted(set(answer.headers) - {"date"})) for answer in answers} == {
        tuple(sorted(set(answers[0].headers) - {"date"}))
    }
    # The same run id in the other scope is another run.
    theirs = await shelf.house.declare("same-run", scope=other)
    await shelf.store(theirs, b"theirs")
    assert (await shelf.get(identity_path(theirs) + "/content", foreign)).content == b"theirs"
    assert await accesses(shelf) == [("reviewer", None, "read")]


# --- what stands against it


REFUSED: list[tuple[str, str, int]] = [
    ("UPDATE runs SET retain_until = now()", "retention_expired", 410),
    ("UPDATE buckets SET state = 'expired', expired_at = now()", "retention_expired", 410),
    ("UPDATE runs SET erased = true", "erased", 410),
    ("UPDATE parts SET state = 'purging', purge_reason = 'erased', purging_at = now()", "erased", 410),
    ("UPDATE parts SET state = 'purging', purge_reason = 'retention_expired'", "retention_expired", 410),
    ("UPDATE parts SET state = 'purging', purge_reason = 'source_unavailable'", "source_unavailable", 410),
    ("UPDATE parts SET state = 'purging', purge_reason = 'dependency_changed'", "dependency_changed", 410),
    ("UPDATE parts SET state = 'lost_in_restore'", "lost_in_restore", 410),
    ("DELETE FROM bodies", "lost_in_restore", 410),
    ("UPDATE sources SET revoked_at = now()", "source_unavailable", 403),
    ("UPDATE source_versions SET withdrawn_at = now()", "dependency_changed", 403),
    ("UPDATE parts SET commitment = sha256('other')", "integrity_mismatch", 500),
    ("UPDATE parts SET meta_commitment = sha256('other')", "integrity_mismatch", 500),
    ("UPDATE parts SET media_type = 'text/html'", "integrity_mismatch", 500),
    ("UPDATE parts SET size_class = 256", "integrity_mismatch", 500),
    ("UPDATE bodies SET exact_bytes = exact_bytes - 1", "integrity_mismatch", 500),
    (
        "UPDATE bodies SET ciphertext = set_bit(ciphertext, 200, 1 - get_bit(ciphertext, 200))",
        "integrity_mismatch",
        500,
    ),
    (
        "UPDATE bodies SET wrapped = set_bit(wrapped, 200, 1 - get_bit(wrapped, 200))",
        "integrity_mismatch",
        500,
    ),
    ("UPDATE bodies SET ciphertext = '\\x00'", "integrity_mismatch", 500),
]


@pytest.mark.parametrize(
    ("change", "reason", "status"), REFUSED, ids=[change[:60] for change, _, _ in REFUSED]
)
async def test_a_read_is_refused_from_the_moment_of_the_change_and_recorded(shelf, change, reason, status):
    await shelf.house.add_source("doc-7")
    secret = b"CANARY-7f3a " * 30
    evidence = await shelf.store(await shelf.house.declare(), secret, sources=[("doc-7", 1)])
    reviewer = await shelf.key(Role.REVIEWER)
    assert (await shelf.get(content_of(evidence), reviewer)).content == secret
    await shelf.house.execute(change)

    refused = await shelf.get(content_of(evidence), {**reviewer, "Custody-Purpose": "a look"})
    found = problem(refused)
    assert (found["reason"], refused.status_code) == (reason, status)
    assert b"CANARY" not in refused.content
    assert await accesses(shelf) == [("reviewer", None, "read"), ("reviewer", "a look", reason)]


async def test_a_source_that_nobody_knows_closes_content_unless_the_scope_allows_it(shelf):
    await shelf.house.add_source("doc-7")
    evidence = await shelf.store(await shelf.house.declare(), b"yes", sources=[("doc-7", None)])
    reviewer = await shelf.key(Role.REVIEWER)
    await shelf.house.execute("DELETE FROM source_versions")
    await shelf.house.execute("DELETE FROM sources")
    assert problem(await shelf.get(content_of(evidence), reviewer))["reason"] == "source_unavailable"
    await shelf.house.execute('UPDATE scopes SET policy = \'{"unknown_sources":"allow"}\'')
    assert (await shelf.get(content_of(evidence), reviewer)).content == b"yes"


async def test_a_bucket_s_lost_key_is_said_as_such_and_counted(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"yes")
    bucket = await shelf.house.value("SELECT bucket_id FROM parts")
    shelf.house.keyring.destroy_bucket_key(shelf.house.scope, bucket)
    refused = await shelf.get(content_of(evidence), await shelf.key(Role.REVIEWER))
    assert (problem(refused)["reason"], refused.status_code) == ("key_lost", 500)
    assert await accesses(shelf) == [("reviewer", None, "key_lost")]
    counted = (await shelf.get("/metrics", {})).text
    assert 'custody_integrity_failures_total{reason="key_lost"} 1.0' in counted


async def test_what_expires_while_it_is_read_is_not_called_lost(shelf, monkeypatch):
    evidence = await shelf.store(await shelf.house.declare(), b"yes")
    bucket = await shelf.house.value("SELECT bucket_id FROM parts")
    look = ContentReads._row

    async def then_it_expires(reads: ContentReads, reader: Reader, named: UUID) -> ReadRow:
        row = await look(reads, reader, named)
        await shelf.house.execute("UPDATE buckets SET state = 'expired' WHERE bucket_id = $1", bucket)
        shelf.house.keyring.destroy_bucket_key(shelf.house.scope, bucket)
        return row

    monkeypatch.setattr(ContentReads, "_row", then_it_expires)
    refused = await shelf.get(content_of(evidence), await shelf.key(Role.REVIEWER))
    assert (problem(refused)["reason"], refused.status_code) == ("retention_expired", 410)
    assert await accesses(shelf) == [("reviewer", None, "retention_expired")]


async def test_swapped_rows_do_not_open(shelf):
    run = await shelf.house.declare()
    one = await shelf.store(run, b"one")
    two = await shelf.store(run, b"two", kind=OUTPUT)
    await shelf.house.execute(
        "UPDATE bodies b SET ciphertext = o.ciphertext, wrapped = o.wrapped"
        " FROM (SELECT evidence, ciphertext, wrapped FROM bodies) o WHERE o.evidence <> b.evidence"
    )
    reviewer = await shelf.key(Role.REVIEWER)
    for evidence in (one, two):
        assert problem(await shelf.get(content_of(evidence), reviewer))["reason"] == "integrity_mismatch"


async def test_what_did_not_become_a_part_says_so_by_identity(shelf):
    run = await shelf.house.declare()
    await shelf.house.execute(
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, first_at, last_at)"
        " VALUES ($1, $2, $3, 'store', 'part_too_large', 'exchange-1', 'attempt-1', 'logical-request', now(), now())",
        run.scope, run.run_uid, ids.new_gap_id(),
    )  # fmt: skip
    reviewer = await shelf.key(Role.REVIEWER)
    refused = await shelf.get(identity_path(run) + "/content", reviewer)
    assert (problem(refused)["reason"], refused.status_code) == ("not_stored", 404)
    shown = problem(await shelf.get(identity_path(run), reviewer))
    gap = shown["gap"]
    assert isinstance(gap, dict)
    assert (shown["reason"], gap["reason"], gap["said_by"]) == ("not_stored", "part_too_large", "store")
    other = await shelf.get(identity_path(run, kind=OUTPUT) + "/content", reviewer)
    assert problem(other)["reason"] == "not_found"


# --- records and purposes


async def test_a_purpose_is_recorded_and_required_where_the_scope_says_so(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"yes")
    reviewer = await shelf.key(Role.REVIEWER)
    assert (
        await shelf.get(content_of(evidence), {**reviewer, "Custody-Purpose": "incident 7"})
    ).status_code == 200
    await shelf.house.execute("UPDATE scopes SET policy = '{\"purpose_required\":true}'")
    refused = await shelf.get(content_of(evidence), reviewer)
    assert (refused.status_code, "Custody-Purpose" in str(problem(refused)["detail"])) == (400, True)
    assert (
        await shelf.get(content_of(evidence), {**reviewer, "Custody-Purpose": "x" * 200})
    ).status_code == 200
    for wrong in ("x" * 201, "a\x7fb", ""):
        assert (
            await shelf.get(content_of(evidence), {**reviewer, "Custody-Purpose": wrong})
        ).status_code == 400
    assert await accesses(shelf) == [
        ("reviewer", "incident 7", "read"), ("reviewer", None, "malformed_request"), ("reviewer", "x" * 200, "read"),
    ]  # fmt: skip


async def test_no_byte_leaves_without_its_record(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"CANARY-7f3a")
    reviewer = await shelf.key(Role.REVIEWER)
    await shelf.house.execute("REVOKE INSERT ON accesses FROM custody_service")
    refused = await shelf.get(content_of(evidence), reviewer)
    assert (problem(refused)["reason"], refused.status_code) == ("store_unavailable", 503)
    assert b"CANARY" not in refused.content
    await shelf.house.execute("GRANT INSERT ON accesses TO custody_service")
    assert (await shelf.get(content_of(evidence), reviewer)).content == b"CANARY-7f3a"


async def test_many_reads_at_once_are_each_recorded(shelf):
    run = await shelf.house.declare()
    contents = {await shelf.store(run, b"%d" % n, exchange=f"x-{n}"): b"%d" % n for n in range(10)}
    reviewer = await shelf.key(Role.REVIEWER)

    async def read(evidence: UUID) -> tuple[UUID, bytes]:
        return evidence, (await shelf.get(content_of(evidence), reviewer)).content

    answers = await asyncio.gather(*(read(evidence) for evidence in [*contents] * 4))
    assert dict(answers) == contents
    recorded: Any = await shelf.house.rows(
        "SELECT evidence, count(*) AS reads FROM accesses GROUP BY evidence"
    )
    assert {row["evidence"]: row["reads"] for row in recorded} == dict.fromkeys(contents, 4)


async def test_parameters_that_the_call_does_not_take_are_refused(shelf):
    evidence = await shelf.store(await shelf.house.declare(), b"yes")
    reviewer = await shelf.key(Role.REVIEWER)
    refused = await shelf.get(content_of(evidence) + "?download=1", reviewer)
    assert refused.status_code == httpx.codes.BAD_REQUEST
