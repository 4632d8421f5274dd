"""Commitments and what opens them: HMAC-SHA256 under an opening of 32 bytes."""

import hmac
import re
from binascii import a2b_base64
from typing import Any, Final

from custody_client.verify.bag import Bag
from custody_client.verify.texts import B64_32, HEX_ID, canonical_json
from custody_client.verify.wrong import Wrong

OPENINGS: Final = "openings.json"

_PART: Final = re.compile(rf'\{{"meta_opening":"({B64_32})","opening":"({B64_32})","v":1\}}'.encode())
_META: Final = re.compile(rf'\{{"meta_opening":"({B64_32})","v":1\}}'.encode())
_CLOSE: Final = re.compile(rf'\{{"close_opening":"({B64_32})","v":1\}}'.encode())

_META_FIELDS: Final = frozenset(
    {
        "attempt", "bucket", "captured_at", "completeness", "exchange", "kind", "media_type", "received_at", "run",
        "scope", "sequence", "session", "size_class", "sources", "v", "vantage",
    }
)  # fmt: skip
_CLOSE_FIELDS: Final = frozenset({"counts", "run", "scope", "sessions", "v"})
_ID: Final = re.compile(HEX_ID)


def part_openings(bag: Bag, folder: str) -> tuple[bytes, bytes]:
    """Return what opens a part's metadata, and what opens its content."""
    match = _read(bag, folder, _PART)
    return a2b_base64(match[1]), a2b_base64(match[2])


def meta_opening(bag: Bag, folder: str) -> bytes:
    """Return what opens the metadata of a part whose content is not there."""
    return a2b_base64(_read(bag, folder, _META)[1])


def close_opening(bag: Bag, folder: str) -> bytes:
    """Return what opens a closing."""
    return a2b_base64(_read(bag, folder, _CLOSE)[1])


def committed_meta(bag: Bag, file: str, opening: bytes, leaf: re.Match[bytes], scope: str) -> dict[str, Any]:
    """Return a part's metadata; Wrong unless the leaf commits to it and it is of this scope and the leaf's bucket."""
    meta = _committed(bag, file, opening, leaf, _META_FIELDS)
    if meta["scope"] != scope:
        raise Wrong(file, "is of another scope")
    bucket = meta["bucket"]
    if not isinstance(bucket, str) or not _ID.fullmatch(bucket) or bucket.encode("ascii") != leaf["b"]:
        raise Wrong(file, "names another bucket than the leaf")
    return meta


def committed_close(bag: Bag, file: str, opening: bytes, leaf: re.Match[bytes], scope: str) -> None:
    """Hold a close record against its leaf."""
    if _committed(bag, file, opening, leaf, _CLOSE_FIELDS)["scope"] != scope:
        raise Wrong(file, "is of another scope")


def committed_content(bag: Bag, file: str, opening: bytes, leaf: re.Match[bytes]) -> int:
    """Hold content against its leaf, piece by piece, and return how long it is."""
    size = 0
    code = hmac.new(opening, digestmod="sha256")
    for piece in bag.chunks(file):
        code.update(piece)
        size += len(piece)
    if code.digest() != a2b_base64(leaf["c"]):
        raise Wrong(file, "is not what the leaf commits to")
    return size


def _committed(
    bag: Bag, file: str, opening: bytes, leaf: re.Match[bytes], fields: frozenset[str]
) -> dict[str, Any]:
    data = bag.read(file)
    # Bytes first: what does not open the commitment is not even parsed.
    if hmac.digest(opening, data, "sha256") != a2b_base64(leaf["m"]):
        raise Wrong(file, "is not what the leaf commits to")
    try:
        value = canonical_json(data)
    except ValueError as error:
        raise Wrong(file, str(error)) from None
    if not isinstance(value, dict) or value.keys() != fields:
        raise Wrong(file, "has not exactly its fields")
    if type(value["v"]) is not int or value["v"] != 1:
        raise Wrong(file, "is of another version")
    return value


def _read(bag: Bag, folder: str, form: re.Pattern[bytes]) -> re.Match[bytes]:
    match = form.fullmatch(bag.read(folder + OPENINGS))
    if match is None:
        raise Wrong(folder + OPENINGS, "has not its one form")
    return match
