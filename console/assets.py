"""What browsers fetch besides pages: read once, from a closed list of names, and named by what is in them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

_HERE: Final = Path(__file__).parent / "static"
# To text the framework adds its charset, which is utf-8.
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
_MARK_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent; `mark` is of its bytes, so that a page names exactly these."""

    content: bytes
    media_type: str
    mark: str


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, _TYPES[path.suffix], hashlib.sha256(content).hexdigest()[:_MARK_CHARACTERS])


ASSETS: Final[Mapping[str, Asset]] = MappingProxyType(
    {path.name: _read(path) for path in sorted(_HERE.iterdir()) if path.suffix in _TYPES}
)


def address(name: str) -> str:
    """Return where a page finds a file; KeyError where there is none, so that a template cannot misspell it."""
    return f"/static/{name}?v={ASSETS[name].mark}"
