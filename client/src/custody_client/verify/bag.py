"""The bag (RFC 8493) that a bundle is: its manifests, and files that are read once and held against their digests."""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final, Protocol

from custody_client.verify import layout
from custody_client.verify.wrong import Wrong

BAGIT: Final = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
MANIFEST: Final = "manifest-sha256.txt"
TAG_MANIFEST: Final = "tagmanifest-sha256.txt"
INFO: Final = "bag-info.txt"

_OTHER_DIGEST: Final = "has another digest than the manifest says"
_LINE: Final = re.compile(rb"([0-9a-f]{64})  ([!-~]+)\n")
_INFO_LINE: Final = re.compile(r"([A-Za-z][A-Za-z-]*): ([^\r\n]+)\n")


class Archive(Protocol):
    """A bundle's files, wherever they are."""

    @property
    def top(self) -> str | None:
        """The directory around everything, with a slash; None where it has no name of its own."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """How large each file is said to be."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file piece by piece; Wrong if it is not what it was said to be."""


class Bag:
    """The payload under its manifest. Each file is read once; what nobody has read is found by `unread`."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._sizes = archive.sizes
        self.tag_manifest = whole(archive, TAG_MANIFEST)
        self._tags = _manifest(TAG_MANIFEST, self.tag_manifest)
        if self._sizes.get(MANIFEST, 0) > layout.MANIFEST_LINE_BYTES * len(self._sizes):
            raise Wrong(MANIFEST, "is larger than the files need")
        data = whole(archive, MANIFEST)
        self._manifest_digest = sha256(data).hexdigest()
        self._digests = _manifest(MANIFEST, data)
        self._unread = set(self._digests)

    @property
    def names(self) -> Mapping[str, str]:
        """The payload's files, as the manifest has them, with their digests."""
        return self._digests

    def read(self, name: str) -> bytes:
        """Return a file of the payload; Wrong unless it is there with the manifest's digest."""
        told = self._told(name)
        data = b"".join(self._archive.chunks(name))
        if sha256(data).hexdigest() != told:
            raise Wrong(name, _OTHER_DIGEST)
        return data

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file of the payload piece by piece; Wrong at its end, unless it has the manifest's digest."""
        told = self._told(name)
        digest = sha256()
        for piece in self._archive.chunks(name):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != told:
            raise Wrong(name, _OTHER_DIGEST)

    def _told(self, name: str) -> str:
        told = self._digests.get(name)
        if name not in self._sizes:
            raise Wrong(name, "is missing")
        if told is None:
            raise Wrong(name, "is not in the manifest")
        self._unread.discard(name)
        return told

    def unread(self) -> list[str]:
        """Return the payload's files that no check has read so far."""
        return sorted(self._unread)

    def check_tags(self, export: str) -> None:
        """Hold what stands around the payload against the tag manifest, and the payload's files against the list."""
        if whole(self._archive, "bagit.txt") != BAGIT:
            raise Wrong("bagit.txt", "does not say what it must")
        info = whole(self._archive, INFO)
        found = {
            "bagit.txt": sha256(BAGIT).hexdigest(),
            INFO: sha256(info).hexdigest(),
            MANIFEST: self._manifest_digest,
        }
        if self._tags.keys() != found.keys():
            raise Wrong(TAG_MANIFEST, "does not list exactly the tag files")
        for name, digest in found.items():
            if self._tags[name] != digest:
                raise Wrong(name, "has another digest than the tag manifest says")
        self._check_lists()
        self._check_info(info, export)

    def _check_lists(self) -> None:
        payload = {name for name in self._sizes if name.startswith("data/")}
        for name in sorted(payload - self._digests.keys()):
            raise Wrong(name, "is not in the manifest")
        for name in self._digests:
            if not layout.allowed(name) or not name.startswith("data/"):
                raise Wrong(MANIFEST, "lists something that does not belong into a bundle")
            if name not in payload:
                raise Wrong(name, "is missing")

    def _check_info(self, info: bytes, export: str) -> None:
        text = info.decode("utf-8", "replace")
        lines = _INFO_LINE.findall(text)
        if sum(len(label) + len(value) + 3 for label, value in lines) != len(text):
            raise Wrong(INFO, "has lines that cannot be read")
        sizes = [size for name, size in self._sizes.items() if name.startswith("data/")]
        wanted = {"External-Identifier": export, "Payload-Oxum": f"{sum(sizes)}.{len(sizes)}"}
        for label, value in wanted.items():
            if [said for name, said in lines if name == label] != [value]:
                raise Wrong(INFO, f"does not say the {label} that it should")


def whole(archive: Archive, name: str) -> bytes:
    """Return a file, whatever its digest."""
    if name not in archive.sizes:
        raise Wrong(name, "is missing")
    return b"".join(archive.chunks(name))


def _manifest(name: str, data: bytes) -> dict[str, str]:
    lines = _LINE.findall(data)
    if sum(len(path) for _, path in lines) + 67 * len(lines) != len(data):
        raise Wrong(name, "has lines that cannot be read")
    digests = {path.decode("ascii"): digest.decode("ascii") for digest, path in lines}
    if len(digests) != len(lines):
        raise Wrong(name, "lists a file twice")
    return digests
