"""Every value of vectors.json that the envelope, the commitments and the leaves make, byte for byte."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from store import commitments
from store.commitments import Identity, IntakeKey

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "contract" / "vectors.json").read_text(encoding="utf-8")
)

SCOPE = UUID(VECTORS["identity"]["scope"])
EVIDENCE = UUID(VECTORS["identity"]["evidence"])
BUCKET = UUID(VECTORS["identity"]["bucket"])
IDENTITY = Identity(SCOPE, *(VECTORS["identity"][name] for name in ("run", "exchange", "attempt", "kind")))
SECRET = bytes(range(0x20, 0x40))
META_OPENING = bytes(range(0x40, 0x60))
BUCKET_KEY = bytes(range(0x60, 0x80))
INTAKE = IntakeKey(b"\x07" * 8, bytes(range(0x80, 0xA0)))
CLOSE_OPENING = bytes(range(0xA0, 0xC0))
T0 = datetime(2025, 11, 30, tzinfo=UTC)


def unhex(*path: str) -> bytes:
    value: Any = VECTORS
    for name in path:
        value = value[name]
    return bytes.fromhex(value)


def test_the_inputs_are_those_of_the_note():
    assert unhex("part_secret") == SECRET
    assert unhex("meta_opening") == META_OPENING
    assert unhex("bucket_key") == BUCKET_KEY
    assert (unhex("intake", "key_id"), unhex("intake", "key")) == (INTAKE.key_id, INTAKE.secret)
    assert unhex("close_opening") == CLOSE_OPENING


def test_part_keys():
    assert commitments.part_keys(SECRET) == (unhex("enc_key"), unhex("opening"))


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_commitment(codec):
    content = VECTORS[codec]["content"].encode()
    assert commitments.commitment(unhex("opening"), content) == unhex(codec, "commitment")


def test_a_short_content_is_framed_raw():
    assert commitments.frame_encode(b"yes", compress=True) == unhex("raw", "frame")


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_frame_is_read(codec):
    content = VECTORS[codec]["content"].encode()
    assert commitments.frame_decode(unhex(codec, "frame"), len(content)) == content


def test_additional_data():
    assert commitments.part_aad(IDENTITY, EVIDENCE) == unhex("aad")
    assert commitments.secret_aad(SCOPE, BUCKET, EVIDENCE) == unhex("wrapped_secret_aad")
    assert commitments.intake_aad(IDENTITY, EVIDENCE) == unhex("intake", "aad")


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_ciphertext(codec):
    frame, ciphertext = unhex(codec, "frame"), unhex(codec, "ciphertext")
    assert commitments.seal_part(SECRET, frame, IDENTITY, EVIDENCE, bytes(range(12))) == ciphertext
    assert commitments.open_part(SECRET, ciphertext, IDENTITY, EVIDENCE) == frame


def test_wrapped_secret():
    nonce = bytes(range(0x0C, 0x18))
    wrapped = commitments.wrap_secret(BUCKET_KEY, SECRET, SCOPE, BUCKET, EVIDENCE, nonce)
    assert wrapped == unhex("wrapped_secret")
    assert commitments.unwrap_secret(BUCKET_KEY, wrapped, SCOPE, BUCKET, EVIDENCE) == SECRET


def test_intake():
    frame, sealed = unhex("raw", "frame"), unhex("intake", "sealed")
    salt = unhex("intake", "salt")
    assert commitments.hkdf_expand(INTAKE.secret, b"custody/v1/intake" + salt) == unhex(
        "intake", "derived_key"
    )
    assert commitments.seal_intake(INTAKE, frame, IDENTITY, EVIDENCE, salt) == sealed
    asked = []

    def lookup(key_id: bytes) -> bytes:
        asked.append(key_id)
        return INTAKE.secret

    assert commitments.open_intake(lookup, sealed, IDENTITY, EVIDENCE) == frame
    assert asked == [INTAKE.key_id]


def meta() -> bytes:
    return commitments.meta_bytes(
        IDENTITY,
        bucket=BUCKET,
        captured_at=None,
        completeness="complete",
        media_type="text/plain",
        received_at=T0,
        sequence=7,
        session="00112233445566ff",
        size_class=256,
        sources=[("doc-7", 3)],
        vantage="sdk",
    )


def test_metadata():
    assert meta() == VECTORS["meta"].encode("ascii")
    assert commitments.meta_commitment(META_OPENING, meta()) == unhex("meta_commitment")


def close() -> bytes:
    return commitments.close_bytes(
        SCOPE,
        "demo-run",
        sessions={"00112233445566ff": 40},
        stored=32,
        not_captured={"capacity_exceeded": 8},
        unaccounted=0,
    )


def test_close_record():
    assert close() == VECTORS["close"].encode("ascii")


RUN, SOURCE, HOLD = UUID("03" * 16), UUID("04" * 16), UUID("05" * 16)
LEAVES: dict[str, dict[str, Any]] = {
    "part": {
        "b": BUCKET,
        "c": unhex("raw", "commitment"),
        "m": unhex("meta_commitment"),
        "p": EVIDENCE,
        "t": T0,
    },
    "close": {"m": commitments.close_commitment(CLOSE_OPENING, close()), "r": RUN, "t": 1764460860},
    "hold": {"h": HOLD, "op": "place", "si": RUN, "sk": "run", "t": T0 + timedelta(seconds=70)},
    "revoke": {"op": "revoke", "si": SOURCE, "sv": 3, "t": 1764460880},
    "purge": {"of": 0, "p": EVIDENCE, "t": 1764460890, "w": "erased"},
    "expire": {"b": BUCKET, "n": 1, "t": 1767052800},
    "restore": {"from": 3, "t": 1767052900, "to": 6},
    "resume": {"size": 7, "t": 1767053000, "why": "rolled_back"},
    "key": {"op": "add", "t": 1764460800, "u": VECTORS["vkey"]},
}


def test_there_is_a_leaf_for_every_vector():
    assert LEAVES.keys() == VECTORS["leaves"].keys()


@pytest.mark.parametrize("kind", LEAVES)
def test_leaf(kind):
    assert commitments.leaf(kind, **LEAVES[kind]) == VECTORS["leaves"][kind].encode("ascii")
