"""What the bundle does not hold: each with the store's reason, and with what the log says of it."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from custody_client.verify import leaves, openings
from custody_client.verify.bag import Bag
from custody_client.verify.head import Head
from custody_client.verify.proofs import LEAF, included
from custody_client.verify.report import Item, State
from custody_client.verify.texts import HEX_ID, canonical_json
from custody_client.verify.wrong import Wrong

LIST: Final = "data/unavailable.json"
FOLDER: Final = "data/unavailable/"
KINDS: Final = frozenset({"part", "purge", "expire"})

# What an expire leaf shows: the bucket of the part went, or would have gone but for a hold.
_EXPIRED: Final = frozenset({"retention_expired", "expired_held"})
# Reasons that a purge leaf contradicts if it says another word: the store has them from that very purge. Another reason
# may stand beside one: a reader without the right is told nothing else, and a restored store may not remember more.
_GONE: Final = frozenset(word.decode("ascii") for word in leaves.PURGE_WORDS) | {
    "expired_held",
    "lost_in_restore",
}
_ID: Final = re.compile(HEX_ID)
_WORD: Final = re.compile(r"[a-z][a-z_]{0,63}")


def read_list(bag: Bag, present: Collection[str], proven: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the entries of `unavailable.json` by evidence.

    None may be `present` in the bundle; whatever has a directory of proofs (`proven`) must be listed.
    """
    try:
        entries = canonical_json(bag.read(LIST))
    except ValueError as error:
        raise Wrong(LIST, str(error)) from None
    if not isinstance(entries, list) or not all(_formed(entry) for entry in entries):
        raise Wrong(LIST, "has entries that cannot be read")
    found = {entry["evidence"]: entry for entry in entries}
    if len(found) != len(entries):
        raise Wrong(LIST, "names a part twice")
    if not found.keys().isdisjoint(present):
        raise Wrong(LIST, "names a part that is in the bundle")
    if not found.keys() >= set(proven):
        raise Wrong(LIST, "does not name a part of which there are proofs")
    return found


def _formed(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"evidence", "reason", "proofs"}
        and all(isinstance(entry[name], str) for name in ("evidence", "reason"))
        and bool(_ID.fullmatch(entry["evidence"]) and _WORD.fullmatch(entry["reason"]))
        and isinstance(entry["proofs"], list)
        and all(isinstance(name, str) for name in entry["proofs"])
    )


def check_unavailable(bag: Bag, head: Head, entry: Mapping[str, Any], files: Collection[str]) -> Item:
    """Check what the log says of one missing part; `files` are those of its directory."""
    evidence, reason, proofs = entry["evidence"], entry["reason"], entry["proofs"]
    kinds = {file.partition("/")[0] for file in files}
    if set(proofs) != kinds or len(set(proofs)) != len(proofs):
        raise Wrong(LIST, f"lists other proofs of {evidence} than there are")
    return Item(
        "unavailable",
        evidence,
        State.UNAVAILABLE,
        reason=reason,
        not_checked=tuple(_missing(bag, head, evidence, reason, files)),
    )


def _missing(bag: Bag, head: Head, evidence: str, reason: str, files: Collection[str]) -> Iterator[str]:
    """Yield what stays without proof; Wrong where a proof is there and does not hold."""
    folder = f"{FOLDER}{evidence}/"
    stored = _stored(bag, head, folder, evidence, files)
    if stored is None:
        yield "stored"
    words = _purged(bag, head, folder, evidence, stored, reason, files) | _expired(
        bag, head, folder, stored, files
    )
    if reason not in words:
        yield "reason"


def _stored(
    bag: Bag, head: Head, folder: str, evidence: str, files: Collection[str]
) -> tuple[int, re.Match[bytes]] | None:
    if not any(file.startswith("part/") for file in files):
        return None
    folder += "part/"
    index, leaf = included(bag, folder, leaves.PART, head.checkpoint)
    if leaf["p"] != evidence.encode("ascii"):
        raise Wrong(folder + LEAF, "is about another part")
    if {"part/meta.json", "part/openings.json"}.intersection(files):
        openings.committed_meta(
            bag, f"{folder}meta.json", openings.meta_opening(bag, folder), leaf, head.scope
        )
    return index, leaf


def _purged(
    bag: Bag,
    head: Head,
    folder: str,
    evidence: str,
    stored: tuple[int, re.Match[bytes]] | None,
    reason: str,
    files: Collection[str],
) -> set[str]:
    if not any(file.startswith("purge/") for file in files):
        return set()
    folder += "purge/"
    index, leaf = included(bag, folder, leaves.PURGE, head.checkpoint)
    if leaf["p"] != evidence.encode("ascii") or leaf["w"] not in leaves.PURGE_WORDS:
        raise Wrong(folder + LEAF, "is about another part, or says a word that no purge says")
    of = int(leaf["of"])
    if of >= index or (stored is not None and of != stored[0]):
        raise Wrong(folder + LEAF, "is about another leaf than the part's")
    word = leaf["w"].decode("ascii")
    if reason in _GONE and reason != word:
        raise Wrong(folder + LEAF, "gives another reason than the bundle")
    return {word}


def _expired(
    bag: Bag, head: Head, folder: str, stored: tuple[int, re.Match[bytes]] | None, files: Collection[str]
) -> frozenset[str]:
    if not any(file.startswith("expire/") for file in files):
        return frozenset()
    folder += "expire/"
    _, leaf = included(bag, folder, leaves.EXPIRE, head.checkpoint)
    if stored is None or leaf["b"] != stored[1]["b"]:
        raise Wrong(folder + LEAF, "is about another bucket than the part's")
    return _EXPIRED
