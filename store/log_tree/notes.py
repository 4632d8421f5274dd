"""Signed notes and checkpoints (C2SP signed-note, tlog-checkpoint) with Ed25519 keys."""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from store.log_tree.strict import Unreadable, from_base64, hash_from_base64, number, to_base64

_ED25519: Final = b"\x01"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_DASH: Final = "\N{EM DASH} "
_ID_TEXT: Final = re.compile(r"[0-9a-f]{8}")
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")

# Room for sixteen signatures of witnesses, the largest kinds included, as verifiers must accept.
_LONGEST_NOTE: Final = 1_000_000
_MOST_SIGNATURES: Final = 100


class Unsigned(ValueError):
    """A note bears no signature of the key asked for, or one that is not genuine."""


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name it signs under; its text is a `vkey`."""

    name: str
    public: bytes

    def __post_init__(self) -> None:
        if not _is_name(self.name) or len(self.public) != _KEY_BYTES:
            raise Unreadable("a key has no proper name, or not 32 bytes")

    @property
    def key_id(self) -> bytes:
        """Return what signature lines call the key: four bytes that bind name, algorithm and key."""
        return sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:_ID_BYTES]

    @property
    def text(self) -> str:
        """Return the vkey."""
        return f"{self.name}+{self.key_id.hex()}+{to_base64(_ED25519 + self.public)}"


def parse_vkey(text: str) -> VerifierKey:
    """Read a vkey; Unreadable unless it is an Ed25519 key whose id is its own."""
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    if _ID_TEXT.fullmatch(key_id) is None:
        raise Unreadable("a vkey has no id of eight hex digits")
    value = from_base64(encoded)
    key = VerifierKey(name, value[1:])
    if value[:1] != _ED25519 or key.key_id.hex() != key_id:
        raise Unreadable("a vkey is not of Ed25519, or its id is not its own")
    return key


class Signer:
    """A signing key with its name; made from the 32-byte seed."""

    __slots__ = ("_private", "key")

    def __init__(self, name: str, seed: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.key = VerifierKey(name, self._private.public_key().public_bytes_raw())

    def sign(self, text: str) -> bytes:
        """Return the signed note of a text, which ends in a newline."""
        if not text.endswith("\n") or _CONTROL.search(text):
            raise ValueError("a note's text ends in a newline and has no other control characters")
        signature = to_base64(self.key.key_id + self._private.sign(text.encode()))
        return f"{text}\n{_DASH}{self.key.name} {signature}\n".encode()

    def __repr__(self) -> str:
        return f"Signer({self.key.name!r})"


def verify(note: bytes, key: VerifierKey) -> str:
    """Return the text of a note that `key` signed; signatures of other keys are passed over.

    Raises Unreadable on a note out of form, Unsigned when no signature is the key's or one of them is false.
    """
    text, signatures = _split(note)
    ours = [value for name, key_id, value in signatures if (name, key_id) == (key.name, key.key_id)]
    if not ours:
        raise Unsigned("the note has no signature of this key")
    public = Ed25519PublicKey.from_public_bytes(key.public)
    try:
        for signature in ours:
            public.verify(signature, text.encode())
    except InvalidSignature:
        raise Unsigned("the note's signature is not this key's") from None
    return text


def unverified_text(note: bytes) -> str:
    """Return the text of a note whoever signed it; it proves nothing."""
    return _split(note)[0]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log says of itself at one size."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """Return the text to sign."""
        return f"{self.origin}\n{self.size}\n{to_base64(self.root)}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Read a checkpoint's text; our logs write no extension lines, so there must be none."""
    lines = text.split("\n")
    if len(lines) != 4 or lines[3] or not lines[0]:  # noqa: PLR2004 - three lines, each ended
        raise Unreadable("a checkpoint has not exactly three lines")
    return Checkpoint(lines[0], number(lines[1]), hash_from_base64(lines[2]))


def verify_checkpoint(note: bytes, key: VerifierKey) -> Checkpoint:
    """Return the checkpoint that `key` signed for the log of its own name; raises as `verify` does."""
    checkpoint = parse_checkpoint(verify(note, key))
    if checkpoint.origin != key.name:
        raise Unsigned("the checkpoint is of another log")
    return checkpoint


def _split(note: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    # The text is all before the last empty line; each line after it is a signature.
    whole = _decoded(note)
    text, gap, signed = whole.rpartition("\n\n")
    if not gap or not signed.endswith("\n"):
        raise Unreadable("a note has no signatures after an empty line, or does not end in a newline")
    lines = signed[:-1].split("\n")
    if len(lines) > _MOST_SIGNATURES:
        raise Unreadable("a note has too many signatures")
    return text + "\n", [_signature(line) for line in lines]


def _decoded(note: bytes) -> str:
    if len(note) > _LONGEST_NOTE:
        raise Unreadable("a note is too long")
    try:
        text = note.decode()
    except UnicodeDecodeError:
        raise Unreadable("a note is not UTF-8") from None
    if _CONTROL.search(text):
        raise Unreadable("a note has control characters")
    return text


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not _is_name(name):
        raise Unreadable("a line after the text is not a signature")
    value = from_base64(encoded)
    if len(value) <= _ID_BYTES:
        raise Unreadable("a signature is too short")
    return name, value[:_ID_BYTES], value[_ID_BYTES:]


def _is_name(text: str) -> bool:
    return text != "" and "+" not in text and not any(character.isspace() for character in text)
