"""The shipped texts, and what reading tools do with them: bytes, offsets and sizes, and no character is cut."""

import hashlib
from pathlib import Path
from typing import Any, Final

from custody_toolchain.coverage import utf8_end
from custody_toolchain.tools import ToolFailed

FOLDER: Final = Path(__file__).parent / "texts"
LARGEST_PAGE: Final = 1400
MOST_MATCHES: Final = 8
_CONTINUES: Final = range(0x80, 0xC0)  # bytes of UTF-8 with which no character begins


def names() -> list[str]:
    """Return the names of all texts, in order."""
    return sorted(path.name for path in FOLDER.glob("*.txt"))


def content(name: str) -> bytes:
    """Return a text; ToolFailed for a name that is none of ours, whatever path it may be."""
    if name not in names():
        raise ToolFailed("no_such_text", "list_texts says which there are")
    return (FOLDER / name).read_bytes()


def described(name: str) -> dict[str, Any]:
    """Return what is known of a text without reading it to anybody."""
    data = content(name)
    return {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def found(query: str) -> tuple[list[dict[str, Any]], bool]:
    """Return lines that hold these words, with their offsets, and whether all texts were looked through."""
    matches: list[dict[str, Any]] = []
    for name in names():
        offset = 0
        for line in content(name).splitlines(keepends=True):
            text = line.decode()
            if query.lower() in text.lower():
                if len(matches) == MOST_MATCHES:
                    return matches, False
                matches.append({"path": name, "offset": offset, "line": text.strip()})
            offset += len(line)
    return matches, True


def page(name: str, asked_offset: int, asked_size: int) -> dict[str, Any]:
    """Return one page: it begins and ends between characters, and says where to go on (None at the end)."""
    data = content(name)
    start = min(asked_offset, len(data))
    while start < len(data) and data[start] in _CONTINUES:
        start += 1
    given = data[start : start + min(asked_size, LARGEST_PAGE)]
    given = given[: utf8_end(given)]
    stop = start + len(given)
    return {
        "path": name,
        "offset": start,
        "size": len(given),
        "next_offset": stop if stop < len(data) else None,
        "text": given.decode(),
    }


def misquoted(citations: list[dict[str, Any]]) -> list[int]:
    """Return the places of citations whose words do not stand where they say."""
    return [
        number
        for number, each in enumerate(citations)
        if not content(each["path"])[each["offset"] :].startswith(each["quote"].encode())
    ]
