"""Signed notes and checkpoints as C2SP describes them (signed-note, tlog-checkpoint), Ed25519 only.

Everything raises ValueError, with words that say what is wrong.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from custody_client.verify.merkle import EMPTY_ROOT
from custody_client.verify.texts import B64_32, NUMBER, strict_base64

_ED25519: Final = b"\x01"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_SIGNATURE_BYTES: Final = 64
_MOST_SIGNATURES: Final = 100
_VKEY: Final = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)")
_LINE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+=*)")
_CHECKPOINT: Final = re.compile(rf"([^\n]+)\n({NUMBER})\n({B64_32})\n")
# Controls but the newline, as the format says; and a carriage return is one.
_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class Vkey:
    """A verifier key: whose signature is believed, under which name."""

    name: str
    key_id: bytes
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "Vkey":
        """Read `name+id+base64`; the id must be that of the name and the key."""
        match = _VKEY.fullmatch(text)
        if match is None:
            raise ValueError("not a verifier key")
        name, key_id = match[1], bytes.fromhex(match[2])
        key = strict_base64(match[3].encode("ascii"))
        if len(key) != 1 + _KEY_BYTES or key[:1] != _ED25519:
            raise ValueError("not the verifier key of an Ed25519 signature")
        if sha256(name.encode() + b"\n" + key).digest()[:_ID_BYTES] != key_id:
            raise ValueError("a verifier key whose id is not its own")
        return cls(name, key_id, key[1:])

    def verifies(self, signature: bytes, text: bytes) -> bool:
        """Whether this key signed that text."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the log says of itself: so many leaves, with this root. `note` is what it signed, signatures included."""

    origin: str
    size: int
    root: bytes
    note: bytes


def open_note(note: bytes, key: Vkey, *, alone: bool) -> bytes:
    """Return the text that `key` signed; ValueError unless it did, once.

    `alone`: nobody else may have signed. Otherwise lines of keys that we do not know are read and passed over, as
    the format says; every line must be readable in either case.
    """
    text, _, tail = note.rpartition(b"\n\n")
    if not text or not tail.endswith(b"\n"):
        raise ValueError("not a signed note")
    _refuse_controls(note)
    signed = text + b"\n"
    own = 0
    for name, key_id, signature in _signatures(tail):
        if (name, key_id) != (key.name, key.key_id):
            if alone:
                raise ValueError("signed by a key that the policy does not name")
            continue
        own += 1
        if len(signature) != _SIGNATURE_BYTES or not key.verifies(signature, signed):
            raise ValueError("a signature that does not verify")
    if own != 1:
        raise ValueError("not signed by the policy's key" if own == 0 else "signed twice by one key")
    return signed


def open_checkpoint(note: bytes, key: Vkey) -> Checkpoint:
    """Return what a checkpoint says; ValueError unless it is of this key's log and has its one form."""
    text = open_note(note, key, alone=False)
    match = _CHECKPOINT.fullmatch(text.decode())
    if match is None:
        raise ValueError("a checkpoint that has not its one form")
    if match[1] != key.name:
        raise ValueError("a checkpoint of another origin")
    size, root = int(match[2]), strict_base64(match[3].encode("ascii"))
    if size == 0 and root != EMPTY_ROOT:
        raise ValueError("an empty tree with a root that is not that of none")
    return Checkpoint(match[1], size, root, note)


def _refuse_controls(note: bytes) -> None:
    try:
        text = note.decode()
    except UnicodeDecodeError as error:
        raise ValueError("a note that is not UTF-8") from error
    if _CONTROLS.search(text):
        raise ValueError("a note with control characters in it")


def _signatures(tail: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    lines = tail.decode().split("\n")[:-1]
    if len(lines) > _MOST_SIGNATURES:
        raise ValueError("too many signatures")
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError("a signature line that cannot be read")
        data = strict_base64(match[2].encode("ascii"))
        if len(data) <= _ID_BYTES:
            raise ValueError("a signature line that cannot be read")
        yield match[1], data[:_ID_BYTES], data[_ID_BYTES:]
