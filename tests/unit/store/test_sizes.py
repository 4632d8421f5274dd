from hypothesis import given
from hypothesis import strategies as st

from store.services.sizes import exact, masked

KEY = b"k" * 32
SIZES = st.integers(0, 2**31 - 1)


@given(SIZES, st.uuids(), st.integers(-(2**31), 2**31 - 1))
def test_a_masked_size_fits_its_column_is_told_from_a_plain_one_and_comes_back(size, evidence, changed):
    resting = masked(KEY, evidence, size)
    assert -(2**31) <= resting < 0
    assert exact(KEY, evidence, resting) == size
    assert changed in (resting, size) or exact(KEY, evidence, changed) != size


@given(SIZES, st.uuids())
def test_what_an_older_version_left_is_read_as_it_stands(size, evidence):
    assert exact(KEY, evidence, size) == size


@given(SIZES, st.uuids(), st.uuids())
def test_equal_sizes_of_different_parts_do_not_look_alike(size, evidence, other):
    assert evidence == other or masked(KEY, evidence, size) != masked(KEY, other, size)
