"""The published log over HTTP: who gets what of it, and whether it proves what it says; and reads that are closed."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from policies.kinds import Role
from store.log_tree.hashes import leaf_hash
from store.log_tree.notes import verify_checkpoint
from store.log_tree.proofs import parse_tlog_proof, verify_inclusion
from store.log_tree.tiles import parse_bundle
from tests.support import log
from tests.support.api import bearer, problem
from tests.support.duties import execute, new_scope
from tests.support.exporting import LOG, published
from tests.support.reading import Library, identity_path, library

READS = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR)


@pytest.fixture
async def shelf(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Library]:
    async with library(database_url, redis_url, keys_dir) as opened:
        yield opened


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


async def test_a_part_s_proof_shows_its_leaf_under_the_signed_checkpoint(shelf, mirror):
    run = await shelf.house.declare()
    parts = [await shelf.store(run, b"content", exchange=f"x-{number}") for number in range(5)]
    keys = [await shelf.key(role) for role in READS]
    for key in keys:
        waiting = await shelf.get(f"/v1/log/proof/{parts[3]}", key)
        assert (waiting.status_code, problem(waiting)["reason"]) == (404, "not_found")
        assert "pending" in str(problem(waiting)["detail"])
        assert problem(await shelf.get("/v1/log/checkpoint", key))["reason"] == "not_found"
    await published(shelf.house.duties, mirror)
    for key in keys:
        answer = await shelf.get(f"/v1/log/proof/{parts[3]}", key)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert answer.headers["cache-control"] == "no-store"
        proof = parse_tlog_proof(answer.content)
        checkpoint = verify_checkpoint(proof.note, LOG.key)
        assert proof.note == (await shelf.get("/v1/log/checkpoint", key)).content
        entry = base64.b64decode(answer.headers["custody-leaf"])
        assert parts[3].hex in entry.decode()
        assert verify_inclusion(leaf_hash(entry), proof.index, checkpoint.size, proof.hashes, checkpoint.root)
        assert (checkpoint.size, checkpoint.root) == (6, log.root_of(await log.entries(shelf.house.url)))


async def test_a_proof_is_for_who_may_see_the_part_and_others_learn_nothing(shelf, mirror):
    part = await shelf.store(await shelf.house.declare(), b"content")
    await published(shelf.house.duties, mirror)
    elsewhere = await shelf.key(Role.REVIEWER, await new_scope(shelf.house.url))
    answers = [await shelf.get(f"/v1/log/proof/{each}", elsewhere) for each in (part, uuid4(), "x")]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    for role in (Role.RUNTIME, Role.OPERATOR):
        answer = await shelf.get(f"/v1/log/proof/{part}", await shelf.key(role))
        assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")


async def test_tiles_are_for_readers_and_entries_for_operators_of_the_whole_store(shelf, mirror):
    url = shelf.house.url
    await log.grow(url, 300)
    await published(shelf.house.duties, mirror)
    there = await log.entries(url)
    await log.grow(url, 20)
    reviewer = await shelf.key(Role.REVIEWER)
    hashes = b"".join(map(leaf_hash, there))
    for path, expected in (
        ("0/000", hashes[: 256 * 32]), ("0/000.p/1", hashes[:32]), ("0/001.p/45", hashes[256 * 32 :]),
        ("0/001.p/3", hashes[256 * 32 : 259 * 32]), ("1/000.p/1", log.root_of(there[:256])),
    ):  # fmt: skip
        answer = await shelf.get(f"/v1/log/tile/{path}", reviewer)
        assert (answer.status_code, answer.content) == (200, expected), path
    # What is not published yet, and what is no path.
    for path in (
        "0/001.p/46",
        "0/001",
        "1/000.p/2",
        "2/000.p/1",
        "0/0",
        "0/x000/000",
        "0/000.p/0",
        "8/000",
        "a/000",
    ):
        answer = await shelf.get(f"/v1/log/tile/{path}", reviewer)
        assert (answer.status_code, problem(answer)["reason"]) == (404, "not_found"), path
    for key in (reviewer, await shelf.key(Role.AUDITOR), await shelf.key(Role.OPERATOR)):
        answer = await shelf.get("/v1/log/tile/entries/000", key)
        assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")
    whole = bearer(await shelf.api.key(Role.OPERATOR))
    for path, entries in (("entries/000", there[:256]), ("entries/001.p/45", there[256:])):
        answer = await shelf.get(f"/v1/log/tile/{path}", whole)
        assert parse_bundle(answer.content) == entries
    assert (await shelf.get("/v1/log/tile/entries/001.p/46", whole)).status_code == 404
    assert (await shelf.get("/v1/log/tile/0/000", await shelf.key(Role.RUNTIME))).status_code == 403


async def test_a_part_says_how_it_stands_in_the_log(shelf, mirror):
    run = await shelf.house.declare()
    part = await shelf.store(run, b"content")
    key = await shelf.key(Role.REVIEWER)

    async def states() -> set[Any]:
        (listed,) = (await shelf.json("/v1/parts", key))["items"]
        alone = [await shelf.json(path, key) for path in (f"/v1/parts/{part}", identity_path(run))]
        return {("list", listed["proof_state"]), *(("alone", each["proof_state"]) for each in alone)}

    assert await states() == {("list", "pending"), ("alone", "pending")}
    await published(shelf.house.duties, mirror)
    assert await states() == {("list", "not_checked"), ("alone", "verified")}
    assert (await shelf.get(f"/v1/parts/{part}/content", key)).content == b"content"


EDITS = {
    "the metadata": "UPDATE parts SET vantage = 'wire'",
    "its commitment": "UPDATE parts SET meta_commitment = sha256('x')",
    "the content's commitment": "UPDATE parts SET commitment = sha256('x')",
    "when it was stored": "UPDATE parts SET stored_at = stored_at - interval '1 minute'",
    "the leaf": "UPDATE log_entries SET leaf = overlay(leaf PLACING '9' FROM length(leaf) - 1) WHERE kind = 'part'",
    "the tree": "UPDATE log_state SET open_tiles = ARRAY[decode(repeat('00', 64), 'hex')]",
    "the checkpoint": "UPDATE log_checkpoints SET note = overlay(note PLACING '3' FROM position(E'\\n2' IN note) + 1)",
}


SAVE = (
    "CREATE TABLE saved_parts AS SELECT evidence, vantage, commitment, meta_commitment, stored_at FROM parts",
    "CREATE TABLE saved_entries AS SELECT idx, leaf FROM log_entries",
    "CREATE TABLE saved_state AS SELECT open_tiles FROM log_state",
    "CREATE TABLE saved_checkpoints AS SELECT size, note FROM log_checkpoints",
)
UNDO = (
    (
        "UPDATE parts p SET (vantage, commitment, meta_commitment, stored_at)"
        " = (SELECT vantage, commitment, meta_commitment, stored_at FROM saved_parts s WHERE s.evidence = p.evidence)"
    ),
    "UPDATE log_entries e SET leaf = s.leaf FROM saved_entries s WHERE s.idx = e.idx",
    "UPDATE log_state SET open_tiles = s.open_tiles FROM saved_state s",
    "UPDATE log_checkpoints c SET note = s.note FROM saved_checkpoints s WHERE s.size = c.size",
)


async def test_an_insider_s_edit_shows_in_the_proof_state_and_to_who_reads(shelf, mirror):
    part = await shelf.store(await shelf.house.declare(), b"content")
    await published(shelf.house.duties, mirror)
    key = await shelf.key(Role.REVIEWER)
    for statement in SAVE:
        await execute(shelf.house.url, statement)
    for what, edit in EDITS.items():
        await execute(shelf.house.url, edit)
        assert (await shelf.json(f"/v1/parts/{part}", key))["proof_state"] == "failed", what
        content = await shelf.get(f"/v1/parts/{part}/content", key)
        proof = await shelf.get(f"/v1/log/proof/{part}", key)
        refused = [each for each in (content, proof) if each.status_code != 200]
        assert [(each.status_code, problem(each)["reason"]) for each in refused] == [
            (500, "integrity_mismatch")
        ] * len(refused), what
        # What is wrong with the log alone leaves the part what its row and its leaf say.
        assert (content.status_code == 200) == (what in {"the tree", "the checkpoint"}), what
        assert refused, what
        for statement in UNDO:
            await execute(shelf.house.url, statement)
        assert (await shelf.json(f"/v1/parts/{part}", key))["proof_state"] == "verified", what


CLOSED = {
    "stopped": "UPDATE log_state SET stop = 'rolled_back', stopped_at = now()",
    "half restored": "DELETE FROM log_state",
    "not compared for long": "UPDATE log_state SET compared_at = now() - interval '16 minutes'",
}


@pytest.mark.parametrize("why", CLOSED)
async def test_while_reads_are_closed_nothing_of_evidence_is_shown(shelf, mirror, why):
    run = await shelf.house.declare()
    part = await shelf.store(run, b"content")
    await published(shelf.house.duties, mirror)
    key, auditor = await shelf.key(Role.CUSTODIAN), await shelf.key(Role.AUDITOR)
    await execute(shelf.house.url, CLOSED[why])
    for path in (
        "/v1/parts", f"/v1/parts/{part}", f"/v1/parts/{part}/content",
        identity_path(run), f"{identity_path(run)}/content",
        "/v1/runs", f"/v1/runs/{run.run}", f"/v1/runs/{run.run}/gaps", "/v1/attempts?ref=x", "/v1/accesses",
        "/v1/log/checkpoint", "/v1/log/tile/0/000.p/1", f"/v1/log/proof/{part}",
    ):  # fmt: skip
        for reader in (key, auditor):
            if path.endswith("/content") and reader is auditor:
                continue
            answer = await shelf.get(path, reader)
            told = problem(answer)
            assert (answer.status_code, told["reason"], told["retryable"]) == (503, "reads_closed", True), (
                path
            )
    # Captures go on.
    await shelf.store(run, b"more", exchange="x-2")
    ready = (await shelf.api.client.get("/readyz")).json()
    assert ready["reads_closed"] == {"stopped": "rolled_back"}.get(why, "not_compared")
    metrics = (await shelf.api.client.get("/metrics")).text
    assert "custody_reads_closed 1.0" in metrics
