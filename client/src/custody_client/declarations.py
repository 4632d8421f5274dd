"""What a runtime asks for a run. Said again, the strictest of all holds, on this side as on the other."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from custody_client.frames import SourcePairs
from custody_client.settings import Source
from custody_client.words import CONTENT_OPT_OUT, CONTENTS, MODES, TEMPORARY_MODE, is_id

_MOST_SOURCES: Final = 32
_MOST_LABELS: Final = 16
_MOST_CHARACTERS: Final = 256
_LAST_VERSION: Final = 2**31 - 1
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Declaration(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a run's declaration, as the service reads it."""

    mode: str = "normal"
    content: str | None = None
    retention: str | None = None
    labels: dict[str, str] = {}
    sources: tuple[dict[str, Any], ...] = ()
    subject: str | None = None
    shared: bool | None = None

    @property
    def refusal(self) -> str | None:
        """Why its content may not be looked at, whatever the service says."""
        if self.mode != "normal":
            return TEMPORARY_MODE
        return CONTENT_OPT_OUT if self.content == "opt_out" else None

    def narrowed(self, other: "Declaration") -> "Declaration":
        """Return what both say together: the strictest of each."""
        return Declaration(
            mode="temporary" if "temporary" in (self.mode, other.mode) else "normal",
            content="opt_out"
            if "opt_out" in (self.content, other.content)
            else self.content or other.content,
            retention=_shorter(self.retention, other.retention),
            labels=self.labels or other.labels,
            sources=(*self.sources, *(each for each in other.sources if each not in self.sources)),
            subject=self.subject or other.subject,
            shared=False if other.shared is False else self.shared,
        )


def declared(
    mode: object,
    content: object,
    retention: object,
    labels: Mapping[str, str] | None,
    sources: Iterable[Source | str],
    subject: object,
    shared: object,
) -> Declaration:
    """Check what is asked for a run; a ValueError says in our own words what of it cannot be."""
    if mode not in MODES or content not in {*CONTENTS, None}:
        raise ValueError("mode is normal or temporary, content allow or opt_out")
    if retention is not None and not (isinstance(retention, str) and _DURATION.fullmatch(retention)):
        raise ValueError("retention is a number with a unit, such as 30d")
    if subject is not None and not _printable(subject):
        raise ValueError("subject is a short printable text")
    return Declaration(
        mode=str(mode),
        content=None if content is None else str(content),
        retention=None if retention is None else str(retention),
        labels=_labels(labels or {}),
        sources=tuple(
            {"source": source} if version is None else {"source": source, "version": version}
            for source, version in source_pairs(sources)
        ),
        subject=None if subject is None else str(subject),
        shared=bool(shared) or None,
    )


def source_pairs(sources: Iterable[Source | str]) -> SourcePairs:
    """Return ids and versions of sources; a ValueError for what the service would not read."""
    pairs = tuple(_pair(each) for each in sources)
    if len(pairs) > _MOST_SOURCES:
        raise ValueError("at most 32 sources")
    return pairs


def _shorter(one: str | None, other: str | None) -> str | None:
    said = [each for each in (one, other) if each is not None]
    return min(said, key=_seconds, default=None)


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNITS_S[found[2]] if found else 0


def _pair(each: Source | str) -> tuple[str, int | None]:
    source, version = (each, None) if isinstance(each, str) else (each.source, each.version)
    if not is_id(source):
        raise ValueError("the id of a source is 1 to 128 of A-Z a-z 0-9 . _ : -")
    if version is not None and (type(version) is not int or not 1 <= version <= _LAST_VERSION):
        raise ValueError("versions of sources count from 1")
    return source, version


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    if len(labels) > _MOST_LABELS:
        raise ValueError("at most 16 labels")
    for name, value in labels.items():
        if not _is_label(name) or not _printable(value):
            raise ValueError("a label is a short name and a short printable text")
    return dict(labels)


def _is_label(name: object) -> bool:
    return isinstance(name, str) and _LABEL.fullmatch(name) is not None


def _printable(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _MOST_CHARACTERS and text.isprintable()
