"""A proof log that is sequenced and published by itself, for tests of what waits for it: no tree, no signature."""

import asyncpg

_AT_ONCE = """
CREATE SEQUENCE places MINVALUE 0;
CREATE FUNCTION publish_at_once() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    said jsonb := convert_from(NEW.leaf, 'UTF8')::jsonb;
BEGIN
    INSERT INTO log_entries (idx, scope_id, kind, subject, leaf)
    VALUES (nextval('places'), NEW.scope_id, said ->> 'k', (said ->> 'p')::uuid, NEW.leaf);
    UPDATE log_state SET size = size + 1, published_size = published_size + 1;
    RETURN NEW;
END $$;
CREATE TRIGGER publish_at_once AFTER INSERT ON log_queue FOR EACH ROW EXECUTE FUNCTION publish_at_once();
"""
_TAKE_BACK = "DROP TRIGGER publish_at_once ON log_queue"
_PUBLISH = """
INSERT INTO log_entries (idx, scope_id, kind, subject, leaf)
SELECT nextval('places'), scope_id, said ->> 'k', (said ->> 'p')::uuid, leaf
FROM (SELECT id, scope_id, leaf, convert_from(leaf, 'UTF8')::jsonb AS said FROM log_queue ORDER BY id) AS q
WHERE NOT EXISTS (SELECT 1 FROM log_entries l WHERE l.leaf = q.leaf);
UPDATE log_state SET size = (SELECT count(*) FROM log_entries), published_size = (SELECT count(*) FROM log_entries);
"""


async def publish_at_once(url: str) -> None:
    """Publish every leaf with the transaction that queues it; it stays in the queue for the test to see."""
    await _execute(url, _AT_ONCE)


async def publish_no_more(url: str) -> None:
    """Leave what is queued from now on unpublished."""
    await _execute(url, _TAKE_BACK)


async def publish(url: str) -> None:
    """Publish what waits, once."""
    await _execute(url, _PUBLISH)


async def _execute(url: str, text: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(text)
    finally:
        await connection.close()
