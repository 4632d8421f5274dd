"""Key files: one directory a role, outside the database, in no backup. A KMS could stand in their place.

Destroying a file here is what makes expiry and erasure final, so destruction reaches every copy or fails.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, Protocol

from policies.reasons import Reason
from store import errors, key_files

Role = Literal["bucket", "intake", "token", "signing"]
ROLES: Final[tuple[Role, ...]] = ("bucket", "intake", "token", "signing")
# How the copies of one secret differ.
Uneven = Literal["missing", "differs"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


class KeyDirectory(Protocol):
    """Where secrets are kept by role and name; docs/operations.md says what another one than files must promise."""

    def create(self, role: Role, name: str, secret: bytes) -> bool:
        """Keep a secret durably in every copy; False, and nothing changed, if the name is taken."""
        ...

    def read(self, role: Role, name: str) -> bytes | None:
        """Return a secret, or None if there is none; Unavailable if that cannot be told."""
        ...

    def destroy(self, role: Role, *names: str) -> None:
        """Destroy secrets in every copy; Unavailable if one cannot be reached, and then do it again."""
        ...

    def names(self, role: Role) -> set[str]:
        """Return all names of which any copy is left."""
        ...

    def uneven(self, role: Role) -> Mapping[str, Uneven]:
        """Return the names whose copies are not all there and the same; none where somebody else keeps the copies."""
        ...

    def complete(self, role: Role, *names: str, anew: bool = False) -> list[str]:
        """Bring back copies that are missing, and return the names of which one was; never what was destroyed.

        Unavailable where a copy cannot be reached, or is gone as a whole: only with `anew` it is begun again.
        """
        ...

    def faults(self, *roles: Role) -> list[str]:
        """Return what is wrong with how secrets are kept, of all roles or of some, in words for operators."""
        ...


class FileKeyDirectory:
    """Files of mode 0600 in directories of mode 0700: `root/<role>`, and `copy/<role>` if there is a copy.

    `token` and `signing` put those roles elsewhere, for processes that must not see the others' keys. A signing key
    that lives apart has no copy, since all processes see that.
    """

    def __init__(
        self, root: Path, copy: Path | None = None, *, token: Path | None = None, signing: Path | None = None
    ) -> None:
        apart: dict[Role, Path | None] = {"token": token, "signing": signing}
        copied = [role for role in ROLES if copy and not (role == "signing" and signing)]
        self._places: dict[Role, list[Path]] = {
            role: [apart.get(role) or root / role, *([copy / role] if copy and role in copied else [])]
            for role in ROLES
        }
        self._checked: set[Path] = set()

    def create(self, role: Role, name: str, secret: bytes) -> bool:
        """Keep a secret durably; if the name is taken, only complete its copy. See KeyDirectory."""
        paths = [place / _checked(name) for place in self._prepared(role, anew=False)]
        with _reported(), key_files.begun(paths, secret) as written:
            # Every copy is on its disk by now: none is found to be full, or read only, when one has the name already.
            # One that only the copy has is taken too: another in the first would be read in its place.
            made = not any(path.exists() for path in paths) and key_files.took_name(written[0], paths[0])
            if made:
                for temporary, path in zip(written[1:], paths[1:], strict=True):
                    key_files.took_name(temporary, path)
        if not made:
            self.complete(role, name)
        return made

    def read(self, role: Role, name: str) -> bytes | None:
        """Return a secret, from the copy if the first is gone. See KeyDirectory."""
        _checked(name)
        with _reported():
            for place in self._existing(role):
                with suppress(FileNotFoundError):
                    return (place / name).read_bytes()
        if not self._places[role][0].is_dir():
            # A directory that went away must not read as a lost key.
            raise errors.Unavailable(Reason.STORE_UNAVAILABLE, "no key directory")
        return None

    def destroy(self, role: Role, *names: str) -> None:
        """Destroy secrets in every copy, and what a killed `create` left of them. See KeyDirectory."""
        doomed = set(map(_checked, names))
        with _reported(), key_files.alone(self._places[role][0]):
            for place in self._places[role]:
                _require_private(place)
                # Looked through once, whatever the number: there may be very many keys.
                for path in place.iterdir():
                    if path.name in doomed or key_files.begun_for(path.name) in doomed:
                        path.unlink(missing_ok=True)
                key_files.sync(place)

    def names(self, role: Role) -> set[str]:
        """Return all names of which any copy is left. See KeyDirectory."""
        with _reported():
            return {name for place in self._existing(role) for name in _names_in(place)}

    def uneven(self, role: Role) -> Mapping[str, Uneven]:
        """Compare the copies, each secret of them. See KeyDirectory."""
        places = self._places[role]
        found: dict[str, Uneven] = {}
        for name in self.names(role) if len(places) > 1 else ():
            with _reported():
                copies = [key_files.content(place / name) for place in places]
            # None in all of them: destroyed since.
            if None in copies and any(copies):
                found[name] = "missing"
            elif len(set(copies)) > 1:
                found[name] = "differs"
        return found

    def complete(self, role: Role, *names: str, anew: bool = False) -> list[str]:
        """Bring back copies that are missing, each from one that is there. See KeyDirectory."""
        places = self._prepared(role, anew=anew)
        completed = []
        # Whoever destroys waits: what is gone from one copy must not come back from another.
        with _reported(), key_files.alone(places[0]):
            for name in map(_checked, names):
                copies = [key_files.content(place / name) for place in places]
                kept = next((copy for copy in copies if copy), None)
                lacking = [place / name for place, copy in zip(places, copies, strict=True) if copy is None]
                if kept is not None and lacking:
                    for path in lacking:
                        key_files.link_new(path, kept)
                    completed.append(name)
        return completed

    def faults(self, *roles: Role) -> list[str]:
        """Return what is wrong with directories, their files and owners. See KeyDirectory."""
        found = []
        for role in roles or ROLES:
            existing = [place for place in self._places[role] if place.exists()]
            if existing:
                away = [place for place in self._places[role] if place not in existing]
                found += [f"the key directory {place} is not there: is it mounted?" for place in away]
            for place in existing:
                found += key_files.faults_of(place)
        return found

    def _prepared(self, role: Role, *, anew: bool) -> list[Path]:
        """Return where a role's secrets go. Directories are made before the first secret: one missing later is away."""
        places = self._places[role]
        with _reported():
            if not all(place.exists() for place in places):
                # In this order: somebody else may be making them.
                used = any(name for place in places if place.exists() for name in _names_in(place))
                missing = [place for place in places if not place.exists()]
                if missing and used and not anew:
                    raise errors.Unavailable(Reason.STORE_UNAVAILABLE, "a copy of the key directory is away")
                for place in missing:
                    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    place.mkdir(mode=0o700, exist_ok=True)
            return self._existing(role)

    def _existing(self, role: Role) -> list[Path]:
        existing = [place for place in self._places[role] if place in self._checked or place.exists()]
        for place in existing:
            if place not in self._checked:
                _require_private(place)
                self._checked.add(place)
        return existing


def _names_in(place: Path) -> Iterator[str]:
    return (path.name for path in place.iterdir() if _NAME.fullmatch(path.name))


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError("not a name of a key")
    return name


def _require_private(place: Path) -> None:
    fault = key_files.open_to_others(place)
    if fault is not None:
        raise errors.ConfigFaults([fault])


@contextmanager
def _reported() -> Iterator[None]:
    """Turn failures of the file system into an outage, which is what they are; paths do not pass."""
    try:
        yield
    except OSError as error:
        raise errors.Unavailable(Reason.STORE_UNAVAILABLE, type(error).__name__) from None
