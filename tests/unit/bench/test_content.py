import gzip
import json
import statistics

import pytest

from bench.content import LEAST_BYTES, MOST_BYTES, Contents, Corpus, slices, supply
from store.frames import frame_encode


@pytest.fixture(scope="module")
def contents():
    return Contents(1).some(4_000)


def test_sizes_are_those_of_recorded_calls(contents):
    sizes = [len(content) for content in contents]
    assert statistics.median(sizes) == pytest.approx(700, rel=0.15)
    assert statistics.mean(sizes) == pytest.approx(4_900, rel=0.3)
    assert min(sizes) >= LEAST_BYTES
    assert max(sizes) <= MOST_BYTES


def test_no_content_comes_twice(contents):
    assert len(set(contents)) == len(contents)
    assert not set(contents) & set(Contents(2).some(1_000))


def test_the_same_seed_gives_the_same_contents(contents):
    assert Contents(1).some(100) == contents[:100]


def test_contents_compress_as_prompts_do(contents):
    long = [content for content in contents if len(content) >= 2_048]
    framed = sum(len(frame_encode(content, compress=True)) for content in long)
    assert 2.5 < sum(map(len, long)) / framed < 10


@pytest.mark.parametrize("size", [LEAST_BYTES, 4_096, MOST_BYTES])
def test_a_content_has_exactly_the_size_that_was_asked_for(size):
    content = Contents(3).one(size)
    assert len(content) == size
    assert content.isascii()


def test_slices_are_of_one_size_and_differ():
    found = slices(Contents(4), 50, 1_000)
    assert {len(each) for each in found} == {1_000}
    assert len(set(found)) == 50


@pytest.fixture
def recorded(tmp_path):
    calls = [
        {"request": {"text": "first ü"}, "response": {"base64": "AAH/"}},
        {"request": {"text": ""}, "response": {"text": "x" * MOST_BYTES}},
    ]
    path = tmp_path / "calls.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(call) + "\n" for call in calls)
    return path


def test_recorded_contents_come_as_they_are_and_then_with_a_number(recorded):
    corpus = Corpus(recorded)
    assert corpus.some(2) == ["first ü".encode(), b"\x00\x01\xff"]
    assert corpus.some(4) == [
        "first ü\n1".encode(), b"\x00\x01\xff\n1", "first ü\n2".encode(), b"\x00\x01\xff\n2",
    ]  # fmt: skip
    assert len(corpus.one(100)) == 100


def test_a_file_is_only_used_where_one_is_named(recorded):
    assert isinstance(supply(None, 1), Contents)
    assert isinstance(supply(recorded, 1), Corpus)
