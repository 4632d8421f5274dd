"""Archives that are made to be misread: links, ways out, doubles, bombs, lies about sizes, and things in between."""

import io
import os
import struct
import zipfile
import zlib

import pytest

from client.tests.told import failures, problems
from custody_client.verify import Exit, Policy, verify_bundle
from tests.support import bundles
from tests.support.bundles import EXPORT

SMALL = bundles.small()
FILES = SMALL.files()
TOP = f"custody-{EXPORT}/"
GOOD = SMALL.zipped()
CONTENT = f"data/parts/{SMALL.parts[2].evidence}/content"


def archive(files, *, change=lambda entry: entry, comment=b"", method=zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with whatever names and attributes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as out:
        for name, data in files:
            entry = zipfile.ZipInfo(name, (2025, 11, 30, 0, 0, 0))
            entry.compress_type = method
            out.writestr(change(entry), data)
        out.comment = comment
    return whole.getvalue()


def listed(files=FILES):
    return [(TOP + name, data) for name, data in files.items()]


def test_the_same_files_zipped_otherwise_are_the_same_bundle(verify):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert verify(archive(listed(), method=method)).exit == Exit.OK


@pytest.mark.parametrize(
    "name",
    [
        "../evil", "/etc/passwd", f"{TOP}../evil", f"{TOP}data/../../evil", f"{TOP}data/parts/../../../evil",
        f"{TOP}data\\evil", "C:\\evil", "evil", f"custody-{'0' * 32}/data/policy.txt", f"{TOP}data/",
        f"{TOP}data/parts/{'AB' * 16}/content", f"{TOP}DATA/policy.txt", f"{TOP}data/policy.txt ", f"{TOP}./bagit.txt",
        f"{TOP}data//policy.txt", f"{TOP}data/pol\u0131cy.txt", f"{TOP}data/policy.txt\u200b", f"{TOP}\x1b[31mred",
        f"{TOP}data/parts/{'ab' * 16}/content/more", f"{TOP}.DS_Store", f"{TOP}data/consistency/03.txt", TOP, "",
    ],
)  # fmt: skip
def test_names_that_do_not_belong_fail_the_archive(verify, name):
    report = verify(archive([*listed(), (name, b"x")]))
    assert [item.kind for item in failures(report)] == ["archive"]
    assert "evil" not in problems(report)
    assert "\x1b" not in problems(report)


def test_a_name_with_a_zero_byte_fails(verify):
    raw = archive([*listed(), (f"{TOP}data/policy_txt_", b"x")])
    assert verify(raw.replace(b"policy_txt_", b"policy.txt\x00")).exit == Exit.FAILED


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_fails(verify):
    double = (f"{TOP}data/policy.txt", b"# other\n")
    for files in ([*listed(), double], [double, *listed()]):
        assert "is there twice" in problems(verify(archive(files)))


@pytest.mark.parametrize("mode", [0o120777, 0o040755, 0o010644, 0o020644, 0o060644, 0o140644])
def test_links_directories_and_devices_fail(verify, mode):
    def change(entry):
        if entry.filename.endswith("policy.txt"):
            entry.external_attr = mode << 16
        return entry

    assert "not a file" in problems(verify(archive(listed(), change=change)))


def test_a_directory_of_dos_fails(verify):
    def change(entry):
        entry.create_system, entry.external_attr = 0, 0x10
        return entry

    assert verify(archive(listed(), change=change)).exit == Exit.FAILED


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_fail(verify, method):
    assert "packed in a way" in problems(verify(archive(listed(), method=method)))


def test_encrypted_files_fail(verify):
    raw = bytearray(archive(listed()))
    local, central = raw.find(b"PK\x03\x04"), raw.find(b"PK\x01\x02")
    raw[local + 6] |= 1
    raw[central + 8] |= 1
    assert "encrypted" in problems(verify(bytes(raw)))


@pytest.mark.parametrize("extra", [b"", b"x", b"PK\x05\x06" + bytes(18), GOOD])
def test_something_before_or_after_or_between_fails(verify, extra):
    if extra:
        assert verify(extra + GOOD).exit == Exit.FAILED
        assert verify(GOOD + extra).exit == Exit.FAILED
        start = GOOD.find(b"PK\x01\x02")
        assert verify(GOOD[:start] + extra + GOOD[start:]).exit == Exit.FAILED
    assert verify(archive(listed(), comment=extra or b"a comment")).exit == Exit.FAILED


def test_archives_that_end_early_fail(verify):
    for size in (0, 1, 21, 22, 100, len(GOOD) // 2, len(GOOD) - 30, len(GOOD) - 22, len(GOOD) - 1):
        assert verify(GOOD[:size]).exit == Exit.FAILED, size
    assert verify(b"PK\x05\x06" + bytes(18)).exit == Exit.FAILED
    assert verify(GOOD[-22:]).exit == Exit.FAILED


def test_an_extra_field_fails(verify):
    def change(entry):
        # A second name for another reader ("Info-ZIP Unicode Path").
        entry.extra = struct.pack("<HHBL", 0x7075, 9, 1, 0) + b"evil"
        return entry

    assert verify(archive(listed(), change=change)).exit == Exit.FAILED


def entry_of(raw: bytes, name: str) -> int:
    """Where the directory's entry of a file begins."""
    (found,) = [at for at in directory_of(raw) if raw[at + 46 :].startswith((TOP + name).encode())]
    return found


def directory_of(raw: bytes) -> list[int]:
    """Where the directory's entries begin."""
    found, at = [], raw.find(b"PK\x01\x02")
    while at >= 0:
        found.append(at)
        at = raw.find(b"PK\x01\x02", at + 4)
    return found


@pytest.mark.parametrize(
    "field",
    [(8, "H"), (10, "H"), (12, "H"), (14, "H"), (16, "L"), (20, "L"), (24, "L"), (34, "H"), (42, "L")],
)
@pytest.mark.parametrize("by", [1, 7])
def test_a_directory_that_disagrees_with_the_files_fails(verify, field, by):
    offset, form = field
    raw = bytearray(GOOD)
    for at in directory_of(GOOD)[3:5]:
        (value,) = struct.unpack_from(f"<{form}", raw, at + offset)
        struct.pack_into(f"<{form}", raw, at + offset, value + by)
    assert verify(bytes(raw)).exit == Exit.FAILED


def test_two_entries_for_one_piece_of_data_fail(verify):
    """The overlapping files of a zip bomb."""
    raw = bytearray(GOOD)
    one, two = directory_of(GOOD)[3:5]
    raw[two + 42 : two + 46] = raw[one + 42 : one + 46]
    assert "overlap" in problems(verify(bytes(raw)))


def test_what_inflates_to_more_or_less_than_it_says_fails(verify):
    whole = archive(listed(FILES | {CONTENT: bytes(1 << 20)}))
    at = entry_of(whole, CONTENT)
    offset, packed = (struct.unpack_from("<L", whole, at + field)[0] for field in (42, 20))
    for said in (100, (1 << 20) - 1, (1 << 20) + 1, packed * 1032):
        raw = bytearray(whole)
        struct.pack_into("<L", raw, at + 24, said)
        struct.pack_into("<L", raw, offset + 22, said)
        assert CONTENT in problems(verify(bytes(raw))), said


def test_a_bomb_fails_before_anything_is_inflated(verify, monkeypatch):
    monkeypatch.setattr(zlib, "decompressobj", lambda *_: pytest.fail("inflated"))
    large = FILES | {CONTENT: bytes(16 << 20)}
    raw = bytearray(archive(listed(large)))
    struct.pack_into("<L", raw, entry_of(bytes(raw), CONTENT) + 24, 0xFFFFFFF0)
    assert "claims to inflate" in problems(verify(bytes(raw)))
    assert "larger than such a file may be" in problems(
        verify(archive(listed(FILES | {"data/checkpoint": bytes(1 << 20)})))
    )


def test_a_manifest_of_more_than_the_files_need_is_not_read(verify):
    report = verify(archive(listed(FILES | {"manifest-sha256.txt": bytes(64 << 10)})))
    assert "larger than the files need" in problems(report)


def test_many_files_that_inflate_to_too_much_together_fail(verify):
    raw = bytearray(archive([(f"{TOP}data/parts/{at:032x}/content", bytes(1 << 20)) for at in range(8)]))
    for at in directory_of(bytes(raw)):
        # As many as the format allows for so little.
        struct.pack_into("<LL", raw, at + 20, 300_000, 300_000_000)
    assert "would inflate to more" in problems(verify(bytes(raw)))


def test_compressed_data_that_is_damaged_fails(verify):
    raw = bytearray(GOOD)
    at = GOOD.find(CONTENT.encode()) + len(CONTENT) + 8
    raw[at : at + 8] = b"\xff" * 8
    assert [item.name for item in failures(verify(bytes(raw)))] == [SMALL.parts[2].evidence]


def unpacked(path, files=FILES):
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def report_of(path):
    return verify_bundle(path, Policy.parse(SMALL.policy()), [SMALL.log.checkpoint(3)])


def test_links_in_a_directory_fail(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(FILES["data/policy.txt"])
    bag = unpacked(tmp_path / "bag")
    assert report_of(bag).exit == Exit.OK
    (bag / "data/policy.txt").unlink()
    (bag / "data/policy.txt").symlink_to(outside)
    assert "a link" in problems(report_of(bag))
    (bag / "data/policy.txt").unlink()
    os.mkfifo(bag / "data/policy.txt")
    assert "not a file" in problems(report_of(bag))


def test_a_linked_directory_fails(tmp_path):
    bag = unpacked(tmp_path / "bag")
    parts = bag / "data/parts"
    parts.rename(tmp_path / "parts")
    parts.symlink_to(tmp_path / "parts", target_is_directory=True)
    assert "a link" in problems(report_of(bag))


def test_other_files_in_a_directory_fail(tmp_path):
    bag = unpacked(tmp_path / "bag")
    (bag / "data/parts/notes.txt").write_bytes(b"")
    assert "does not belong" in problems(report_of(bag))
    (bag / "data/parts/notes.txt").unlink()
    (bag / "data/checkpoint").write_bytes(bytes(1 << 20))
    assert "larger than" in problems(report_of(bag))


def test_an_empty_directory_fails(tmp_path):
    assert report_of(tmp_path).exit == Exit.FAILED


def test_a_file_that_changes_its_size_meanwhile_fails(tmp_path, monkeypatch):
    bag = unpacked(tmp_path / "bag")
    opened = os.open

    def growing(path, *more):
        if str(path).endswith("policy.txt"):
            with (bag / "data/policy.txt").open("ab") as file:
                file.write(b"# more\n")
        return opened(path, *more)

    monkeypatch.setattr(os, "open", growing)
    assert "changed its size" in problems(report_of(bag))
