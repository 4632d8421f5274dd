"""Notes, checkpoints, keys, numbers and JSON in their one form, against the golden values of every implementation."""

import json
import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import ClassVar

import pytest

from custody_client.verify import Policy, leaves, notes, texts
from custody_client.verify.merkle import EMPTY_ROOT, consistent, leaf_hash, root_of_inclusion
from custody_client.verify.notes import Vkey, open_checkpoint, open_note
from custody_client.verify.openings import committed_content
from custody_client.verify.parts import size_class
from custody_client.verify.proofs import included
from tests.support import bundles
from tests.support.bundles import Log, Signer

VECTORS = json.loads((Path(__file__).parents[2] / "tests/contract/vectors.json").read_text())
KEY = Vkey.parse(VECTORS["vkey"])
NOTE = VECTORS["checkpoint"].encode()


class Golden:
    """A bag of the golden values."""

    files: ClassVar = {
        "leaf.json": VECTORS["leaves"]["part"].encode(),
        "proof.tlog-proof": VECTORS["tlog_proof_0"].encode(),
        "content": VECTORS["raw"]["content"].encode(),
    }

    def read(self, name):
        return self.files[name]

    def chunks(self, name):
        yield self.files[name]


def test_the_golden_part_is_in_the_golden_log():
    checkpoint = open_checkpoint(NOTE, KEY)
    assert (checkpoint.size, checkpoint.root.hex()) == (8, VECTORS["root_of_8"])
    index, leaf = included(Golden(), "", leaves.PART, checkpoint)  # type: ignore[arg-type]
    assert index == 0
    opening = bytes.fromhex(VECTORS["opening"])
    assert committed_content(Golden(), "content", opening, leaf) == len(VECTORS["raw"]["content"])  # type: ignore[arg-type]


def test_golden_leaves_and_hashes():
    for kind, form in (
        ("part", leaves.PART),
        ("close", leaves.CLOSE),
        ("purge", leaves.PURGE),
        ("expire", leaves.EXPIRE),
    ):
        assert form.fullmatch(VECTORS["leaves"][kind].encode())
        assert not form.fullmatch(VECTORS["leaves"]["hold"].encode())
    entries = [VECTORS["leaves"][kind].encode() for kind in VECTORS["log_order"]]
    assert [leaf_hash(entry).hex() for entry in entries] == VECTORS["leaf_hashes"]
    log = Log(Signer("x", bytes(32)))
    log.entries = entries
    assert log.root(0, 8).hex() == VECTORS["root_of_8"]


def test_every_inclusion_and_consistency_proof_of_small_trees():
    log = Log(Signer("x", bytes(32)))
    for number in range(40):
        log.append(k="part", p=f"{number}")
    for size in range(1, 41):
        root = log.root(0, size)
        for index in range(size):
            path = log.path(index, 0, size)
            leaf = leaf_hash(log.entries[index])
            assert root_of_inclusion(index, size, leaf, path) == root
            assert root_of_inclusion(index, size, leaf, [*path, bytes(32)]) is None
            assert not path or root_of_inclusion(index, size, leaf, path[:-1]) != root
        for old in range(1, size):
            path = log.consistency(old, 0, size)
            assert consistent(old, log.root(0, old), size, root, path)
            assert not consistent(old, bytes(32), size, root, path)
            assert not consistent(old, log.root(0, old), size, bytes(32), path)
            assert not consistent(old, log.root(0, old), size, root, path[:-1])
            assert not consistent(old, log.root(0, old), size, root, [*path, bytes(32)])
            assert not consistent(old, log.root(0, old), size, root, [])


def test_trees_that_cannot_be():
    assert root_of_inclusion(1, 1, bytes(32), []) is None
    assert root_of_inclusion(-1, 1, bytes(32), []) is None
    assert root_of_inclusion(0, 0, bytes(32), []) is None
    assert not consistent(0, EMPTY_ROOT, 1, bytes(32), [])
    assert not consistent(2, bytes(32), 1, bytes(32), [])
    assert consistent(1, bytes(32), 1, bytes(32), [])
    assert not consistent(1, bytes(32), 1, bytes(32), [bytes(32)])


def resigned(text: str) -> bytes:
    return Signer(KEY.name, bytes(range(32))).note(text)


ROOT = VECTORS["checkpoint"].split("\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY.name}\r\n8\r\n{ROOT}\r\n",
        f"{KEY.name}\n08\n{ROOT}\n",
        f"{KEY.name}\n+8\n{ROOT}\n",
        f"{KEY.name}\n 8\n{ROOT}\n",
        f"{KEY.name}\n-8\n{ROOT}\n",
        f"{KEY.name}\n8\n{ROOT}\nmore\n",
        f"{KEY.name}\n8\n{ROOT}\n\n",
        f"{KEY.name}\n8\n{ROOT[:-1]}\n",
        f"{KEY.name}\n8\n{ROOT[:-2]}h=\n",
        f"{KEY.name}\n8\n{ROOT} \n",
        f"{KEY.name}\n8\n",
        f"\n8\n{ROOT}\n",
        f"other.example/log\n8\n{ROOT}\n",
        f"{KEY.name}\n0\n{ROOT}\n",
        f"{KEY.name}\n{10**18}\n{ROOT}\n",
        f"{KEY.name}\n\u0668\n{ROOT}\n",
        f"{KEY.name}\n8\n{ROOT}\n\x00\n",
    ],
)
def test_checkpoints_have_one_form_whoever_signed_them(text):
    with pytest.raises(ValueError, match=r"\w"):
        open_checkpoint(resigned(text), KEY)


def test_an_empty_tree_has_a_root():
    text = f"{KEY.name}\n0\n{b64encode(EMPTY_ROOT).decode()}\n"
    assert open_checkpoint(resigned(text), KEY).size == 0


OTHER = Signer("witness.example", bytes(31) + b"\x01")
TEXT = NOTE.decode().partition("\n\n")[0] + "\n"
LINE = NOTE.decode().rpartition("\n\n")[2]


@pytest.mark.parametrize(
    "line",
    [
        OTHER.line(TEXT),
        Signer(KEY.name, bytes(32)).line(TEXT),
        "— witness.example AAAAAAAA\n",
    ],
)
def test_others_may_sign_a_checkpoint_but_not_a_bundle(line):
    for note in (NOTE + line.encode(), f"{TEXT}\n{line}{LINE}".encode()):
        assert open_note(note, KEY, alone=False) == TEXT.encode()
        with pytest.raises(ValueError, match="does not name"):
            open_note(note, KEY, alone=True)


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "\n",
        LINE + LINE,
        LINE[:-1],
        LINE.replace("\n", "\r\n"),
        LINE.replace("—", "-"),
        LINE.replace("— ", "—"),
        LINE.replace(" ", "  "),
        LINE.replace("=\n", "\n"),
        LINE.replace("=\n", "==\n"),
        LINE + "— witness.example\n",
        LINE + "— witness.example !!!!\n",
        LINE + "— witness.example AAAA\n",
        LINE + "— witness.example AAAAAB==\n",
        LINE + "rubbish\n",
        LINE + "\n",
        LINE.replace("24L", "25L"),
        OTHER.line(TEXT),
        LINE + OTHER.line(TEXT) * 100,
        f"— {KEY.name} {b64encode(b64decode(LINE.split()[2])[:30]).decode()}\n",
    ],
)
def test_signature_lines_are_read_strictly(tail):
    for alone in (False, True):
        with pytest.raises(ValueError, match=r"\w"):
            open_note(f"{TEXT}\n{tail}".encode(), KEY, alone=alone)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a+b",
        VECTORS["vkey"] + " ",
        VECTORS["vkey"][:-1],
        VECTORS["vkey"].replace("1e8f", "1e8e"),
        VECTORS["vkey"].replace("1e8f", "1E8F"),
        VECTORS["vkey"].replace("evidence", "evidences"),
        VECTORS["vkey"].replace("evidence", "evi dence"),
        VECTORS["vkey"].replace("AQOh", "AgOh"),
        VECTORS["vkey"].replace("SVTG4", "SVTG5"),
    ],
)
def test_keys_are_read_strictly(text):
    with pytest.raises(ValueError, match=r"\w"):
        Vkey.parse(text)


def policy(*lines: str) -> bytes:
    return "\n".join(lines).encode()


LOG = f"log {bundles.empty().log.signer.vkey}"
BUNDLE = f"bundle {bundles.empty().signer.vkey}"


def test_policies_may_have_comments():
    parsed = Policy.parse(policy("# ours", "", f"  {LOG}  # since May", BUNDLE, ""))
    assert parsed.bundle.name == f"{parsed.log.name}/bundle"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        policy(LOG),
        policy(BUNDLE),
        policy(LOG, LOG, BUNDLE),
        policy(LOG, BUNDLE, BUNDLE),
        policy(LOG, BUNDLE, "witness x"),
        policy(LOG, "bundle"),
        policy(LOG + " more", BUNDLE),
        policy(LOG, BUNDLE.replace("/bundle+", "/bundles+")),
        policy(LOG, LOG.replace("log ", "bundle ", 1)),
        policy(LOG, f"bundle {Signer('other.example/bundle', bytes(32)).vkey}"),
    ],
)
def test_policies_that_do_not_say_whom_to_believe_are_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        Policy.parse(text)


@pytest.mark.parametrize("text", ["", "00", "01", "-1", "+1", "1 ", "1_0", "1\n", "\u0661", "1" * 19])
def test_numbers_have_one_form(text):
    assert not re.fullmatch(texts.NUMBER, text)


def test_numbers_are_read():
    assert all(re.fullmatch(texts.NUMBER, text) for text in ("0", "10", "9" * 18))


@pytest.mark.parametrize(
    "text", [b"A", b"AA", b"AAA", b"AB==", b"AAB=", b"AA==AA==", b"A A=", b"AA=\n", b"-_A=", b"="]
)
def test_base64_has_one_form(text):
    with pytest.raises(ValueError, match="base64"):
        texts.strict_base64(text)


def test_size_classes():
    sizes = [0, 1, 256, 257, 512, 513, 1 << 20, (1 << 20) + 1]
    assert [size_class(size) for size in sizes] == [256, 256, 256, 512, 512, 1024, 1 << 20, 1 << 21]


def test_a_signature_by_nobody_is_none():
    assert not KEY.verifies(bytes(64), b"text")
    assert notes.open_note(NOTE, KEY, alone=True) == TEXT.encode()
