"""Read is not read whole: what was skipped, repeated, cut or changed is said, and never counted as read."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from custody_toolchain.coverage import Coverage, Intervals, Page, Version, file_id, utf8_end
from custody_toolchain.facts import CoverageFact, Deviation, encode

MiB = 1024 * 1024


def page(asked, size, *, granted=None, of=None, path="/texts/a.txt", **said):
    """Return a page as a well-behaved tool gives it: `granted` bytes from where it was asked, and where to go on."""
    granted = size if granted is None else granted
    eof = of is not None and asked + granted >= of
    told = {"next_offset": None if eof else asked + granted, "eof": eof}
    return Page(path, asked, size, asked, granted, **{**told, **said})


def read(text, size):
    """Read a whole text by pages of at most `size` bytes that cut no character, as a tool would."""
    data, at, pages = text.encode(), 0, []
    while True:
        got = data[at : at + size]
        got = got[: utf8_end(got)] if at + size < len(data) else got
        pages.append(page(at, size, granted=len(got), of=len(data)))
        at += len(got)
        if at >= len(data):
            return pages


def cover(*pages):
    ledger = Coverage("run-1")
    return [ledger.read(one) for one in pages]


# Ranges


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12))), st.integers(0, 80))
def test_ranges_are_what_a_set_of_bytes_is(added, stop):
    ranges = Intervals()
    model: set[int] = set()
    for start, size in added:
        assert ranges.overlap(start, start + size) == len(model & set(range(start, start + size)))
        ranges.add(start, start + size)
        model |= set(range(start, start + size))
    found = ranges.ranges
    assert {byte for start, end in found for byte in range(start, end)} == model
    assert all(one[1] < other[0] for one, other in pairwise(found))
    assert ranges.frontier == next(byte for byte in range(100) if byte not in model)
    assert ranges.size == len(model)
    assert ranges.end == max(model, default=-1) + 1
    missing = {byte for start, end in ranges.gaps(stop) for byte in range(start, end)}
    assert missing == set(range(stop)) - model


def test_ranges_without_room_are_not_claimed():
    ranges = Intervals(most=2)
    for start in (0, 10, 20):
        ranges.add(start, start + 5)
    assert ranges.ranges == ((0, 5), (10, 15))
    assert ranges.dropped == 1
    ranges.add(5, 10)
    ranges.add(20, 25)
    assert ranges.ranges == ((0, 15), (20, 25))


@pytest.mark.parametrize("bad", [(-1, 3), (3, 2)])
def test_a_range_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="range"):
        Intervals().add(*bad)


# Pages in order


def test_evidence_in_the_last_bytes_is_only_read_when_the_frontier_is_there():
    size = 3 * 4000 + 17
    ledger = Coverage("run-1")
    for at in range(0, 12_000, 4000):
        reading = ledger.read(page(at, 4000, of=size))
        assert not reading.coverage.whole
    assert reading.coverage.gaps == ()
    last = ledger.read(page(12_000, 4000, granted=17, of=size))
    assert last.coverage.whole
    assert last.coverage.frontier == last.coverage.end == size
    assert (last.asked, last.granted, last.clamped) == (4000, 17, 0)
    assert last.deviations == ()


@pytest.mark.parametrize("character", ["é", "漢", "😀"], ids=["2 bytes", "3 bytes", "4 bytes"])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [4, 5, 4000])
def test_pages_cut_inside_characters_are_whole_all_the_same(character, before, size):
    readings = cover(*read("x" * before + character * 3000, size))
    last = readings[-1].coverage
    assert last.whole
    assert last.ranges == ((0, before + 3000 * len(character.encode())),)
    assert set(last.deviations) <= {Deviation.CLAMPED}


def test_4000_asked_and_3998_given_is_three_numbers_and_going_on_at_4000_a_gap():
    first, second = cover(page(0, 4000, granted=3998, of=9000), page(4000, 6000, granted=5000, of=9000))
    assert (first.asked, first.granted, first.clamped) == (4000, 3998, 2)
    assert first.deviations == (Deviation.CLAMPED,)
    assert second.expected == 3998
    assert second.deviations == (Deviation.SELF_COMPUTED, Deviation.SKIPPED)
    assert not second.coverage.whole
    assert second.coverage.gaps == ((3998, 4000),)
    assert second.coverage.frontier == 3998


def test_the_end_of_a_file_behind_a_gap_completes_nothing():
    readings = cover(page(0, 3998), page(7998, 1000, of=8998))
    assert not readings[-1].coverage.whole
    assert readings[-1].coverage.end == 8998
    assert readings[-1].coverage.gaps == ((3998, 7998),)
    filled = cover(page(0, 3998), page(7998, 1000, of=8998), page(3998, 4000))[-1]
    assert filled.coverage.whole
    assert filled.deviations == ()


def test_a_repeat_is_named_and_counted_once():
    _, again = cover(page(0, 100), page(0, 100))
    assert again.deviations == (Deviation.REPEATED,)
    assert again.coverage.ranges == ((0, 100),)
    assert again.coverage.pages == 2


def test_a_start_in_the_middle_is_named():
    (reading,) = cover(page(500, 100, of=600))
    assert set(reading.deviations) == {Deviation.STARTED_IN_THE_MIDDLE, Deviation.SELF_COMPUTED}
    assert reading.coverage.frontier == 0
    assert not reading.coverage.whole


def test_an_offset_that_a_tool_named_is_no_invention():
    ledger = Coverage("run-1")
    ledger.offer("/texts/a.txt", 500)
    reading = ledger.read(page(500, 100))
    assert reading.deviations == (Deviation.STARTED_IN_THE_MIDDLE,)


def test_without_a_next_offset_of_the_tools_every_next_one_is_computed():
    _, second = cover(page(0, 100, next_offset=None), page(100, 100))
    assert second.expected is None
    assert second.deviations == (Deviation.SELF_COMPUTED,)
    assert second.coverage.ranges == ((0, 200),)


def test_an_empty_file_is_whole_once_it_was_looked_at():
    ledger = Coverage("run-1")
    assert ledger.of("/texts/a.txt") is None
    reading = ledger.read(page(0, 4000, granted=0, of=0))
    assert reading.coverage.whole
    assert reading.coverage.end == 0
    assert reading.coverage.ranges == ()


def test_an_empty_page_far_behind_the_end_says_nothing_of_where_the_end_is():
    _, beyond = cover(page(0, 100), page(5000, 100, granted=0, eof=True, next_offset=None))
    assert beyond.coverage.end is None
    assert not beyond.coverage.whole


def test_an_empty_page_at_the_frontier_says_that_the_end_is_there():
    _, last = cover(page(0, 100), page(100, 100, granted=0, eof=True, next_offset=None))
    assert last.coverage.end == 100
    assert last.coverage.whole


def test_a_size_that_is_told_is_an_end_too():
    (reading,) = cover(page(0, 100, version=Version(size=100)))
    assert reading.coverage.whole
    (reading,) = cover(page(0, 100, version=Version(size=101)))
    assert not reading.coverage.whole


# Files that change


@pytest.mark.parametrize(
    "told",
    [
        (Version(modified_ns=1), Version(modified_ns=2)),
        (Version(sha256="a"), Version(sha256="b")),
        (Version(size=200), Version(size=300)),
    ],
    ids=["time", "hash", "size"],
)
def test_a_change_between_pages_is_said_and_what_was_read_is_no_version(told):
    old, new = told
    _, second = cover(page(0, 100, version=old), page(100, 100, of=200, version=new))
    assert Deviation.CHANGED in second.deviations
    assert not second.coverage.one_version
    assert second.coverage.frontier == 200


def test_read_anew_from_its_beginning_a_changed_file_is_one_version_again():
    old, new = Version(modified_ns=1), Version(modified_ns=2)
    readings = cover(page(0, 180, version=old), page(0, 150, version=new), page(150, 50, of=200, version=new))
    assert Deviation.CHANGED in readings[1].deviations
    assert readings[1].coverage.ranges == ((0, 150),)
    assert readings[2].deviations == ()
    last = readings[-1].coverage
    assert last.whole
    assert last.one_version
    assert Deviation.CHANGED in last.deviations


def test_what_was_known_of_the_version_before_is_no_change_of_the_one_that_is_read_from_its_beginning():
    old = Version(size=10, sha256="a", modified_ns=1)
    readings = cover(
        page(0, 10, of=10, version=old),
        page(0, 6, version=Version(size=12)),
        page(6, 6, of=12, version=Version(size=12, sha256="b", modified_ns=2)),
    )
    assert Deviation.CHANGED in readings[1].deviations
    assert readings[2].deviations == ()
    assert readings[2].coverage.whole
    assert readings[2].coverage.one_version


def test_a_file_that_shrinks_is_not_whole_because_more_than_it_was_read():
    _, second = cover(
        page(0, 8000, version=Version(size=10_000)),
        page(8000, 2000, granted=0, eof=True, next_offset=None, version=Version(size=5000)),
    )
    assert set(second.deviations) == {Deviation.CHANGED, Deviation.SHRUNK}
    assert not second.coverage.whole
    assert not second.coverage.one_version


def test_a_file_that_grows_after_its_end_is_not_whole_any_more():
    first, second, third = cover(
        page(0, 100, of=100), page(0, 50, version=Version(size=150)), page(50, 100, of=150)
    )
    assert first.coverage.whole
    assert not second.coverage.whole
    assert Deviation.CHANGED in second.deviations
    assert third.coverage.whole


def test_an_empty_file_that_has_grown_is_changed():
    _, second = cover(page(0, 10, granted=0, of=0), page(0, 10, of=10))
    assert Deviation.CHANGED in second.deviations
    assert second.coverage.whole


def test_a_size_and_an_end_that_contradict_each_other_are_a_change():
    (reading,) = cover(page(0, 90, of=90, version=Version(size=100)))
    assert reading.deviations == (Deviation.CHANGED,)
    assert not reading.coverage.whole


# Which file


def test_one_files_end_does_not_complete_another():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/a"))
    ledger.read(page(0, 200, path="/b", of=200))
    one, other = ledger.of("/a"), ledger.of("/b")
    assert one is not None
    assert other is not None
    assert not one.whole
    assert other.whole
    assert one.end is None


def test_paths_are_normalised():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/texts//x/../a.txt"))
    ledger.read(page(100, 100, of=200, path="//texts/./a.txt"))
    assert [known.whole for known in ledger.files] == [True]


def test_a_path_that_is_no_unicode_is_a_file_as_any():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, of=100, path="/texts/\ud800.txt"))
    ledger.read(page(0, 100, path="/texts/\udcff.txt"))
    assert [known.whole for known in ledger.files] == [True, False]


def test_pages_that_threads_tell_of_at_once_are_counted_one_after_the_other():
    draw = random.Random(7)
    places = [[draw.randrange(10**6) for _ in range(1000)] for _ in range(4)]
    ledger = Coverage("run-1", most_ranges=10_000)
    wait = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda mine: [ledger.read(page(at, 5)) for at in mine], places))
    finally:
        sys.setswitchinterval(wait)
    known = ledger.of("/texts/a.txt")
    assert known is not None
    given = {byte for mine in places for at in mine for byte in range(at, at + 5)}
    assert {byte for start, stop in known.ranges for byte in range(start, stop)} == given


@pytest.mark.parametrize("same", ["1:7", None])
def test_a_file_linked_twice_is_one_file_exactly_where_its_id_is_told(same):
    version = Version(id=same)
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/link-1", version=version))
    ledger.read(page(100, 100, path="/link-2", of=200, version=version))
    assert [known.whole for known in ledger.files] == ([True] if same else [False, False])
    assert len(ledger.files) == (1 if same else 2)


def test_a_path_that_leads_to_another_file_now_is_that_file():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/a", version=Version(id="1")))
    ledger.read(page(0, 100, path="/b", version=Version(id="2")))
    reading = ledger.read(page(100, 50, path="/a", of=150, version=Version(id="2")))
    assert reading.coverage.whole
    assert ledger.of("/a") == reading.coverage
    assert [known.whole for known in ledger.files] == [False, True]


OLD, NEW = Version(size=200, id="8:1"), Version(size=200, id="8:2")


def test_the_end_of_a_file_that_was_moved_away_completes_the_file_that_took_its_path_no_more():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/log", version=OLD))
    # The log is rotated: what was /log is /log.1 now, and /log another file.
    new = ledger.read(page(0, 100, path="/log", version=NEW))
    assert new.deviations == (Deviation.CHANGED,)
    assert (new.coverage.frontier, new.coverage.whole, new.coverage.one_version) == (100, False, True)
    rest = ledger.read(page(100, 100, path="/log.1", of=200, version=OLD))
    assert rest.deviations == ()
    assert (rest.coverage.whole, rest.coverage.one_version, rest.coverage.pages) == (True, True, 2)
    assert ledger.of("/log.1") == rest.coverage
    assert ledger.of("/log") == new.coverage
    assert [known.whole for known in ledger.files] == [True, False]
    assert ledger.read(page(100, 100, path="/log", of=200, version=NEW)).coverage.whole


def test_the_rest_of_another_file_at_the_same_path_completes_nothing():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/a", version=OLD))
    rest = ledger.read(page(100, 100, path="/a", of=200, version=NEW))
    # A tool had said to go on there, hence that is no invention of the model's.
    assert rest.deviations == (Deviation.CHANGED, Deviation.STARTED_IN_THE_MIDDLE)
    assert rest.expected == 100
    assert (rest.coverage.whole, rest.coverage.gaps, rest.coverage.one_version) == (False, ((0, 100),), True)
    begun = ledger.read(page(0, 100, path="/a", version=NEW))
    assert begun.deviations == ()
    assert begun.coverage.whole


def test_a_file_that_is_read_without_its_id_and_then_with_it_is_one():
    for one, other in ((Version(), OLD), (OLD, Version())):
        _, second = cover(page(0, 100, version=one), page(100, 100, of=200, version=other))
        assert second.coverage.whole
        assert second.deviations == ()


def test_the_id_of_a_file_is_known_beyond_a_version_that_was_told_without_it():
    ledger = Coverage("run-1")
    ledger.read(page(0, 100, path="/a", version=OLD))
    ledger.read(page(0, 100, path="/a", version=Version(size=300)))
    other = ledger.read(page(100, 200, path="/a", of=300, version=Version(size=300, id="8:2")))
    assert not other.coverage.whole
    assert [known.frontier for known in ledger.files] == [100, 0]


def test_an_id_that_comes_back_at_its_path_after_another_is_a_new_file():
    """A file system gives the number of a file that is gone to the next one."""
    ledger = Coverage("run-1")
    for version in (OLD, NEW):
        ledger.read(page(0, 100, path="/a", version=version))
    rest = ledger.read(page(100, 100, path="/a", of=200, version=OLD))
    assert Deviation.CHANGED in rest.deviations
    assert not rest.coverage.whole
    assert [known.ranges for known in ledger.files] == [((0, 100),), ((0, 100),), ((100, 200),)]
    assert ledger.read(page(0, 100, path="/a", version=OLD)).coverage.whole


def moved_over(ledger):
    """Read half of a file and half of another, and find the first at the path of the second."""
    ledger.read(page(0, 100, path="/a.tmp", version=OLD))
    ledger.read(page(0, 100, path="/a", version=NEW))
    return ledger.read(page(0, 100, path="/a", version=OLD))


def test_a_known_file_that_is_moved_over_another_is_a_change_at_that_path_and_keeps_what_was_read_of_it():
    ledger = Coverage("run-1")
    there = moved_over(ledger)
    assert there.deviations == (Deviation.CHANGED, Deviation.REPEATED)
    assert (there.coverage.frontier, there.coverage.pages, there.coverage.one_version) == (100, 2, True)
    rest = ledger.read(page(100, 100, path="/a", of=200, version=OLD))
    assert rest.deviations == ()
    assert rest.coverage.whole
    assert len(ledger.files) == 2


def test_an_id_that_comes_back_at_the_path_that_a_known_file_took_is_a_new_file():
    ledger = Coverage("run-1")
    moved_over(ledger)
    rest = ledger.read(page(100, 100, path="/a", of=200, version=NEW))
    assert rest.deviations == (Deviation.CHANGED, Deviation.STARTED_IN_THE_MIDDLE)
    assert (rest.coverage.whole, rest.coverage.ranges) == (False, ((100, 200),))
    assert [known.ranges for known in ledger.files] == [((0, 100),), ((0, 100),), ((100, 200),)]


def test_an_id_is_new_at_each_path_from_which_its_file_is_gone():
    ledger = Coverage("run-1")
    for path in ("/a", "/b"):
        ledger.read(page(0, 100, path=path, version=OLD))
    for path in ("/a", "/b"):
        ledger.read(page(0, 100, path=path, version=NEW))
    for path in ("/a", "/b"):
        rest = ledger.read(page(100, 100, path=path, of=200, version=OLD))
        assert Deviation.CHANGED in rest.deviations
        assert not rest.coverage.whole


def test_what_a_tool_had_named_at_a_path_is_no_invention_for_the_known_file_that_took_it():
    ledger = Coverage("run-1")
    ledger.read(page(0, 200, path="/a", of=200, version=OLD))
    ledger.read(page(0, 70, path="/b", version=NEW))
    ledger.offer("/c", 80)
    taken = ledger.read(page(70, 10, path="/b", version=OLD))
    assert taken.deviations == (Deviation.CHANGED, Deviation.REPEATED)
    assert taken.expected == 70
    # Nobody knows that another file was there.
    assert ledger.read(page(80, 10, path="/c", version=OLD)).deviations == (Deviation.REPEATED,)


def test_a_file_whose_path_a_known_one_took_has_a_name_of_its_own():
    facts: list[CoverageFact] = []
    ledger = Coverage("run-1", report=facts.append)  # type: ignore[arg-type] # only these come
    moved_over(ledger)
    ledger.read(page(0, 100, path="/a", version=Version(size=200, id="8:3")))
    ledger.read(page(100, 100, path="/b", of=200, version=NEW))
    names = [fact.file for fact in facts]
    assert names[1] == names[3] == file_id("run-1", "/a")
    assert names[0] == names[2] == file_id("run-1", "/a.tmp")
    assert names[4] == file_id("run-1", "/a", NEW.id)
    assert len({known.file for known in ledger.files}) == 3


def test_the_files_that_one_path_led_to_have_names_of_their_own():
    facts: list[CoverageFact] = []
    ledger = Coverage("run-1", report=facts.append)  # type: ignore[arg-type] # only these come
    for path, version in (("/log", OLD), ("/log", NEW), ("/log.1", OLD), ("/log", NEW), ("/log.1", OLD)):
        ledger.read(page(0, 100, path=path, version=version))
    assert [fact.file == file_id("run-1", "/log") for fact in facts] == [True, True, False, True, False]
    assert facts[2].file == facts[4].file == file_id("run-1", "/log", OLD.id)
    assert facts[2].file != file_id("run-1", "/log.1")


def test_files_to_which_no_path_leads_make_room_for_others():
    ledger = Coverage("run-1", most_files=2)
    ledger.read(page(0, 100, path="/a"))
    for number in range(10):
        again = ledger.read(page(0, 100, path="/log", of=100, version=Version(id=f"8:{number}")))
        assert again.coverage.whole
    assert [known.whole for known in ledger.files] == [False, True]
    assert ledger.files_dropped == 9
    # What is forgotten is not claimed.
    late = ledger.read(page(100, 0, path="/log.1", eof=True, version=Version(id="8:3")))
    assert not late.coverage.whole
    assert ledger.of("/log.1") is None


def test_a_file_without_room_is_not_known_by_its_id_either():
    ledger = Coverage("run-1", most_files=1)
    ledger.read(page(0, 100, path="/a"))
    ledger.read(page(0, 100, path="/b", version=NEW))
    assert ledger.read(page(100, 100, path="/b", of=200, version=NEW)).coverage.pages == 1


def test_files_are_bounded_and_what_has_no_room_never_adds_up():
    ledger = Coverage("run-1", most_files=2)
    for name in ("/a", "/b", "/c", "/c"):
        reading = ledger.read(page(0, 100, path=name))
    assert len(ledger.files) == 2
    assert ledger.files_dropped == 2
    assert reading.coverage.pages == 1


def test_offsets_are_bytes_from_zero():
    with pytest.raises(ValueError, match="bytes"):
        page(-1, 10)


# Facts


def test_a_fact_names_no_path_and_fits():
    facts: list[CoverageFact] = []
    ledger = Coverage("run-1", report=facts.append)  # type: ignore[arg-type] # only these come
    far = 2**52
    for at in range(0, 100, 2):
        ledger.read(page(far + at, 1, path="/home/secret-name.txt", action="a1"))
    assert len(facts) == 50
    for fact in facts:
        assert b"secret" not in encode(fact)
    assert facts[-1].file == file_id("run-1", "/home/x/../secret-name.txt")
    assert facts[-1].file != file_id("run-2", "/home/secret-name.txt")
    assert len(facts[-1].ranges) + facts[-1].more == 50
    assert facts[-1].action == "a1"
    assert len({fact.fact for fact in facts}) == 50


def test_a_caller_may_name_the_file_and_an_odd_name_is_refused():
    facts: list[CoverageFact] = []
    ledger = Coverage("run-1", report=facts.append)  # type: ignore[arg-type] # only these come
    ledger.read(page(0, 10), file="annual-report")
    assert facts[0].file == "annual-report"
    with pytest.raises(ValueError, match="a file's id"):
        ledger.read(page(0, 10), file="/etc/passwd")


def test_a_report_that_raises_changes_no_count():
    def raising(_):
        raise ValueError

    ledger = Coverage("run-1", report=raising)
    assert ledger.read(page(0, 10, of=10)).coverage.whole
    assert ledger.reports_failed == 1


# Against a model


class Reader(RuleBasedStateMachine):
    """Reads a file that nobody changes, page by page in any order, with a tool that gives what it likes."""

    size = 50

    def __init__(self):
        super().__init__()
        self.ledger = Coverage("run-1")
        self.seen: set[int] = set()
        self.told = {0}
        self.end_seen = False

    @rule(asked=st.integers(0, 60), size=st.integers(0, 20), short=st.integers(0, 3))
    def read_a_page(self, asked, size, short):
        granted = max(0, min(size, self.size - asked) - short)
        eof = asked + granted >= self.size
        reading = self.ledger.read(
            page(asked, size, granted=granted, eof=eof, next_offset=None if eof else asked + granted)
        )
        new = set(range(asked, asked + granted))
        assert (Deviation.REPEATED in reading.deviations) == bool(self.seen & new)
        assert (Deviation.SELF_COMPUTED in reading.deviations) == (asked not in self.told)
        assert (Deviation.CLAMPED in reading.deviations) == (not eof and granted < size)
        if granted:
            assert Deviation.CHANGED not in reading.deviations
        self.seen |= new
        if not eof:
            self.told.add(asked + granted)

    @invariant()
    def never_more_than_was_read(self):
        coverage = self.ledger.of("/texts/a.txt")
        if coverage is not None:
            assert {byte for start, stop in coverage.ranges for byte in range(start, stop)} == self.seen
            assert not coverage.whole or self.seen == set(range(self.size))


TestReader = Reader.TestCase
