"""Whether parts still are what they were committed to: row, body, wrapped secret, ciphertext, content, metadata."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Final

from policies.reasons import Reason
from policies.revocation import Binding
from store import commitments
from store.commitments import Identity
from store.db import Connection
from store.errors import Corrupt
from store.keyring import Keyring
from store.services import marks, sizes
from store.tables import verify as table
from store.tables.held_bodies import HELD
from store.tables.verify import BodyRow, BucketRow, Key, PartRow

# Above what any scope may allow; a frame that holds more is no part of ours.
_MOST_BYTES: Final = 64 << 20


async def bodies_of(connection: Connection, parts: list[PartRow]) -> Mapping[Key, BodyRow]:
    """Return the bodies that these parts have."""
    by_span: dict[datetime, list[Key]] = {}
    for part in parts:
        by_span.setdefault(part.span_start, []).append(part.key)
    found: dict[Key, BodyRow] = {}
    for span_start, keys in by_span.items():
        found |= await table.bodies_of(connection, span_start, keys)
    return found


def bucket_faults(row: BucketRow, attached: Collection[datetime], keyring: Keyring) -> Iterator[str]:
    """Name what is wrong with one bucket."""
    if row.state == "live" and not keyring.has_bucket_key(row.scope_id, row.key_id):
        yield "bucket_key_missing"
    # What holds beyond a span has none; its partition is there by the schema.
    if row.state == "live" and row.span_start is not None and row.span_start not in attached:
        yield "partition_missing"
    if row.state == "destroyed" and any(keyring.has_bucket_key(row.scope_id, key) for key in row.keys):
        yield "bucket_key_left"


def faults_of(part: PartRow, body: BodyRow | None, keyring: Keyring) -> Iterator[str]:
    """Name what is wrong with one part; nothing for one that is as it should be."""
    if part.run is None:
        yield "run_missing"
    if part.bucket_state is None:
        yield "bucket_missing"
    elif part.bucket_span != part.span_start and not _moved(part):
        yield "bucket_of_another_span"
    yield from _metadata_faults(part, keyring)
    if part.state == "stored" and (part.bucket_state == "live" or _moved(part)):
        yield from ["body_missing"] if body is None else _body_faults(part, body, keyring)


def _metadata_faults(part: PartRow, keyring: Keyring) -> Iterator[str]:
    bindings = [
        Binding(source, version)
        for source, version in zip(part.sources or (), part.versions or (), strict=True)
    ]
    if part.source_set is not None:
        lookup = keyring.token_key("lookup")
        if not bindings or marks.source_set_id(lookup, part.scope_id, bindings) != part.source_set:
            yield "source_set_mismatch"
    meta = commitments.meta_bytes(
        _identity(part),
        bucket=part.bucket_id,
        captured_at=part.captured_at,
        completeness=part.completeness,
        media_type=part.media_type,
        received_at=part.received_at,
        sequence=part.sequence,
        session=part.session,
        size_class=part.size_class,
        sources=[(binding.source, binding.version) for binding in bindings],
        vantage=part.vantage,
    )
    if commitments.meta_commitment(part.meta_opening, meta) != part.meta_commitment:
        yield "metadata_mismatch"


def _body_faults(part: PartRow, body: BodyRow, keyring: Keyring) -> Iterator[str]:
    try:
        bucket_key = keyring.bucket_key(part.scope_id, body.bucket_id)
    except Corrupt:
        yield Reason.KEY_LOST
        return
    try:
        secret = commitments.unwrap_secret(
            bucket_key, body.wrapped, part.scope_id, body.bucket_id, part.evidence
        )
    except Corrupt:
        yield "secret_unreadable"
        return
    try:
        frame = commitments.open_part(secret, body.ciphertext, _identity(part), part.evidence)
        content = commitments.frame_decode(frame, _MOST_BYTES)
    except Corrupt:
        yield "ciphertext_unreadable"
        return
    _, opening = commitments.part_keys(secret)
    if not commitments.same(commitments.commitment(opening, content), part.commitment):
        yield "content_mismatch"
    size = sizes.exact(keyring.token_key("lookup"), part.evidence, body.exact_bytes)
    if size != len(content) or commitments.size_class(len(content)) != part.size_class:
        yield "size_mismatch"


def _moved(part: PartRow) -> bool:
    """Say whether its body was moved out of its span, since it is held."""
    return part.span_start == HELD


def _identity(part: PartRow) -> Identity:
    return Identity(part.scope_id, part.run or "", part.exchange, part.attempt, part.kind)
