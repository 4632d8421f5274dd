"""What a bundle says of itself: its signature, `bundle.json`, and the checkpoint that everything is proven under."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from custody_client.verify.bag import Archive, Bag, whole
from custody_client.verify.notes import Checkpoint, Vkey, open_checkpoint, open_note
from custody_client.verify.texts import HEX_ID, canonical_json
from custody_client.verify.wrong import Wrong

NOTE: Final = "bundle.note"
FACTS: Final = "data/bundle.json"
CHECKPOINT: Final = "data/checkpoint"

_SIGNED: Final = re.compile(rf"custody/v1/bundle\n({HEX_ID})\n([A-Za-z0-9+/=]+)\n".encode())
_ID: Final = re.compile(HEX_ID)
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_COUNTS: Final = ("parts", "unavailable", "closings")
_FIELDS: Final = frozenset({"v", "export", "scope", "requested_at", "origin", "tree_size", *_COUNTS})


@dataclass(frozen=True, slots=True)
class Head:
    """The facts that every item is held against."""

    export: str
    scope: str
    counts: Mapping[str, int]
    checkpoint: Checkpoint


def check_signature(archive: Archive, bag: Bag, key: Vkey) -> str:
    """Return the export's id, which the bundle's key has signed together with the tag manifest."""
    try:
        text = open_note(whole(archive, NOTE), key, alone=True)
    except ValueError as error:
        raise Wrong(NOTE, str(error)) from None
    match = _SIGNED.fullmatch(text)
    if match is None:
        raise Wrong(NOTE, "a note that is not about a bundle")
    if match[2] != b64encode(sha256(bag.tag_manifest).digest()):
        raise Wrong(NOTE, "signs another tag manifest")
    export = match[1].decode("ascii")
    if archive.top not in (None, f"custody-{export}/"):
        raise Wrong(NOTE, "is about another export than the directory's name says")
    return export


def read_facts(bag: Bag) -> dict[str, Any]:
    """Return what `bundle.json` says, each field of the kind it must be."""
    try:
        facts = canonical_json(bag.read(FACTS))
    except ValueError as error:
        raise Wrong(FACTS, str(error)) from None
    if not isinstance(facts, dict) or facts.keys() != _FIELDS:
        raise Wrong(FACTS, "has not exactly its fields")
    for name in ("export", "scope"):
        if not isinstance(facts[name], str) or not _ID.fullmatch(facts[name]):
            raise Wrong(FACTS, f"has no id as its {name}")
    for name in ("v", "tree_size", *_COUNTS):
        if type(facts[name]) is not int or facts[name] < 0:
            raise Wrong(FACTS, f"has no number as its {name}")
    if facts["v"] != 1:
        raise Wrong(FACTS, "is of another version")
    if not _instant(facts["requested_at"]):
        raise Wrong(FACTS, "has no instant as its requested_at")
    return facts


def _instant(value: object) -> bool:
    """Whether it is a time as leaves have it, or as metadata has it."""
    if isinstance(value, str):
        return bool(_INSTANT.fullmatch(value))
    return type(value) is int and value >= 0


def read_checkpoint(bag: Bag, key: Vkey) -> Checkpoint:
    """Return the log's checkpoint."""
    try:
        return open_checkpoint(bag.read(CHECKPOINT), key)
    except ValueError as error:
        raise Wrong(CHECKPOINT, str(error)) from None


def head_of(facts: Mapping[str, Any], checkpoint: Checkpoint, export: str | None) -> Head:
    """Put both together; Wrong where they, or the signature, speak of different things."""
    if export is not None and facts["export"] != export:
        raise Wrong(FACTS, "is about another export than the signature")
    if facts["origin"] != checkpoint.origin:
        raise Wrong(FACTS, "names another origin than the checkpoint")
    if facts["tree_size"] != checkpoint.size:
        raise Wrong(FACTS, "names another tree size than the checkpoint")
    return Head(facts["export"], facts["scope"], {name: facts[name] for name in _COUNTS}, checkpoint)
