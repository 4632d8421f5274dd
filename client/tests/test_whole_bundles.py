"""Bundles that are right, and what is said where something could not be looked at."""

import itertools
import json
import zipfile
from pathlib import Path

import pytest

from custody_client.verify import Exit, Policy, Report, State, table, verify_bundle
from tests.support import bundles
from tests.support.bundles import EXPORT, ORIGIN, SCOPE


def states(report: Report, kind: str) -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(item.state.value, item.reason, item.not_checked) for item in report.items if item.kind == kind]


def test_everything_right_is_ok(verify, small):
    report = verify(small.zipped())
    assert report.exit == Exit.OK
    assert (report.export, report.scope, report.origin) == (EXPORT, SCOPE, ORIGIN)
    assert report.tree_size == len(small.log.entries)
    assert states(report, "part") == [("ok", None, ())] * 3
    assert states(report, "unavailable") == [
        ("unavailable", "erased", ()),
        ("unavailable", "retention_expired", ()),
    ]
    kinds = {
        "archive",
        "signature",
        "checkpoint",
        "bag",
        "bundle",
        "part",
        "unavailable",
        "closing",
        "records",
    }
    assert report.counts().keys() == kinds | {"anchor"}


def test_an_unpacked_bundle_is_as_good(tmp_path, small):
    for name, data in small.files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    anchors = [small.log.checkpoint(3)]
    assert verify_bundle(tmp_path, Policy.parse(small.policy()), anchors).exit == Exit.OK


def test_wide_sizes_are_read(verify, small):
    assert verify(bundles.zipped(small.files(), f"custody-{EXPORT}/", wide=True)).exit == Exit.OK


def test_archives_of_many_gigabytes_and_many_files_are_read(verify, small, monkeypatch):
    """Their directories are wide; here from the first kilobytes and files on."""
    for limit, count in ((1_000, 3), (1_000, 65_535), (1 << 40, 3)):
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
        monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", count)
        archive = bundles.zipped(small.files(), f"custody-{EXPORT}/", wide=True)
        assert b"PK\x06\x06" in archive
        assert verify(archive).exit == Exit.OK
        # Both end records speak of one directory.
        for at in (-10, -12):
            other = bytearray(archive)
            other[at] ^= 1
            assert verify(bytes(other)).exit == Exit.FAILED


def test_without_an_anchor_not_everything_was_checked(verify, small):
    report = verify(small.zipped(), anchors=())
    assert report.exit == Exit.NOT_CHECKED
    # The bundle's proof for tree 3 is not used either.
    assert states(report, "anchor") == [
        ("not_checked", None, ("consistency: no anchor was given",)),
        ("not_checked", None, ("consistency: no anchor of this size was given",)),
    ]


def test_an_anchor_of_the_same_size_must_have_the_same_root(verify, small):
    assert states(verify(small.zipped(), anchors=(small.log.checkpoint(),)), "anchor")[0][0] == "ok"
    fork = bundles.small()
    fork.log.entries[-1] = fork.log.entries[-1].replace(b'"v":1', b'"v":2')
    fork.log._known.clear()
    report = verify(small.zipped(), anchors=(fork.log.checkpoint(),))
    assert report.exit == Exit.FAILED
    assert "forked" in next(item.problem for item in report.items if item.kind == "anchor")


def test_an_anchor_must_not_be_of_a_larger_tree_nor_of_another_beginning(verify, small):
    grown = bundles.small()
    grown.add_part(b"more")
    assert verify(small.zipped(), anchors=(grown.log.checkpoint(),)).exit == Exit.FAILED
    other = bundles.empty()
    for content in (b"x", b"y", b"z"):
        other.add_part(content)
    assert verify(small.zipped(), anchors=(other.log.checkpoint(),)).exit == Exit.FAILED


def test_an_anchor_for_which_there_is_no_proof_is_not_checked(verify, small):
    for size in (0, 2):
        report = verify(small.zipped(), anchors=(small.log.checkpoint(size),))
        assert report.exit == Exit.NOT_CHECKED
        assert states(report, "anchor")[0][0] == "not_checked"


@pytest.mark.parametrize(
    "note", [b"", b"\n\n", b"rubbish", b"\xff" * 40, b"a\n1\nb\n\n\xe2\x80\x94 a AAAA\n"]
)
def test_an_anchor_that_is_none_fails(verify, small, note):
    assert verify(small.zipped(), anchors=(note,)).exit == Exit.FAILED


def test_an_empty_bundle_is_not_ok(verify):
    empty = bundles.empty()
    report = verify(empty.zipped(), bundle=empty, anchors=(empty.log.checkpoint(),))
    assert report.exit == Exit.NOT_CHECKED
    assert states(report, "contents") == [("not_checked", None, ("there is nothing in it",))]


def test_what_the_log_does_not_show_is_said(verify):
    mixed = bundles.mixed()
    report = verify(mixed.zipped(), bundle=mixed)
    assert report.exit == Exit.NOT_CHECKED
    assert states(report, "unavailable")[2:] == [
        ("unavailable", "permission_denied", ("reason",)),
        ("unavailable", "lost_in_restore", ("stored", "reason")),
    ]


def test_held_parts_of_an_expired_bucket_are_shown_by_its_leaf(verify):
    held = bundles.empty()
    part = held.log_part(b"held")
    expire = held.log.append(k="expire", b=bundles.BUCKET, n=1)
    held.add_unavailable(part.evidence, "expired_held", {"part": part.index, "expire": expire})
    assert verify(held.zipped(), bundle=held, anchors=(held.log.checkpoint(),)).exit == Exit.OK


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 9, 31, 33])
def test_trees_of_every_shape(verify, count):
    bundle = bundles.empty()
    for number in range(count):
        bundle.add_part(b"%d" % number)
    bundle.anchors = range(1, count)
    anchors = tuple(bundle.log.checkpoint(size) for size in range(1, count + 1))
    assert verify(bundle.zipped(), bundle=bundle, anchors=anchors).exit == Exit.OK


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 4095, 4096, 4097])
def test_sizes_around_their_classes(verify, size):
    bundle = bundles.empty()
    bundle.add_part(bytes(size))
    assert verify(bundle.zipped(), bundle=bundle, anchors=(bundle.log.checkpoint(),)).exit == Exit.OK


def test_a_large_part_is_read_in_pieces(verify):
    bundle = bundles.empty()
    bundle.add_part(bytes(range(256)) * 4 * 3_000)
    bundle.add_part(bundles.drawn("noise") * 40_000)
    stored = bundles.zipped(bundle.files(), f"custody-{EXPORT}/", most_stored=1 << 30)
    for archive in (bundle.zipped(), stored):
        assert verify(archive, bundle=bundle, anchors=(bundle.log.checkpoint(),)).exit == Exit.OK


def test_the_report_as_json_has_its_promised_shape(verify):
    mixed = bundles.mixed()
    files = mixed.files()
    name = f"data/parts/{mixed.parts[0].evidence}/content"
    files[name] += b"!"
    plain = json.loads(json.dumps(verify(files, bundle=mixed).plain()))
    assert plain.keys() == {"v", "verdict", "exit", "bundle", "counts", "items"}
    assert (plain["v"], plain["verdict"], plain["exit"]) == (1, "failed", 1)
    assert plain["bundle"].keys() == {"export", "scope", "origin", "tree_size"}
    assert plain["counts"]["part"] == {"ok": 2, "failed": 1}
    by_state = {item["state"]: item for item in plain["items"] if item["item"] in ("part", "unavailable")}
    assert by_state["ok"].keys() == {"item", "name", "state"}
    assert by_state["failed"].keys() == {"item", "name", "state", "file", "problem"}
    assert by_state["failed"]["file"] == name
    assert by_state["unavailable"].keys() == {"item", "name", "state", "reason", "not_checked"}


def test_the_table_names_all_that_is_not_simply_right(verify):
    mixed = bundles.mixed()
    report = verify(mixed.zipped(), bundle=mixed)
    lines = list(table.lines(report))
    for item in report.items:
        assert any(item.name in line for line in lines) or item.state is State.OK
    assert lines[-1].startswith("NOT ALL CHECKED")
    counts = list(itertools.chain.from_iterable(counts.values() for counts in report.counts().values()))
    assert sum(counts) == len(report.items)


def test_a_report_about_nothing_is_not_ok():
    assert Report().exit == Exit.NOT_CHECKED
    assert Report().verdict == "not_checked"


def test_a_path_that_is_nothing_is_not_a_bundle(tmp_path: Path, small):
    with pytest.raises(FileNotFoundError):
        verify_bundle(tmp_path / "nowhere.zip", Policy.parse(small.policy()))
