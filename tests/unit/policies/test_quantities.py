"""Numbers without a unit are refused; what is written reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quantities import (
    MAX_DURATION_S,
    MAX_SIZE_BYTES,
    duration,
    duration_text,
    size,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("30s", 30), ("10m", 600), ("1h", 3600), ("3d", 259_200), ("36525d", MAX_DURATION_S)],
)
def test_durations(text: str, seconds: int):
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("1B", 1), ("256KiB", 262_144), ("4MiB", 4_194_304), ("1GiB", 1 << 30), ("1024TiB", MAX_SIZE_BYTES)],
)
def test_sizes(text: str, size_bytes: int):
    assert size(text) == size_bytes


@pytest.mark.parametrize(
    "nonsense",
    [
        *(3, "3", 0, "0", "0d", -1, "-1d", "", " ", 1e9, "1e9", "1e9s", None, True, [], {}),
        *("3 d", " 3d", "3d ", "3d\n", "3D", "3y", "3ms", "1.5h", "03d", "٣d", "3d3h", "d", "3\x00d"),
    ],
)
def test_what_is_no_duration(nonsense: object):
    with pytest.raises(ValueError, match="needs a whole number above zero with a unit"):
        duration(nonsense)


@pytest.mark.parametrize(
    "nonsense",
    [
        256,
        "256",
        "0KiB",
        "-1KiB",
        "",
        None,
        True,
        "256KB",
        "256kib",
        "256 KiB",
        "1.5MiB",
        "0256KiB",
        "1KiB\n",
    ],
)
def test_what_is_no_size(nonsense: object):
    with pytest.raises(ValueError, match="needs a whole number above zero with a unit"):
        size(nonsense)


def test_for_ever_is_no_duration():
    with pytest.raises(ValueError, match="longer than a century"):
        duration("36526d")
    with pytest.raises(ValueError, match="longer than a century"):
        duration("999999999999d")


def test_absurd_is_no_size():
    for text in ("1025TiB", f"{MAX_SIZE_BYTES + 1}B", "9999999999999999TiB"):
        with pytest.raises(ValueError, match="larger than a pebibyte"):
            size(text)
    assert size(f"{MAX_SIZE_BYTES - 1}B") == MAX_SIZE_BYTES - 1


def test_a_fault_does_not_echo():
    with pytest.raises(ValueError, match="unit") as fault:
        duration("CANARY-7f3a")
    assert "CANARY" not in str(fault.value)


@given(st.integers(1, MAX_DURATION_S))
def test_a_duration_reads_back(seconds: int):
    assert duration(duration_text(seconds)) == seconds


@given(st.integers(1, MAX_SIZE_BYTES))
def test_a_size_reads_back(size_bytes: int):
    assert size(size_text(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1s"), (90, "90s"), (120, "2m"), (3600, "1h"), (86_400, "1d"), (2_592_000, "30d")],
)
def test_durations_are_written_in_the_largest_unit(seconds: int, text: str):
    assert duration_text(seconds) == text


@pytest.mark.parametrize("write", [duration_text, size_text])
@pytest.mark.parametrize("number", [0, -1])
def test_nothing_is_not_written(write, number: int):
    with pytest.raises(ValueError, match="above zero"):
        write(number)
