"""What somebody finds who has every file of the servers and every key that is left: text in clear, or what a key opens.

Sealed things are found by their structure. A queued body begins with its version and the id of its key, and a key's
stream gives the frame away, tag or no tag. A wrapped secret stands near its part's id, behind the byte that says its
length. What a secret opens is tried at every offset behind its part's id, in every file.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from store import commitments, frames
from store.commitments import Identity
from store.errors import Corrupt

_ID: Final = 8
_SALT: Final = 16
_WRAPPED: Final = 60
_NONCE: Final = 12
# A row of `bodies` has its secret and, where it is short, its ciphertext right behind its ids.
_NEAR: Final = 256
# How PostgreSQL begins a value of 60 bytes.
_SIXTY: Final = ((60 + 1) << 1 | 1).to_bytes(1)
_MOST: Final = 1 << 20
# GCM counts its blocks from 2; the nonce of a queued body is zero.
_COUNTER: Final = (2).to_bytes(4)
_LZF: Final = re.compile(rb"\xc3")


@dataclass(frozen=True)
class Planted:
    """A part whose content must be nowhere; `bucket` is the one that it was wrapped for."""

    identity: Identity
    evidence: UUID
    bucket: UUID
    content: bytes


@dataclass
class Keys:
    """All secrets that are left, read from the files of a key directory."""

    bucket: list[bytes] = field(default_factory=list)
    intake: dict[bytes, bytes] = field(default_factory=dict)
    other: list[bytes] = field(default_factory=list)

    @classmethod
    def left_in(cls, directory: Path) -> "Keys":
        keys = cls()
        for path in sorted(directory.rglob("*")):
            if not path.is_file():
                continue
            secret = path.read_bytes()
            if path.parent.name == "bucket":
                keys.bucket.append(secret)
            elif path.parent.name == "intake":
                keys.intake[bytes.fromhex(path.name.partition("-")[2])] = secret
            else:
                keys.other.append(secret)
        return keys

    @property
    def every(self) -> list[bytes]:
        return [*self.bucket, *self.intake.values(), *self.other]


def files_of(*directories: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below, once, with what is in it; one that goes while we look is gone."""
    found = {
        path.resolve()
        for directory in directories
        for path in directory.resolve().rglob("*")
        if path.is_file()
    }
    for path in sorted(found):
        with suppress(FileNotFoundError):
            # Most of a fresh write-ahead log is not written yet.
            data = path.read_bytes().rstrip(b"\0")
            yield path, data + b"".join(_inflated(data)) if path.suffix == ".rdb" else data


def forms_of(text: bytes) -> dict[str, bytes]:
    """How a text may lie about in clear, or so that it can be guessed."""
    compressed = frames.frame_encode(text, compress=True)
    length = int.from_bytes(compressed[1:5])
    forms = {
        "plain": text,
        "hex": text.hex().encode(),
        "base64": base64.b64encode(text)[:-4],
        "utf-16": text.decode("latin-1").encode("utf-16-le"),
        "zstd": compressed[5 : 5 + length],
        "sha256": hashlib.sha256(text).digest(),
        "sha256 hex": hashlib.sha256(text).hexdigest().encode(),
        "sha256 base64": base64.b64encode(hashlib.sha256(text).digest()),
    }
    return {name: form for name, form in forms.items() if len(form) >= 16}


def in_clear(texts: Sequence[bytes], *directories: Path) -> list[tuple[str, Path]]:
    """Where a text, another form of it, or its plain digest lies."""
    return _lying([form for text in texts for form in forms_of(text).items()], *directories)


def secrets_in_clear(secrets: Iterable[bytes], *directories: Path) -> list[tuple[str, Path]]:
    """Where a secret lies, as it is or in hex."""
    forms = [("raw", secret) for secret in secrets]
    return _lying([*forms, *(("hex", secret.hex().encode()) for _, secret in forms)], *directories)


def _lying(forms: Sequence[tuple[str, bytes]], *directories: Path) -> list[tuple[str, Path]]:
    return [(name, path) for path, data in files_of(*directories) for name, form in forms if form in data]


def opened(plants: Sequence[Planted], keys: Keys, *directories: Path) -> list[set[str]]:
    """In which form (`intake`, `part`) a key that is left opens each planted content."""
    files = list(files_of(*directories))
    waiting = [content for _, data in files for content in _intake_contents(data, keys)]
    return [_kinds(plant, waiting, files, keys) for plant in plants]


def _kinds(plant: Planted, waiting: list[bytes], files: list[tuple[Path, bytes]], keys: Keys) -> set[str]:
    kinds = {"intake" for content in waiting if plant.content in content}
    secrets = {secret for _, data in files for secret in _secrets(data, plant, keys)}
    parts = (each for secret in secrets for _, data in files for each in _part_contents(data, plant, secret))
    return kinds | {"part" for content in parts if plant.content in content}


def _inflated(rdb: bytes) -> Iterator[bytes]:
    """Strings that a snapshot of the queue holds compressed, as far as they can be told from other bytes."""
    for begin in _LZF.finditer(rdb):
        packed, at = _length(rdb, begin.end())
        size, at = _length(rdb, at)
        if 0 < packed < size <= _MOST:
            with suppress(IndexError):
                yield _lzf(rdb[at : at + packed], size)


def _length(rdb: bytes, at: int) -> tuple[int, int]:
    """Read a length of an RDB file; 0 for what is none."""
    first = rdb[at] if at < len(rdb) else 0
    if first < 64:
        return first, at + 1
    if first < 128:
        return int.from_bytes(rdb[at : at + 2]) & 0x3FFF, at + 2
    return (int.from_bytes(rdb[at + 1 : at + 5]), at + 5) if first == 128 else (0, at)


def _lzf(packed: bytes, size: int) -> bytes:
    """Undo LibLZF; IndexError where it is something else."""
    plain, at = bytearray(), 0
    while at < len(packed) and len(plain) < size:
        control = packed[at]
        at += 1
        if control < 32:
            plain += packed[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[at]
            at += 1
        back = len(plain) - ((control & 31) << 8) - packed[at] - 1
        at += 1
        for _ in range(length + 2):
            plain.append(plain[back] if back >= 0 else 0)
            back += 1
    return bytes(plain)


def _intake_contents(data: bytes, keys: Keys) -> Iterator[bytes]:
    for begin in _versions(keys).finditer(data):
        salt_at = begin.start() + 1 + _ID
        if data[begin.start() + 1 : salt_at] not in keys.intake:
            continue
        salt = data[salt_at : salt_at + _SALT]
        # The id only says which key it should be.
        for secret in keys.every:
            key = commitments.hkdf_expand(secret, b"custody/v1/intake" + salt)
            yield from _frame(key, bytes(_NONCE), data[salt_at + _SALT : salt_at + _SALT + _MOST])


def _versions(keys: Keys) -> re.Pattern[bytes]:
    """What a queued body begins with: its version, and bytes with which the id of some key could begin."""
    columns = [{key_id[column : column + 1] for key_id in keys.intake} for column in range(3)]
    sets = [b"[" + b"".join(map(re.escape, sorted(column))) + b"]" for column in columns]
    return re.compile(b"\x01" + b"".join(sets), re.DOTALL)


def _secrets(data: bytes, planted: Planted, keys: Keys) -> Iterator[bytes]:
    aad = commitments.secret_aad(planted.identity.scope, planted.bucket, planted.evidence)
    for at in _places(data, planted.evidence.bytes):
        for start in range(max(1, at - _NEAR), at + _NEAR):
            if data[start - 1 : start] != _SIXTY:
                continue
            wrapped = data[start : start + _WRAPPED]
            for key in keys.every:
                with suppress(InvalidTag, ValueError):
                    yield AESGCM(key).decrypt(wrapped[:_NONCE], wrapped[_NONCE:], aad)


def _part_contents(data: bytes, planted: Planted, secret: bytes) -> Iterator[bytes]:
    key = commitments.part_keys(secret)[0]
    for at in _places(data, planted.evidence.bytes):
        for start in range(at, at + 2 * _NEAR):
            yield from _frame(
                key, data[start : start + _NONCE], data[start + _NONCE : start + _NONCE + _MOST]
            )


def _frame(key: bytes, nonce: bytes, sealed: bytes) -> Iterator[bytes]:
    """Read what a key's stream makes of some bytes, if it is a frame."""
    if len(nonce) < _NONCE:
        return
    stream: Callable[[bytes], bytes] = (
        Cipher(algorithms.AES(key), modes.CTR(nonce + _COUNTER)).decryptor().update
    )
    beginning = stream(sealed[:5])
    length = int.from_bytes(beginning[1:5])
    if len(beginning) < 5 or beginning[0] > 1 or not 0 < length <= len(sealed) - 5:
        return
    frame = beginning + stream(sealed[5 : 5 + length])
    try:
        yield frames.frame_decode(frame + bytes(-len(frame) % 64), _MOST)
    except Corrupt:
        return


def _places(data: bytes, needle: bytes) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)
