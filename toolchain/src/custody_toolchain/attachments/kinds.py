"""What an attachment is by its first bytes, whatever its name and its sender say.

Promised: only what the bytes show. Not promised: that the rest of the file is of that kind, or that it is harmless.
"""

import codecs
from collections.abc import Callable
from enum import StrEnum
from typing import Final

# So much of the beginning is looked at; more is not needed for any kind here.
MOST_LOOKED_AT: Final = 4096

_ZIP: Final = "application/zip"
_OLE: Final = "application/x-ole-storage"
_OOXML: Final = "application/vnd.openxmlformats-officedocument."
UNKNOWN: Final = "application/octet-stream"
TEXT: Final = "text/plain"

# Where and with what a kind begins; the first that fits is it.
_MAGIC: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"%PDF-", "application/pdf"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"\x00\x00\x01\x00", "image/x-icon"),
    (0, b"8BPS", "image/vnd.adobe.photoshop"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"(\xb5/\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (257, b"ustar", "application/x-tar"),
    (0, b"fLaC", "audio/flac"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "application/ogg"),
    (0, b"#!AMR", "audio/amr"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"PAR1", "application/vnd.apache.parquet"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"MZ", "application/vnd.microsoft.portable-executable"),
    (0, b"\x00asm", "application/wasm"),
)
# With these a text may begin too; then it is one.
_LIKE_WORDS: Final = {b"MZ", b"BZh", b"ID3", b"PAR1", b"8BPS", b"fLaC", b"OggS", b"ustar"}
_BRANDS: Final = {
    b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heic", b"avif": "image/avif",
    b"qt  ": "video/quicktime", b"M4A ": "audio/mp4", b"M4B ": "audio/mp4",
}  # fmt: skip
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
# What a ZIP holds early on, and what it is then.
_IN_ZIP: Final = (
    (b"word/", f"{_OOXML}wordprocessingml.document"),
    (b"xl/", f"{_OOXML}spreadsheetml.sheet"),
    (b"ppt/", f"{_OOXML}presentationml.presentation"),
    (b"META-INF/MANIFEST.MF", "application/java-archive"),
)
# Kinds of which the first bytes tell only what they are wrapped in.
_WRAPPED: Final = {
    _ZIP: (_OOXML, "application/vnd.oasis.opendocument.", "application/epub+zip", "application/java-archive"),
    _OLE: ("application/msword", "application/vnd.ms-", "application/x-msi"),
    "application/ogg": ("audio/ogg", "video/ogg", "audio/opus"),
    "video/mp4": ("audio/mp4", "video/quicktime", "video/x-m4v"),
    "video/x-matroska": ("video/webm", "audio/webm", "audio/x-matroska"),
}
_OTHER_NAMES: Final = {
    "image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
    "audio/x-flac": "audio/flac", "application/x-gzip": "application/gzip", "text/xml": "application/xml",
    "application/x-zip-compressed": _ZIP, "text/rtf": "application/rtf", "video/avi": "video/x-msvideo",
    "application/x-pdf": "application/pdf", "image/vnd.microsoft.icon": "image/x-icon",
}  # fmt: skip
# Kinds that are text to look at; which one, the bytes do not tell for sure.
_TEXTUAL: Final = (
    "text/", "message/", "image/svg+xml", "application/json", "application/x-ndjson", "application/xml",
    "application/yaml", "application/toml", "application/sql", "application/javascript",
)  # fmt: skip


class Agreement(StrEnum):
    """How what was claimed and what was sniffed go together."""

    SAME = "same"
    COMPATIBLE = "compatible"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


def sniffed(head: bytes) -> str:
    """Return the media type that the first bytes show; `application/octet-stream` where they show none.

    At most 4 KiB are looked at. What is text is `text/plain`, but for XML, HTML and SVG that say so at their beginning.
    """
    head = head[:MOST_LOOKED_AT]
    for look in _LOOKS:
        found = look(head)
        if found is not None:
            return found
    return UNKNOWN


def agreement(claimed: str | None, found: str) -> Agreement:
    """Compare a claimed media type with the sniffed one; a container is compatible with what comes in it."""
    said = (claimed or "").partition(";")[0].strip().lower()
    said = _OTHER_NAMES.get(said, said)
    if UNKNOWN in {said or UNKNOWN, found}:
        return Agreement.UNKNOWN
    if said == found:
        return Agreement.SAME
    wraps = said.startswith(_WRAPPED.get(found, ())) or (_is_text(found) and said.startswith(_TEXTUAL))
    wrapped = said in _WRAPPED and found.startswith(_WRAPPED[said])
    return Agreement.COMPATIBLE if wraps or wrapped else Agreement.CONFLICT


def _is_text(found: str) -> bool:
    return found.startswith(_TEXTUAL)


def _by_magic(head: bytes) -> str | None:
    for at, magic, kind in _MAGIC:
        if head.startswith(magic, at) and not (magic in _LIKE_WORDS and _by_text(head)):
            return kind
    return None


def _by_box(head: bytes) -> str | None:
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "video/webm" if b"webm" in head[:64] else "video/x-matroska"
    return None


def _by_zip(head: bytes) -> str | None:
    """Look at the names that come early in a ZIP; an ODF file or an EPUB says its type in its first entry."""
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None
    if head[30:38] == b"mimetype":
        size = int.from_bytes(head[18:22], "little")
        said = head[38 : 38 + min(size, 100)]
        return said.decode() if said.startswith(b"application/") and said.isascii() else _ZIP
    return next((kind for name, kind in _IN_ZIP if name in head), _ZIP)


def _by_frame(head: bytes) -> str | None:
    """Recognise what has a short or loose beginning: BMP by its own size field, MPEG audio by its frame header."""
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:  # noqa: PLR2004 - a frame's sync bits, layer III
        return "audio/mpeg"
    return None


def _by_text(head: bytes) -> str | None:
    """Recognise text: UTF-8 or marked UTF-16 without control characters; a character cut at the end is none amiss."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return TEXT
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError:
        return None
    if not text or any(_is_control(letter) for letter in text):
        return None
    begins = text.lstrip()[:256].lower()
    if begins.startswith(("<!doctype html", "<html")):
        return "text/html"
    if "<svg" in begins and begins.startswith("<"):
        return "image/svg+xml"
    return "application/xml" if begins.startswith("<?xml") else TEXT


def _is_control(letter: str) -> bool:
    return letter < " " and letter not in "\t\n\r\f\x1b"


_LOOKS: Final[tuple[Callable[[bytes], str | None], ...]] = (_by_zip, _by_box, _by_magic, _by_frame, _by_text)
