"""Check a checkpoint and an inclusion proof with `proofbundle`: VKEY LEAF PROOF."""

import sys
from pathlib import Path

from proofbundle import verify_tlog_proof

vkey, leaf, proof = sys.argv[1:]
origin = vkey.partition("+")[0]
found = verify_tlog_proof(Path(proof).read_text(), Path(leaf).read_bytes(), vkey, expected_origin=origin)
print("included", found["index"], found["tree_size"])
sys.exit(not (found["ok"] and found["log_ok"] and found["inclusion_ok"]))
