"""Names in Redis: one slot a shard, and a shard that never moves."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from policies.limits import ShardLimits
from store.queue import Settlement
from store.queue.keys import RunKey, ShardKeys, all_shards, identity_field, shard_of
from store.queue.runs import key_of, message_of
from store.queue.wire import append_call
from store.queue.writing import _settle_call
from tests.support.queue_frames import gap, part

ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", fullmatch=True)
runs = st.builds(RunKey, st.uuids(), ids)


@given(st.lists(runs, min_size=1, max_size=5), st.integers(0, 1023))
def test_every_key_that_one_script_touches_has_the_same_slot(keys: list[RunKey], shard: int) -> None:
    names = ShardKeys.of(shard)
    appended, _, _ = append_call(names, ShardLimits(), [part(keys[0]), *(gap(key) for key in keys)])
    settled, _, _ = _settle_call(names, [Settlement("1-1", key, "gap", "noted") for key in keys])
    singles = [names.entries, names.pending, names.epoch, names.outcomes]
    touched = {
        *appended,
        *settled,
        *singles,
        *(names.run(k) for k in keys),
        *(names.scope(k.scope) for k in keys),
    }
    assert len({key_slot(name.encode()) for name in touched}) == 1


def test_shards_lie_in_different_slots() -> None:
    assert len({key_slot(keys.entries.encode()) for keys in all_shards(16).values()}) == 16


@pytest.mark.parametrize(("run", "shard"), [("demo-run", 9), ("a", 2), ("r:1.2_3", 11)])
def test_a_runs_shard_is_the_same_for_ever(run: str, shard: int) -> None:
    assert shard_of(RunKey(UUID(int=1), run), 16) == shard


@given(st.lists(st.builds(RunKey, st.uuids(), st.text(max_size=8)), max_size=20))
def test_every_shard_is_one_of_them(keys: list[RunKey]) -> None:
    assert {shard_of(key, 4) for key in keys} <= {0, 1, 2, 3}
    assert {shard_of(key, 1) for key in keys} <= {0}


@given(st.lists(st.tuples(ids, ids, ids), min_size=2, max_size=5, unique=True))
def test_two_identities_never_share_a_field(names: list[tuple[str, str, str]]) -> None:
    assert len({identity_field(*each) for each in names}) == len(names)


@given(runs)
def test_a_runs_name_on_the_channel_reads_back(key: RunKey) -> None:
    assert key_of(message_of(key)) == key
