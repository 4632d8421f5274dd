"""Whatever happens to a bundle on its way, it is never called right, and the verifier never breaks."""

import io
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from custody_client.verify import Exit
from tests.support import bundles
from tests.support.bundles import seal

SMALL = bundles.small()
FILES = SMALL.files()
GOOD = SMALL.zipped()
NAMES = sorted(FILES)
ROUNDS = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(ROUNDS, max_examples=2_000)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes of which some were changed, lost, doubled or put in; never the same ones."""
    found = bytearray(data)
    at = draw(st.integers(0, max(0, len(found) - 1)))
    match draw(st.sampled_from(["flip", "cut", "lose", "double", "insert", "replace"])):
        case "flip" if found:
            found[at] ^= 1 << draw(st.integers(0, 7))
        case "cut" if found:
            del found[at:]
        case "lose" if found:
            del found[at : at + draw(st.integers(1, 8))]
        case "double" if found:
            found[at:at] = found[at : at + draw(st.integers(1, 16))]
        case "replace":
            found[:] = draw(st.binary(max_size=64))
        case _:
            found[at:at] = draw(st.sampled_from([b"\n", b"\r", b" ", b"0", b"=", b"\x00", b"{}", b"\xff"]))
    return bytes(found) if bytes(found) != data else data + b"\n"


@st.composite
def with_other_files(draw: st.DrawFn) -> dict[str, bytes]:
    files = dict(FILES)
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)):
        match draw(st.sampled_from(["damage", "damage", "drop", "swap", "rename"])):
            case "damage":
                files[name] = draw(damaged(files[name]))
            case "drop":
                files.pop(name, None)
            case "rename" if name in files:
                files[draw(st.sampled_from([name + "x", name.upper(), "data/parts/" + name, name[1:]]))] = (
                    files.pop(name)
                )
            case _:
                other = draw(st.sampled_from([each for each in NAMES if FILES[each] != FILES[name]]))
                files[name] = FILES[other]
    return files


def never_right_when_files_are_others(verify, files):
    if files == FILES:
        return
    report = verify(files)
    assert report.exit == Exit.FAILED
    # With a true signature what only the signature covers may be right; but nothing breaks.
    assert verify(seal(SMALL, files)).exit in {Exit.OK, Exit.FAILED, Exit.NOT_CHECKED}


def never_right_when_the_archive_is_another(verify, archive):
    report = verify(archive)
    if report.exit != Exit.FAILED:
        # A bit that says nothing of any file, such as its permissions.
        assert contents(archive) == contents(GOOD)


def contents(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        assert found.testzip() is None
        return {name: found.read(name) for name in found.namelist()}


@ROUNDS
@given(with_other_files())
def test_files_that_were_damaged_dropped_swapped_or_renamed(verify, files):
    never_right_when_files_are_others(verify, files)


@ROUNDS
@given(damaged(GOOD))
def test_archives_that_were_damaged(verify, archive):
    never_right_when_the_archive_is_another(verify, archive)


@pytest.mark.long
@pytest.mark.timeout(600)
@MANY
@given(with_other_files())
def test_many_damaged_files(verify, files):
    never_right_when_files_are_others(verify, files)


@pytest.mark.long
@pytest.mark.timeout(600)
@MANY
@given(damaged(GOOD))
def test_many_damaged_archives(verify, archive):
    never_right_when_the_archive_is_another(verify, archive)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_byte_of_an_archive(verify):
    bundle = bundles.empty()
    bundle.add_part(b"yes " * 200)
    whole = bundle.zipped()
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        report = verify(bytes(flipped), bundle=bundle, anchors=(bundle.log.checkpoint(),))
        assert report.exit == Exit.FAILED or contents(bytes(flipped)) == contents(whole), at
