"""Which files a bundle may hold, and how large each may be. Whatever else is in it makes it fail."""

import re
from typing import Final

from custody_client.verify.texts import HEX_ID, NUMBER

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30

TAGS: Final = ("bagit.txt", "bag-info.txt", "manifest-sha256.txt", "tagmanifest-sha256.txt", "bundle.note")
ROOT: Final = (
    "data/bundle.json", "data/checkpoint", "data/policy.txt", "data/unavailable.json", "data/accesses.jsonl",
    "data/actions.jsonl",
)  # fmt: skip
PART: Final = ("content", "meta.json", "leaf.json", "openings.json", "proof.tlog-proof")
CLOSING: Final = ("close.json", "leaf.json", "openings.json", "proof.tlog-proof")

# The most bytes of a file, by the last component of its name; what is not listed is small.
_MOST_BYTES: Final = {
    "content": GIB,
    "meta.json": MIB,
    "close.json": 16 * MIB,
    "manifest-sha256.txt": 256 * MIB,
    "unavailable.json": 16 * MIB,
    "accesses.jsonl": 16 * GIB,
    "actions.jsonl": 16 * GIB,
}
_SMALL: Final = 64 * KIB
# A line of the records; they are read line by line.
MOST_LINE_BYTES: Final = MIB

MOST_FILES: Final = 1_000_000
# The most that a manifest needs for one of them.
MANIFEST_LINE_BYTES: Final = 256
# What all files may come to when inflated: any bundle of moderate size, and larger ones as far as prose compresses.
_FREE_BYTES: Final = GIB
_RATIO: Final = 200

_id: Final = HEX_ID
_NAME: Final = re.compile(
    "|".join(
        (
            rf"data/parts/{_id}/(?:content|(?:meta|leaf|openings)\.json|proof\.tlog-proof)",
            rf"data/closings/{_id}/(?:(?:close|leaf|openings)\.json|proof\.tlog-proof)",
            rf"data/unavailable/{_id}/(?:part|purge|expire)/(?:leaf\.json|proof\.tlog-proof)",
            rf"data/unavailable/{_id}/part/(?:meta|openings)\.json",
            rf"data/consistency/{NUMBER}\.txt",
            *map(re.escape, (*TAGS, *ROOT)),
        )
    )
)

allowed: Final = _NAME.fullmatch
"""Whether a name, below the top directory, belongs into a bundle."""


def most_bytes(name: str) -> int:
    """Return how large a file of this name may be."""
    return _MOST_BYTES.get(name[name.rfind("/") + 1 :], _SMALL)


def most_bytes_of_all(archive_bytes: int) -> int:
    """Return to how much an archive of this size may inflate."""
    return _FREE_BYTES + _RATIO * archive_bytes
