"""The fixtures that the other tests stand on."""

import asyncpg
import redis


async def test_each_test_has_a_migrated_database_of_its_own(database_url):
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM schema_migrations") > 0
        assert await connection.fetchval("SELECT count(*) FROM runs") == 0
        assert (await connection.fetchval("SELECT current_database()")).startswith("custody_test_")
    finally:
        await connection.close()


def test_each_test_begins_with_an_empty_queue(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_each_test_begins_with_an_empty_queue_also_after_another(redis_url):
    test_each_test_begins_with_an_empty_queue(redis_url)
