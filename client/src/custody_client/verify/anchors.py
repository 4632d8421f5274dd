"""Checkpoints that the verifier's owner holds from before: the bundle's tree must have grown out of theirs."""

import re
from binascii import a2b_base64
from collections.abc import Iterator, Sequence
from typing import Final

from custody_client.verify.bag import Bag
from custody_client.verify.head import Head
from custody_client.verify.merkle import consistent
from custody_client.verify.notes import Checkpoint, Vkey, open_checkpoint
from custody_client.verify.report import Item, State
from custody_client.verify.texts import B64_32
from custody_client.verify.wrong import Wrong

FOLDER: Final = "data/consistency/"
ANCHOR: Final = "the anchor"

_HASH_LINE: Final = 45
_PROOF: Final = re.compile(rf"(?:{B64_32}\n){{0,126}}".encode())


def check_anchors(bag: Bag, head: Head, key: Vkey, notes: Sequence[bytes]) -> Iterator[Item]:
    """Check each anchor, and say which proofs of consistency no anchor asked for."""
    asked: set[str] = set()
    for note in notes:
        try:
            anchor = open_checkpoint(note, key)
        except ValueError as error:
            yield Item("anchor", "?", State.FAILED, file=ANCHOR, problem=str(error))
            continue
        file = f"{FOLDER}{anchor.size}.txt"
        asked.add(file)
        yield _guarded(bag, head, anchor, file)
    if not notes:
        yield Item("anchor", "none", State.NOT_CHECKED, not_checked=("consistency: no anchor was given",))
    for file in sorted(name for name in bag.names if name.startswith(FOLDER) and name not in asked):
        yield _unasked(bag, file)


def _guarded(bag: Bag, head: Head, anchor: Checkpoint, file: str) -> Item:
    name = str(anchor.size)
    try:
        return _check(bag, head.checkpoint, anchor, file)
    except Wrong as wrong:
        return Item("anchor", name, State.FAILED, file=wrong.file, problem=wrong.problem)


def _check(bag: Bag, checkpoint: Checkpoint, anchor: Checkpoint, file: str) -> Item:
    name = str(anchor.size)
    if anchor.size > checkpoint.size:
        raise Wrong(
            ANCHOR, "is of a larger tree than the bundle's: the log was set back, or the bundle is older"
        )
    if anchor.size == checkpoint.size:
        if anchor.root != checkpoint.root:
            raise Wrong(ANCHOR, "has another root at the same size: the log was forked")
        path = _path(bag, file) if file in bag.names else []
        if path:
            raise Wrong(file, "proves something about a tree and itself")
        return Item("anchor", name, State.OK)
    if anchor.size == 0:
        return Item(
            "anchor", name, State.NOT_CHECKED, not_checked=("consistency: the anchor is of an empty tree",)
        )
    if file not in bag.names:
        return Item(
            "anchor", name, State.NOT_CHECKED, not_checked=("consistency: the bundle has no proof for it",)
        )
    if not consistent(anchor.size, anchor.root, checkpoint.size, checkpoint.root, _path(bag, file)):
        raise Wrong(file, "does not show that the bundle's tree grew out of the anchor's")
    return Item("anchor", name, State.OK)


def _unasked(bag: Bag, file: str) -> Item:
    size = file.removeprefix(FOLDER).removesuffix(".txt")
    try:
        _path(bag, file)
    except Wrong as wrong:
        return Item("anchor", size, State.FAILED, file=wrong.file, problem=wrong.problem)
    return Item(
        "anchor", size, State.NOT_CHECKED, not_checked=("consistency: no anchor of this size was given",)
    )


def _path(bag: Bag, file: str) -> list[bytes]:
    data = bag.read(file)
    if not _PROOF.fullmatch(data):
        raise Wrong(file, "is not a proof of consistency in its one form")
    return [a2b_base64(data[at : at + _HASH_LINE]) for at in range(0, len(data), _HASH_LINE)]
