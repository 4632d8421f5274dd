"""What is sealed opens for its own row and key only, and for nothing that was changed on the way."""

import dataclasses
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from policies.reasons import Reason
from store import commitments
from store.commitments import Identity, IntakeKey
from store.errors import Corrupt

IDENTITY = Identity(UUID(int=1), "run", "exchange", "attempt", "logical-request")
EVIDENCE, BUCKET = UUID(int=2), UUID(int=3)
SECRET, KEY = b"s" * 32, b"k" * 32
INTAKE = IntakeKey(b"12345678", KEY)
FRAME = commitments.frame_encode(b"yes", compress=False)

OTHERS = [
    (replace(IDENTITY, scope=UUID(int=9)), EVIDENCE),
    (replace(IDENTITY, run="run2"), EVIDENCE),
    (replace(IDENTITY, exchange="exchange2"), EVIDENCE),
    (replace(IDENTITY, attempt="attempt2"), EVIDENCE),
    (replace(IDENTITY, kind="observable-output"), EVIDENCE),
    # Moving a letter over a border must not give the same additional data.
    (replace(IDENTITY, run="rune", exchange="xchange"), EVIDENCE),
    (IDENTITY, UUID(int=9)),
]


def lookup(_: bytes) -> bytes:
    return KEY


def is_corrupt(raised: pytest.ExceptionInfo[Corrupt]) -> bool:
    return raised.value.reason is Reason.INTEGRITY_MISMATCH


@pytest.mark.parametrize(("identity", "evidence"), OTHERS)
def test_a_ciphertext_in_another_row_does_not_open(identity, evidence):
    sealed = commitments.seal_part(SECRET, FRAME, IDENTITY, EVIDENCE)
    with pytest.raises(Corrupt) as raised:
        commitments.open_part(SECRET, sealed, identity, evidence)
    assert is_corrupt(raised)


@pytest.mark.parametrize(("identity", "evidence"), OTHERS)
def test_a_queued_body_in_another_entry_does_not_open(identity, evidence):
    sealed = commitments.seal_intake(INTAKE, FRAME, IDENTITY, EVIDENCE)
    with pytest.raises(Corrupt):
        commitments.open_intake(lookup, sealed, identity, evidence)


@pytest.mark.parametrize(
    ("scope", "bucket", "evidence"),
    [
        (UUID(int=9), BUCKET, EVIDENCE),
        (IDENTITY.scope, UUID(int=9), EVIDENCE),
        (IDENTITY.scope, BUCKET, UUID(int=9)),
    ],
)
def test_a_wrapped_secret_in_another_row_does_not_open(scope, bucket, evidence):
    wrapped = commitments.wrap_secret(KEY, SECRET, IDENTITY.scope, BUCKET, EVIDENCE)
    with pytest.raises(Corrupt):
        commitments.unwrap_secret(KEY, wrapped, scope, bucket, evidence)


def test_another_key_opens_nothing():
    sealed = commitments.seal_part(SECRET, FRAME, IDENTITY, EVIDENCE)
    with pytest.raises(Corrupt):
        commitments.open_part(b"x" * 32, sealed, IDENTITY, EVIDENCE)
    wrapped = commitments.wrap_secret(KEY, SECRET, IDENTITY.scope, BUCKET, EVIDENCE)
    with pytest.raises(Corrupt):
        commitments.unwrap_secret(b"x" * 32, wrapped, IDENTITY.scope, BUCKET, EVIDENCE)
    queued = commitments.seal_intake(INTAKE, FRAME, IDENTITY, EVIDENCE)
    with pytest.raises(Corrupt):
        commitments.open_intake(lambda _: b"x" * 32, queued, IDENTITY, EVIDENCE)


def flips(sealed: bytes) -> list[bytes]:
    return [
        sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
        for at in range(len(sealed))
        for bit in range(8)
    ]


def cuts(sealed: bytes) -> list[bytes]:
    return [sealed[:length] for length in range(len(sealed))] + [sealed + b"\0"]


def test_no_ciphertext_with_a_flipped_bit_or_a_cut_opens():
    sealed = commitments.seal_part(SECRET, FRAME, IDENTITY, EVIDENCE)
    for damaged in flips(sealed) + cuts(sealed):
        with pytest.raises(Corrupt):
            commitments.open_part(SECRET, damaged, IDENTITY, EVIDENCE)


def test_no_wrapped_secret_with_a_flipped_bit_or_a_cut_opens():
    wrapped = commitments.wrap_secret(KEY, SECRET, IDENTITY.scope, BUCKET, EVIDENCE)
    assert len(wrapped) == 60
    for damaged in flips(wrapped) + cuts(wrapped):
        with pytest.raises(Corrupt):
            commitments.unwrap_secret(KEY, damaged, IDENTITY.scope, BUCKET, EVIDENCE)


def test_no_queued_body_with_a_flipped_bit_or_a_cut_opens():
    def only_ours(key_id: bytes) -> bytes:
        if key_id != INTAKE.key_id:
            raise Corrupt(Reason.KEY_LOST)
        return INTAKE.secret

    sealed = commitments.seal_intake(INTAKE, FRAME, IDENTITY, EVIDENCE)
    assert sealed[:9] == b"\x01" + INTAKE.key_id
    for damaged in flips(sealed) + cuts(sealed):
        with pytest.raises(Corrupt):
            commitments.open_intake(only_ours, damaged, IDENTITY, EVIDENCE)


def test_a_lost_intake_key_says_so():
    sealed = commitments.seal_intake(INTAKE, FRAME, IDENTITY, EVIDENCE)

    def gone(_: bytes) -> bytes:
        raise Corrupt(Reason.KEY_LOST)

    with pytest.raises(Corrupt) as raised:
        commitments.open_intake(gone, sealed, IDENTITY, EVIDENCE)
    assert raised.value.reason is Reason.KEY_LOST


@given(st.binary(max_size=3000), st.booleans(), st.binary(min_size=32, max_size=32))
def test_what_is_sealed_is_read_back(content, compress, secret):
    frame = commitments.frame_encode(content, compress=compress)
    queued = commitments.seal_intake(INTAKE, frame, IDENTITY, EVIDENCE)
    opened = commitments.open_intake(lookup, queued, IDENTITY, EVIDENCE)
    stored = commitments.seal_part(secret, opened, IDENTITY, EVIDENCE)
    wrapped = commitments.wrap_secret(KEY, secret, IDENTITY.scope, BUCKET, EVIDENCE)
    again = commitments.unwrap_secret(KEY, wrapped, IDENTITY.scope, BUCKET, EVIDENCE)
    back = commitments.frame_decode(commitments.open_part(again, stored, IDENTITY, EVIDENCE), len(content))
    assert back == content


def test_equal_contents_share_nothing():
    sealed = {commitments.seal_part(SECRET, FRAME, IDENTITY, EVIDENCE)[12:] for _ in range(50)}
    queued = {commitments.seal_intake(INTAKE, FRAME, IDENTITY, EVIDENCE)[25:] for _ in range(50)}
    digests = {
        commitments.intake_digest(INTAKE, b"yes", replace(IDENTITY, attempt=f"a{n}")) for n in range(50)
    }
    assert (len(sealed), len(queued), len(digests)) == (50, 50, 50)


def test_a_digest_tells_a_repeat_from_other_bytes_and_needs_the_key():
    digest = commitments.intake_digest(INTAKE, b"yes", IDENTITY)
    assert len(digest) == 8
    assert commitments.intake_digest(INTAKE, b"yes", IDENTITY) == digest
    assert commitments.intake_digest(INTAKE, b"no", IDENTITY) != digest
    assert (
        commitments.intake_digest(dataclasses.replace(INTAKE, secret=b"x" * 32), b"yes", IDENTITY) != digest
    )


def test_a_key_does_not_show_in_its_repr():
    assert "kkk" not in repr(INTAKE)


def test_keyed_hashes_are_bound_to_what_they_are_of():
    key, scope = b"h" * 32, uuid4()
    hashes = {
        commitments.identity_hash(key, IDENTITY),
        commitments.identity_hash(b"x" * 32, IDENTITY),
        commitments.identity_hash(key, replace(IDENTITY, kind="observable-output")),
        commitments.lookup_hash(key, "ref", scope, b"trace-1"),
        commitments.lookup_hash(key, "subject", scope, b"trace-1"),
        commitments.lookup_hash(key, "sources", scope, b"trace-1"),
        commitments.lookup_hash(key, "ref", uuid4(), b"trace-1"),
        commitments.lookup_hash(key, "ref", scope, b"trace-2"),
        commitments.lookup_hash(b"x" * 32, "ref", scope, b"trace-1"),
    }
    assert len(hashes) == 9
    assert {len(value) for value in hashes} == {32}


@given(st.binary(min_size=32, max_size=32), st.uuids(), st.text("abc123", min_size=1))
def test_a_run_draws_the_same_number_below_one(key, scope, run):
    number = commitments.drawn(key, scope, run)
    assert 0 <= number < 1
    assert commitments.drawn(key, scope, run) == number


def test_draws_are_spread_and_differ_between_scopes():
    numbers = [commitments.drawn(b"k" * 32, UUID(int=1), f"run-{n}") for n in range(2000)]
    assert 0.45 < sum(number < 0.5 for number in numbers) / 2000 < 0.55
    assert commitments.drawn(b"k" * 32, UUID(int=2), "run-1") != numbers[1]
