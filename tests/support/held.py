"""Parts whose secrets are really wrapped, so that what moves and is wrapped anew can be opened, or no more."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from store import commitments, ids
from store.errors import Corrupt
from store.keyring import Keyring
from tests.support.duties import execute, new_parts

HELD = "9999-01-01 00:00:00+00"


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it rests."""

    span_start: datetime
    bucket_id: UUID
    wrapped: bytes
    exact_bytes: int
    ciphertext: bytes


async def sealed_parts(
    url: str, keyring: Keyring, scope: UUID, run: UUID, count: int, *, instant: datetime | None = None
) -> dict[UUID, bytes]:
    """Parts with their secrets, in the order in which they were made."""
    secrets = {each: ids.secret(32) for each in await new_parts(url, scope, run, count, instant=instant)}
    for evidence, secret in secrets.items():
        body = await body_of(url, evidence)
        assert body is not None
        wrapped = commitments.wrap_secret(
            keyring.bucket_key(scope, body.bucket_id), secret, scope, body.bucket_id, evidence
        )
        await execute(
            url,
            "UPDATE bodies SET wrapped = $2, ciphertext = $3 WHERE evidence = $1",
            evidence,
            wrapped,
            ids.secret(300),
        )
    return secrets


async def body_of(url: str, evidence: UUID) -> Body | None:
    connection = await asyncpg.connect(url)
    try:
        row = await connection.fetchrow(
            "SELECT span_start, bucket_id, wrapped, exact_bytes, ciphertext FROM bodies WHERE evidence = $1",
            evidence,
        )
    finally:
        await connection.close()
    return None if row is None else Body(*row.values())


def opens(keyring: Keyring, scope: UUID, evidence: UUID, body: Body, secret: bytes) -> bool:
    """Whether a body, perhaps one that was copied before, gives its secret with the keys that are left."""
    try:
        key = keyring.bucket_key(scope, body.bucket_id)
        return commitments.unwrap_secret(key, body.wrapped, scope, body.bucket_id, evidence) == secret
    except Corrupt:
        return False
