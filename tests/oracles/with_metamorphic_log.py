"""Check checkpoint, inclusion and consistency with `metamorphic-log`: VKEY LEAF PROOF ANCHOR CONSISTENCY."""

import hashlib
import sys
from base64 import b64decode
from pathlib import Path

import metamorphic_log

vkey, leaf, proof, anchor, consistency = sys.argv[1:]
head, _, note = Path(proof).read_text().partition("\n\n")
_, index, *path = head.split("\n")
number = int(index.removeprefix("index "))
leaf_hash = hashlib.sha256(b"\x00" + Path(leaf).read_bytes()).digest()
metamorphic_log.checkpoint_verify_inclusion(
    note, [vkey], number, leaf_hash, [b64decode(line) for line in path]
)
old, new = (metamorphic_log.checkpoint_verify(text, [vkey]) for text in (Path(anchor).read_text(), note))
nodes = [b64decode(line) for line in Path(consistency).read_text().split()]
metamorphic_log.verify_consistency(old.size, new.size, nodes, old.root, new.root)
print("included", number, new.size)
