"""The log's values of vectors.json, byte for byte, and that every other spelling is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.log_tree import notes, proofs, tiles
from store.log_tree.hashes import Edge, leaf_hash
from store.log_tree.notes import Checkpoint, Signer, Unsigned, VerifierKey
from store.log_tree.strict import Unreadable
from tests.support import naive_tree

VECTORS = json.loads((Path(__file__).parents[2] / "contract" / "vectors.json").read_text(encoding="utf-8"))
ENTRIES = [VECTORS["leaves"][kind].encode("ascii") for kind in VECTORS["log_order"]]
HASHES = [leaf_hash(entry) for entry in ENTRIES]
NOTE = VECTORS["checkpoint"].encode()
ORIGIN = "evidence.example/log/eu-1"
SIGNER = Signer(ORIGIN, bytes(range(32)))
ROOT = bytes.fromhex(VECTORS["root_of_8"])
PROOF = VECTORS["tlog_proof_0"].encode()


def hash_at(level, index):
    return naive_tree.root(HASHES[index << level : (index + 1) << level])


def test_leaf_hashes_and_root():
    assert [value.hex() for value in HASHES] == VECTORS["leaf_hashes"]
    edge = Edge()
    edge.append(HASHES)
    assert edge.root() == ROOT


def test_key():
    assert SIGNER.key.text == VECTORS["vkey"]
    assert notes.parse_vkey(VECTORS["vkey"]) == SIGNER.key
    assert bytes(range(32)).hex() not in repr(SIGNER)


def test_checkpoint():
    assert SIGNER.sign(Checkpoint(ORIGIN, 8, ROOT).text) == NOTE
    assert notes.verify_checkpoint(NOTE, SIGNER.key) == Checkpoint(ORIGIN, 8, ROOT)


def test_tlog_proof():
    proof = proofs.TlogProof(0, tuple(proofs.inclusion(0, 8, hash_at)), NOTE)
    assert proof.text == PROOF
    assert proofs.parse_tlog_proof(PROOF) == proof
    assert proofs.verify_inclusion(HASHES[0], 0, 8, proof.hashes, ROOT)


def test_no_flipped_bit_of_a_note_passes():
    for bit in range(len(NOTE) * 8):
        wrong = bytearray(NOTE)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises((Unsigned, Unreadable)):
            notes.verify_checkpoint(bytes(wrong), SIGNER.key)


def test_no_flipped_bit_of_a_vkey_passes():
    for bit in range(len(VECTORS["vkey"]) * 8):
        wrong = bytearray(VECTORS["vkey"].encode())
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises((Unreadable, UnicodeDecodeError)):
            notes.parse_vkey(wrong.decode())


def test_no_flipped_bit_of_a_proof_passes():
    for bit in range(len(PROOF) * 8):
        wrong = bytearray(PROOF)
        wrong[bit // 8] ^= 1 << bit % 8
        try:
            proof = proofs.parse_tlog_proof(bytes(wrong))
            checkpoint = notes.verify_checkpoint(proof.note, SIGNER.key)
        except (Unsigned, Unreadable):
            continue
        assert not proofs.verify_inclusion(
            HASHES[0], proof.index, checkpoint.size, proof.hashes, checkpoint.root
        )


@pytest.mark.parametrize(
    "wrong",
    [
        NOTE.replace(b"\n", b"\r\n"),
        NOTE[:-1],
        NOTE + b"\n",
        NOTE + b"more\n",
        NOTE.replace(b"\n8\n", b"\n08\n"),
        NOTE.replace("—".encode(), b"-"),
        NOTE.replace(b"\n\n", b"\n"),
        NOTE.replace(b"\n\n", b"\nextension\n\n"),
        NOTE.replace(b"\n8\n", b"\n\xff\n"),
        NOTE.replace(b"\n8\n", b"\n8\x00\n"),
        NOTE.replace(b"1gA=", b"1gB="),
        NOTE.replace(b"1gA=", b"1gA"),
        NOTE.replace(b" Ho/", b"  Ho/"),
        b"",
        b"\n\n",
        NOTE + NOTE.rpartition(b"\n\n")[2] * 100,
        b"a" * 1_000_000 + NOTE,
    ],
)
def test_a_note_in_any_other_form_is_refused(wrong):
    with pytest.raises((Unsigned, Unreadable)):
        notes.verify_checkpoint(wrong, SIGNER.key)


SIGNED_WRONG = [
    "{o}\n8\n{r}",
    "{o}\n08\n{r}\n",
    "{o}\n+8\n{r}\n",
    "{o}\n8\n{r}\nmore\n",
    "{o}\n8\n\n",
    "\n8\n{r}\n",
]


@pytest.mark.parametrize(
    "form",
    [
        *SIGNED_WRONG,
        "{o}\n\N{ARABIC-INDIC DIGIT EIGHT}\n{r}\n",
        "{o}\n9223372036854775808\n{r}\n",
        "{o}\n8\n{r}x\n",
    ],
)
def test_a_checkpoint_in_any_other_form_is_refused_even_if_signed(form):
    text = form.format(o=ORIGIN, r=VECTORS["tlog_proof_0"].split("\n")[-4])
    with pytest.raises(Unreadable):
        notes.parse_checkpoint(text)


def test_only_the_key_asked_for_counts():
    other, same_name = Signer("other.example/log", bytes(32)), Signer(ORIGIN, bytes(32))
    text = Checkpoint(ORIGIN, 8, ROOT).text
    line = other.sign(text).rpartition(b"\n\n")[2]
    assert notes.verify_checkpoint(NOTE + line, SIGNER.key).size == 8
    for stranger in (other, same_name):
        with pytest.raises(Unsigned):
            notes.verify_checkpoint(NOTE, stranger.key)
    with pytest.raises(Unsigned, match="another log"):
        notes.verify_checkpoint(NOTE + line, other.key)
    genuine, false = NOTE.rpartition(b"\n\n")[2], SIGNER.sign("else\n").rpartition(b"\n\n")[2]
    for lines in (genuine + false, false + genuine):
        with pytest.raises(Unsigned):
            notes.verify_checkpoint(text.encode() + b"\n" + lines, SIGNER.key)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u2003b", "a\nb"])
def test_a_key_has_a_proper_name(name):
    with pytest.raises(Unreadable):
        VerifierKey(name, bytes(32))


@pytest.mark.parametrize("text", ["no newline", "two\r\n", "nul\0\n"])
def test_nothing_else_is_signed(text):
    with pytest.raises(ValueError, match="newline"):
        SIGNER.sign(text)


def test_a_text_may_have_empty_lines():
    assert notes.verify(SIGNER.sign("one\n\n— two\n"), SIGNER.key) == "one\n\n— two\n"


@pytest.mark.parametrize(
    "wrong",
    [
        PROOF.replace(b"\n", b"\r\n"),
        PROOF.replace(b"index 0", b"index 00"),
        PROOF.replace(b"index 0", b"index -0"),
        PROOF.replace(b"index 0", b"index  0"),
        PROOF.replace(b"index 0", b"extra AA==\nindex 0"),
        PROOF.replace(b"index 0\n", b""),
        PROOF.replace(b"@v1", b"@v2"),
        PROOF.replace(b"N0=\n", b"N1=\n"),
        PROOF.replace(b"N0=\n", b"N0=\n\n"),
        PROOF.replace(b"N0=\n", b"N0=\nAA==\n"),
        PROOF.partition(b"\n\n")[0],
        PROOF.partition(b"\n\n")[0] + b"\n\n",
        b"\n" + PROOF,
        PROOF.replace(b"index 0", "index \N{ARABIC-INDIC DIGIT ZERO}".encode()),
        b"c2sp.org/tlog-proof@v1\nindex 0\n"
        + b"N6CVa1KG5J1PPmqCcUARs/pHfq/MBfiucM8uvxgKFDc=\n" * 64
        + b"\n"
        + NOTE,
        b"",
    ],
)
def test_a_proof_in_any_other_form_is_refused(wrong):
    with pytest.raises((Unreadable, Unsigned)):
        notes.verify_checkpoint(proofs.parse_tlog_proof(wrong).note, SIGNER.key)


def test_a_proof_in_a_tree_of_one_has_no_hashes():
    proof = proofs.TlogProof(0, (), NOTE)
    assert proofs.parse_tlog_proof(proof.text) == proof


def test_paths_of_tiles():
    assert tiles.Tile(0, 0).path == "tile/0/000"
    assert tiles.Tile(1, 1_234_067).path == "tile/1/x001/x234/067"
    assert tiles.Tile(None, 1_000, 17).path == "tile/entries/x001/000.p/17"


@given(
    st.builds(
        tiles.Tile,
        st.none() | st.integers(0, 7),
        st.integers(0, 2**55) | st.integers(0, 2_000),
        st.integers(1, 256),
    )
)
def test_a_path_is_read_as_it_was_written(tile):
    assert tiles.parse_path(tile.path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/0",
        "tile/0/0000",
        "tile/0/x000/001",
        "tile/0/001/001",
        "tile/00/001",
        "tile/8/001",
        "tile/0/001.p/0",
        "tile/0/001.p/256",
        "tile/0/001.p/017",
        "tile/0/001.p/",
        "tile/0/../001",
        "tile/0/00\N{ARABIC-INDIC DIGIT ONE}",
        "/tile/0/001",
        "tile/0/001\n",
        "tile/entry/001",
    ],
)
def test_a_path_has_one_spelling(path):
    with pytest.raises(Unreadable):
        tiles.parse_path(path)


def test_bundles():
    data = tiles.bundle(ENTRIES)
    assert data[:2] == len(ENTRIES[0]).to_bytes(2, "big")
    assert tiles.parse_bundle(data) == ENTRIES
    assert tiles.parse_bundle(b"") == []
    for cut in (data[:-1], data[:1], data + b"\x00", data + b"\xff\xffshort"):
        with pytest.raises(Unreadable):
            tiles.parse_bundle(cut)
    with pytest.raises(Unreadable):
        tiles.parse_bundle(tiles.bundle([b""] * 257))
    with pytest.raises(ValueError, match="longer"):
        tiles.bundle([bytes(65_536)])
