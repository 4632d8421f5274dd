"""One bit, one file, one line that is not as it was: the bundle fails, and the report says where."""

import json
import re
from base64 import b64encode

import pytest

from client.tests.told import failures, problems
from custody_client.verify import Exit, Policy, verify_bundle
from tests.support import bundles
from tests.support.bundles import canonical, manifest, seal, signed

SMALL = bundles.small()
FILES = SMALL.files()
PART, OTHER = (f"data/parts/{part.evidence}" for part in SMALL.parts[:2])
GONE, EXPIRED = (f"data/unavailable/{entry['evidence']}" for entry in SMALL.unavailable)
CLOSING = "data/closings/" + "04" * 16


def kind_of(name: str) -> str:
    return re.sub(r"[0-9a-f]{32}", "…", name)


KINDS = {kind_of(name): name for name in FILES}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_flipped_bit_in_each_kind_of_file_fails(verify, kind):
    name = KINDS[kind]
    data = FILES[name]
    for at, bit in ((0, 0), (len(data) // 3, 5), (len(data) // 2, 7), (len(data) - 1, 1)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        report = verify(FILES | {name: bytes(flipped)})
        assert report.exit == Exit.FAILED, (at, bit)
        assert any(item.file for item in failures(report))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_flipped_bits_all_over_each_kind_of_file_fail(tmp_path):
    for name in KINDS.values():
        for at in range(0, len(FILES[name]), 1 + len(FILES[name]) // 150):
            flipped = bytearray(FILES[name])
            flipped[at] ^= 1 << at % 8
            assert verified(tmp_path, FILES | {name: bytes(flipped)}).exit == Exit.FAILED, (name, at)


def verified(path, files):
    """Verify unzipped files, which is quicker."""
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        if not (path / name).exists() or (path / name).read_bytes() != data:
            (path / name).write_bytes(data)
    return verify_bundle(path, Policy.parse(SMALL.policy()), [SMALL.log.checkpoint(3)])


SIGNED_ONLY = {"data/policy.txt", "data/accesses.jsonl", "data/actions.jsonl"}
PROVEN = sorted(kind for kind in KINDS if kind.startswith("data/") and kind not in SIGNED_ONLY)


@pytest.mark.parametrize("kind", PROVEN)
def test_a_flipped_bit_fails_also_where_somebody_with_the_bundle_key_signed_it(verify, kind):
    """The bundle key cannot make evidence: what the log says is checked on its own."""
    name = KINDS[kind]
    for at in range(0, len(FILES[name]), max(1, len(FILES[name]) // 12)):
        flipped = bytearray(FILES[name])
        flipped[at] ^= 1
        if (
            name == "data/bundle.json"
            and b"requested_at" in bytes(flipped)
            and flipped[at : at + 1].isdigit()
        ):
            # When an export was asked for, and which export it is, only the bundle's signature says.
            continue
        report = verify(seal(SMALL, FILES | {name: bytes(flipped)}))
        # A reason may become a word that no leaf shows.
        allowed = {Exit.FAILED, Exit.NOT_CHECKED} if name == "data/unavailable.json" else {Exit.FAILED}
        assert report.exit in allowed, at


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_file_that_is_missing_fails(verify, kind):
    files = dict(FILES)
    del files[KINDS[kind]]
    assert verify(files).exit == Exit.FAILED
    if kind == "data/consistency/3.txt":
        assert verify(seal(SMALL, files)).exit == Exit.NOT_CHECKED
    elif kind.endswith(("meta.json", "openings.json")) and "unavailable" in kind:
        assert "is missing" in problems(verify(seal(SMALL, files)))
    elif kind == "data/policy.txt":
        # For information only: the verifier has its own.
        assert verify(seal(SMALL, files)).exit == Exit.OK
    elif kind.startswith("data/"):
        assert verify(seal(SMALL, files)).exit == Exit.FAILED


def test_a_file_more_fails(verify):
    assert verify(FILES | {"data/more.txt": b""}).exit == Exit.FAILED
    assert verify(seal(SMALL, FILES | {"data/more.txt": b""})).exit == Exit.FAILED
    assert verify(FILES | {"data/consistency/5.txt": b""}).exit == Exit.FAILED


def test_a_part_that_was_dropped_or_added_fails_by_the_count(verify):
    dropped = {name: data for name, data in FILES.items() if not name.startswith(PART)}
    assert verify(dropped).exit == Exit.FAILED
    assert "counts other parts" in problems(verify(seal(SMALL, dropped)))
    longer = bundles.small(4)
    added = FILES | {name: data for name, data in longer.files().items() if longer.parts[3].evidence in name}
    assert verify(seal(SMALL, added)).exit == Exit.FAILED


def test_renamed_swapped_and_foreign_parts_fail(verify):
    renamed = {name.replace(PART, "data/parts/" + "ab" * 16): data for name, data in FILES.items()}
    assert "is about another part" in problems(verify(seal(SMALL, renamed)))
    swapped = dict(FILES)
    for file in ("content", "meta.json", "leaf.json", "openings.json", "proof.tlog-proof"):
        swapped[f"{PART}/{file}"], swapped[f"{OTHER}/{file}"] = (
            FILES[f"{OTHER}/{file}"],
            FILES[f"{PART}/{file}"],
        )
    assert len(failures(verify(seal(SMALL, swapped)))) == 2
    for file in ("content", "meta.json", "leaf.json", "openings.json", "proof.tlog-proof"):
        one = FILES | {f"{PART}/{file}": FILES[f"{OTHER}/{file}"]}
        assert [item.kind for item in failures(verify(seal(SMALL, one)))] == ["part"], file


def test_a_part_of_another_scope_fails(verify):
    bundle = bundles.empty()
    bundle.add_part(b"ours")
    bundle.add_part(b"theirs", scope="09" * 16)
    report = verify(bundle.zipped(), bundle=bundle, anchors=(bundle.log.checkpoint(),))
    assert problems(report).endswith("meta.json: is of another scope")
    bundle = bundles.empty()
    bundle.add_closing("04" * 16, scope="09" * 16)
    assert "is of another scope" in problems(verify(bundle.zipped(), bundle=bundle, anchors=()))


def test_a_closing_of_another_run_fails(verify):
    renamed = {name.replace(CLOSING, "data/closings/" + "ab" * 16): data for name, data in FILES.items()}
    assert "is about another run" in problems(verify(seal(SMALL, renamed)))


def test_rewritten_content_fails_however_consistent(verify):
    """New content, new opening, new leaf, all fitting: but the log has no such leaf."""
    forger = bundles.small()
    first = forger.parts[0]
    forged = bundles.empty().add_part(b'{"answer":"no"}')
    assert forged.evidence == first.evidence
    files = FILES | {name: data for name, data in forged_files(forged).items() if not name.endswith("proof")}
    assert "does not lead" in problems(verify(seal(SMALL, files)))


def forged_files(part: bundles.Part) -> dict[str, bytes]:
    bundle = bundles.empty()
    bundle.add_part(part.content)
    return {name: data for name, data in bundle.payload().items() if name.startswith("data/parts/")}


def test_a_size_class_that_is_not_the_contents_fails(verify):
    bundle = bundles.empty()
    part = bundle.add_part(b"x" * 300)
    # A log that was told a false class from the beginning.
    false = bundles.canonical(json.loads(part.meta) | {"size_class": 256})
    leaf = json.loads(bundle.log.entries[0]) | {"m": bundles.b64(bundles.hmac256(part.meta_opening, false))}
    part.meta, bundle.log.entries[0] = false, canonical(leaf)
    assert "another size" in problems(verify(bundle.zipped(), bundle=bundle, anchors=()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reason": "retention_expired"}, "gives another reason"),
        ({"reason": "expired_held"}, "gives another reason"),
        ({"reason": "Erased!"}, "cannot be read"),
        ({"reason": None}, "cannot be read"),
        ({"proofs": ["part"]}, "lists other proofs"),
        ({"proofs": ["part", "part", "purge"]}, "lists other proofs"),
        ({"proofs": "part"}, "cannot be read"),
        ({"evidence": "AB" * 16}, "cannot be read"),
        ({"evidence": "ab" * 16}, "does not name a part of which there are proofs"),
        ({"evidence": SMALL.parts[0].evidence}, "names a part that is in the bundle"),
        ({"evidence": SMALL.unavailable[1]["evidence"]}, "names a part twice"),
        ({"more": 1}, "cannot be read"),
    ],
)
def test_what_is_said_of_a_missing_part_is_held_against_its_proofs(verify, changes, told):
    listed = [SMALL.unavailable[0] | changes, SMALL.unavailable[1]]
    report = verify(seal(SMALL, FILES | {"data/unavailable.json": canonical(listed)}))
    assert told in problems(report)


def test_a_reason_that_no_leaf_shows_is_not_checked(verify):
    listed = [
        SMALL.unavailable[0] | {"reason": "permission_denied"},
        SMALL.unavailable[1] | {"reason": "key_lost"},
    ]
    report = verify(seal(SMALL, FILES | {"data/unavailable.json": canonical(listed)}))
    assert report.exit == Exit.NOT_CHECKED
    assert [item.not_checked for item in report.items if item.kind == "unavailable"] == [
        ("reason",),
        ("reason",),
    ]


def test_proofs_of_a_missing_part_must_be_about_it(verify):
    bundle = bundles.empty()
    one, other = bundle.log_part(b"1"), bundle.log_part(b"2", bucket="07" * 16)
    purge = bundle.log.append(k="purge", of=other.index, p=other.evidence, w="erased")
    wrong_of = bundle.log.append(k="purge", of=other.index, p=one.evidence, w="erased")
    no_word = bundle.log.append(k="purge", of=one.index, p=one.evidence, w="tidied")
    expire = bundle.log.append(k="expire", b="07" * 16, n=1)
    for reason, proofs in (
        ("erased", {"part": one.index, "purge": purge}),
        ("erased", {"part": one.index, "purge": wrong_of}),
        ("erased", {"part": one.index, "purge": no_word}),
        ("erased", {"part": other.index, "purge": wrong_of}),
        ("retention_expired", {"part": one.index, "expire": expire}),
        # Without the part's own leaf nothing ties it to a bucket.
        ("retention_expired", {"expire": expire}),
        ("erased", {"part": one.index, "purge": expire}),
    ):
        bundle.unavailable.clear()
        bundle.extra.clear()
        bundle.add_unavailable(one.evidence, reason, proofs)
        report = verify(bundle.zipped(), bundle=bundle, anchors=(bundle.log.checkpoint(),))
        assert len(failures(report)) == 1, proofs


def test_manifests_must_list_exactly_what_is_there(verify):
    for text in (
        FILES["manifest-sha256.txt"] + manifest({"data/policy.txt": FILES["data/policy.txt"]}),
        FILES["manifest-sha256.txt"].replace(b"\n", b"\r\n"),
        FILES["manifest-sha256.txt"].replace(b"  ", b" *"),
        FILES["manifest-sha256.txt"].upper(),
        FILES["manifest-sha256.txt"][:-1],
        FILES["manifest-sha256.txt"] + manifest({"data/../../etc/passwd": b""}),
        FILES["manifest-sha256.txt"] + manifest({"bundle.note": FILES["bundle.note"]}),
        FILES["manifest-sha256.txt"] + manifest({"data/consistency/9.txt": b""}),
        b"",
    ):
        tags = {name: FILES[name] for name in ("bagit.txt", "bag-info.txt")} | {"manifest-sha256.txt": text}
        files = signed(SMALL, FILES | tags | {"tagmanifest-sha256.txt": manifest(tags)})
        assert verify(files).exit == Exit.FAILED, text[-60:]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bag-info.txt", FILES["bag-info.txt"] + b"Payload-Oxum: 1.1\n"),
        ("bag-info.txt", FILES["bag-info.txt"] + b"and more\n"),
        ("bag-info.txt", FILES["bag-info.txt"].replace(b"\n", b"\r\n")),
        ("bag-info.txt", re.sub(rb"Oxum: \d+", b"Oxum: 1", FILES["bag-info.txt"])),
        ("bag-info.txt", FILES["bag-info.txt"].replace(SMALL.export.encode(), b"0" * 32)),
        ("bagit.txt", FILES["bagit.txt"].replace(b"1.0", b"0.97")),
    ],
)
def test_tag_files_must_say_what_they_should(verify, name, data):
    tags = {each: FILES[each] for each in ("bagit.txt", "bag-info.txt", "manifest-sha256.txt")} | {name: data}
    files = signed(SMALL, FILES | tags | {"tagmanifest-sha256.txt": manifest(tags)})
    assert [item.file for item in failures(verify(files))] == [name]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 2), ("v", True), ("export", "0" * 32), ("scope", "0" * 32), ("scope", 1), ("origin", "other.example"),
        ("tree_size", 1), ("tree_size", -1), ("parts", 2), ("unavailable", 0), ("closings", 2), ("parts", 3.0),
        ("requested_at", "yesterday"), ("requested_at", None), ("more", 1),
    ],
)  # fmt: skip
def test_what_a_bundle_says_of_itself_is_held_against_the_rest(verify, field, value):
    facts = json.loads(FILES["data/bundle.json"]) | {field: value}
    assert verify(seal(SMALL, FILES | {"data/bundle.json": canonical(facts)})).exit == Exit.FAILED


def test_times_of_an_export_have_two_forms(verify):
    facts = json.loads(FILES["data/bundle.json"]) | {"requested_at": "2025-11-30T00:00:00.000000Z"}
    assert verify(seal(SMALL, FILES | {"data/bundle.json": canonical(facts)})).exit == Exit.OK


@pytest.mark.parametrize("file", ["data/accesses.jsonl", "data/actions.jsonl"])
@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}', b'{"a": 1}\n', b'{"b":1,"a":1}\n', b"[]\n", b"\n", b'{"a":1}\r\n', b'{"a":NaN}\n', b"{" * 100_000,
        b'{"a":1}\n\n', b'{"a":"\xc3\xa9"}\n', b'{"a":1,"a":1}\n', b"[" * 5_000 + b"]" * 5_000 + b"\n",
        b'{"a":' + b"9" * 5_000 + b"}\n", b'{"a":"' + b"x" * (3 << 20) + b'"}\n',
    ],
)  # fmt: skip
def test_records_are_canonical_lines(verify, file, data):
    assert [item.file for item in failures(verify(seal(SMALL, FILES | {file: data})))] == [file]


def test_no_records_are_fine(verify):
    assert verify(seal(SMALL, FILES | {"data/accesses.jsonl": b""})).exit == Exit.OK


def test_every_proof_ends_in_the_one_checkpoint(verify):
    name = f"{PART}/proof.tlog-proof"
    # As true as the other, but of an earlier tree.
    small = bundles.empty()
    small.add_part(SMALL.parts[0].content)
    earlier = small.log.proof(0)
    report = verify(seal(SMALL, FILES | {name: earlier}))
    assert "does not end in the bundle's checkpoint" in problems(report)


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: proof.replace(b"\n", b"\r\n"),
        lambda proof: proof.replace(b"index 0", b"index 00"),
        lambda proof: proof.replace(b"index 0", b"index +0"),
        lambda proof: proof.replace(b"index 0", b"index  0"),
        lambda proof: proof.replace(b"index 0", b"index 8"),
        lambda proof: proof.replace(b"index 0", b"index 1"),
        lambda proof: proof.replace(b"index 0", b"extra AAAA\nindex 0"),
        lambda proof: proof.replace(b"@v1", b"@v2"),
        lambda proof: b"\n" + proof,
        lambda proof: proof + b"\n",
        lambda proof: proof[:-1],
        lambda proof: proof.replace(b"\n\n", b"\n", 1),
        lambda proof: proof.replace(b"\n\n", b"\n\n\n", 1),
        lambda proof: re.sub(rb"\n[A-Za-z0-9+/]{43}=\n", b"\n", proof, count=1),
        lambda proof: re.sub(rb"(\n[A-Za-z0-9+/]{43}=)\n", rb"\1\1\n", proof, count=1),
        lambda proof: re.sub(rb"(\n[A-Za-z0-9+/]{43}=)\n", rb"\1 \n", proof, count=1),
        # The same bits in a base64 that nobody writes.
        lambda proof: re.sub(rb"(\n[A-Za-z0-9+/]{42})(.)=\n", _other_bits, proof, count=1),
    ],
)
def test_proofs_have_one_form(verify, change):
    name = f"{PART}/proof.tlog-proof"
    changed = change(FILES[name])
    assert changed != FILES[name]
    assert [item.file for item in failures(verify(seal(SMALL, FILES | {name: changed})))] == [name]


def _other_bits(match: "re.Match[bytes]") -> bytes:
    return match[1] + bytes([match[2][0] + 1]) + b"=\n"


@pytest.mark.parametrize("file", ["leaf.json", "meta.json", "openings.json"])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b"\n",
        lambda data: b" " + data,
        lambda data: data.replace(b":", b": ", 1),
        lambda data: data.replace(b'"v":1', b'"v":01'),
        lambda data: data.replace(b'"v":1', b'"v":1.0'),
        lambda data: data.replace(b'"v":1', b'"v":1,"v":1'),
        lambda data: data.replace(b'"v":1', b'"v":2'),
        lambda data: data.replace(b'"v"', b'"\\u0076"'),
        b64encode,
        lambda data: data[:0],
    ],
)
def test_json_has_one_form(verify, file, change):
    name = f"{PART}/{file}"
    changed = change(FILES[name])
    assert changed != FILES[name]
    assert [item.file for item in failures(verify(seal(SMALL, FILES | {name: changed})))] == [name]
