"""Key files: one directory a role, outside the database, in no backup. A KMS could stand in their place.

Destroying a file here is what makes expiry and erasure final, so destruction reaches every copy or fails.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, Protocol

from policies.reasons import Reason
from store import errors, ids

Role = Literal["bucket", "intake", "token", "signing"]
ROLES: Final[tuple[Role, ...]] = ("bucket", "intake", "token", "signing")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
_TEMPORARY: Final = ".tmp"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyDirectory(Protocol):
    """Where secrets are kept by role and name."""

    def create(self, role: Role, name: str, secret: bytes) -> bool:
        """Keep a secret durably; False, and nothing changed, if the name is taken."""
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
        first, *copies = self._prepared(role)
        with _reported():
            made = _link_new(first / _checked(name), secret)
            kept = secret if made else (first / name).read_bytes()
            for place in copies:
                _link_new(place / name, kept)
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
        for place in self._places[role]:
            with _reported():
                _require_private(place)
                # Looked through once, whatever the number: there may be very many keys.
                for path in place.iterdir():
                    if path.name in doomed or _begun(path.name) in doomed:
                        path.unlink(missing_ok=True)
                _sync(place)

    def names(self, role: Role) -> set[str]:
        """Return all names of which any copy is left. See KeyDirectory."""
        with _reported():
            found = {path.name for place in self._existing(role) for path in place.iterdir()}
            return {name for name in found if _NAME.fullmatch(name)}

    def faults(self, *roles: Role) -> list[str]:
        """Return what is wrong with the directories that exist, for check-config."""
        found = []
        for place in (place for role in roles or ROLES for place in self._places[role] if place.exists()):
            try:
                _require_private(place)
            except errors.ConfigFaults as faults:
                found += faults.faults
        return found

    def _prepared(self, role: Role) -> list[Path]:
        with _reported():
            for place in self._places[role]:
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


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError("not a name of a key")
    return name


def _begun(name: str) -> str:
    """Return which secret a temporary file is about; of others something that is no name."""
    return name[1:].removesuffix(_TEMPORARY).rpartition(".")[0] if name.endswith(_TEMPORARY) else ""


def _require_private(place: Path) -> None:
    mode = stat.S_IMODE(place.stat().st_mode)
    if mode & _OTHERS:
        raise errors.ConfigFaults(
            [f"key directory {place} is open to other users (mode {mode:04o}): chmod 0700 it"]
        )


def _link_new(path: Path, secret: bytes) -> bool:
    temporary = path.with_name(f".{path.name}.{ids.secret(8).hex()}{_TEMPORARY}")
    try:
        _write_new(temporary, secret)
        # link(2) fails where a rename would overwrite: two makers of one name cannot both win.
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
        _sync(path.parent)
    return True


def _write_new(path: Path, secret: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _reported() -> Iterator[None]:
    """Turn failures of the file system into an outage, which is what they are; paths do not pass."""
    try:
        yield
    except OSError as error:
        raise errors.Unavailable(Reason.STORE_UNAVAILABLE, type(error).__name__) from None
