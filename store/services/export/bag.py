"""A bundle as it is written: a BagIt 1.0 bag (RFC 8493) in a zip archive; only what was not fetched yet is held.

A zip archive ends with its directory. One that was abandoned has none, so that nobody can take it for a whole one.
"""

import zipfile
from collections.abc import Iterable, Mapping
from datetime import date
from hashlib import sha256
from typing import IO, Final
from uuid import UUID

from store.log_tree.notes import Signer
from store.log_tree.strict import to_base64

_BAGIT: Final = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
_MANIFEST: Final = "manifest-sha256.txt"
_TAG_MANIFEST: Final = "tagmanifest-sha256.txt"

# Below this, deflating costs more than it saves.
_SMALL: Final = 256
# Contents are sent once; most of what deflating gains is gained quickly.
_QUICKLY: Final = 1
_PLAIN_FILE: Final = 0o100644 << 16


class Bag:
    """One bundle; all but `take` may be called in a thread, by one caller at a time."""

    def __init__(self, export: UUID, day: date) -> None:
        self._export = export.hex
        self._day = day
        self._sink = _Sink()
        # It asks for what can be written to, and does without seeking.
        self._zip = zipfile.ZipFile(self._sink, "w", allowZip64=True)  # type: ignore[call-overload]
        self._manifest: list[str] = []
        self._octets = 0

    def add(self, files: Mapping[str, bytes]) -> None:
        """Put files into the payload."""
        for name, data in files.items():
            self._list(name, sha256(data).hexdigest(), len(data))
            self._write(f"data/{name}", data)

    def lines(self, name: str) -> "Lines":
        """Begin a file of the payload that is written piece by piece; nothing else is written until it is closed."""
        return Lines(self, name, self._zip.open(self._entry(f"data/{name}", zipfile.ZIP_DEFLATED), "w"))

    def seal(self, signer: Signer) -> None:
        """Write the manifests, sign them, and end the archive: only from now on it is one."""
        manifest = "".join(self._manifest).encode("ascii")
        info = (
            f"Bagging-Date: {self._day.isoformat()}\nExternal-Identifier: {self._export}\n"
            f"Payload-Oxum: {self._octets}.{len(self._manifest)}\n"
        ).encode("ascii")
        tags = {"bagit.txt": _BAGIT, "bag-info.txt": info, _MANIFEST: manifest}
        tag_manifest = "".join(_line(name, sha256(data).hexdigest()) for name, data in tags.items()).encode()
        digest = to_base64(sha256(tag_manifest).digest())
        note = signer.sign(f"custody/v1/bundle\n{self._export}\n{digest}\n")
        for name, data in {**tags, _TAG_MANIFEST: tag_manifest, "bundle.note": note}.items():
            self._write(name, data)
        self._zip.close()

    def take(self) -> bytes:
        """Return what was written since the last time."""
        return self._sink.take()

    def abandon(self) -> None:
        """Let it never be whole: the library would end the archive by itself when it is forgotten."""
        self._sink.discard()

    def _list(self, name: str, digest: str, size: int) -> None:
        self._manifest.append(_line(f"data/{name}", digest))
        self._octets += size

    def _write(self, name: str, data: bytes) -> None:
        how = zipfile.ZIP_DEFLATED if len(data) > _SMALL else zipfile.ZIP_STORED
        self._zip.writestr(self._entry(name, how), data, compresslevel=_QUICKLY)

    def _entry(self, name: str, how: int) -> zipfile.ZipInfo:
        day = (self._day.year, self._day.month, self._day.day, 0, 0, 0)
        entry = zipfile.ZipInfo(f"custody-{self._export}/{name}", day)
        entry.compress_type = how
        entry.external_attr = _PLAIN_FILE
        return entry


class Lines:
    """A file of lines on its way into the payload."""

    def __init__(self, bag: Bag, name: str, file: IO[bytes]) -> None:
        self._bag = bag
        self._name = name
        self._file = file
        self._digest = sha256()
        self._size = 0

    def write(self, lines: Iterable[bytes]) -> None:
        """Add some."""
        data = b"".join(line + b"\n" for line in lines)
        self._digest.update(data)
        self._size += len(data)
        self._file.write(data)

    def close(self) -> None:
        """End the file."""
        self._file.close()
        self._bag._list(self._name, self._digest.hexdigest(), self._size)  # noqa: SLF001 - they are one


def _line(name: str, digest: str) -> str:
    return f"{digest}  {name}\n"


class _Sink:
    """Where the archive is written: it can neither be read nor sought in, and forgets what was taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._discarding = False

    def write(self, data: bytes) -> int:
        if not self._discarding:
            self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """There is nowhere to flush to."""

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken

    def discard(self) -> None:
        self._discarding, self._pieces = True, []
