"""Whether a leaf is in the log: a tlog-proof (C2SP) whose checkpoint is the bundle's own, verified once for all."""

import re
from binascii import a2b_base64
from typing import Final

from custody_client.verify.bag import Bag
from custody_client.verify.merkle import leaf_hash, root_of_inclusion
from custody_client.verify.notes import Checkpoint
from custody_client.verify.texts import B64_32, NUMBER
from custody_client.verify.wrong import Wrong

LEAF: Final = "leaf.json"
PROOF: Final = "proof.tlog-proof"

_HASH_LINE: Final = 45
_HEAD: Final = re.compile(rf"c2sp\.org/tlog-proof@v1\nindex ({NUMBER})\n((?:{B64_32}\n){{0,63}})\n".encode())


def included(
    bag: Bag, folder: str, form: re.Pattern[bytes], checkpoint: Checkpoint
) -> tuple[int, re.Match[bytes]]:
    """Return a leaf's index and its fields; Wrong unless it has this form and is under the checkpoint."""
    leaf = bag.read(folder + LEAF)
    match = form.fullmatch(leaf)
    if match is None:
        raise Wrong(folder + LEAF, "is not a leaf of its kind in its one form")
    return _index(bag.read(folder + PROOF), folder + PROOF, leaf, checkpoint), match


def _index(proof: bytes, file: str, leaf: bytes, checkpoint: Checkpoint) -> int:
    if not proof.endswith(checkpoint.note):
        raise Wrong(file, "does not end in the bundle's checkpoint")
    match = _HEAD.fullmatch(proof, 0, len(proof) - len(checkpoint.note))
    if match is None:
        raise Wrong(file, "is not a proof in its one form")
    index, lines = int(match[1]), match[2]
    path = [a2b_base64(lines[at : at + _HASH_LINE]) for at in range(0, len(lines), _HASH_LINE)]
    if root_of_inclusion(index, checkpoint.size, leaf_hash(leaf), path) != checkpoint.root:
        raise Wrong(file, "does not lead from the leaf to the checkpoint's root")
    return index
