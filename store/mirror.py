"""The mirror: a directory outside the database with what was published of the log, as C2SP tlog-tiles lays it out.

    checkpoint            the last signed checkpoint: what there is besides it, nobody has vouched for
    log.vkey              the key that signs
    tile/<level>/…        hashes; tile/entries/… the entries below them

Files are made whole or not at all, and never changed. Every call may fail, also after it was done, and may be
repeated: what is there already and equal is as good as written. It may be served as it stands; `.new` and `.lock` are
our own.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from policies.reasons import Reason
from store import errors, ids
from store.log_tree.tiles import WIDTH, Tile

CHECKPOINT: Final = "checkpoint"
KEY: Final = "log.vkey"

_NEW: Final = ".new"
_LOCK: Final = ".lock"
_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755


class Differs(Exception):
    """A file of the mirror says something else than is to be written there. It stays as it is."""


class Files:
    """The calls of the system that the mirror is made with; tests let each of them fail, before and after."""

    def read(self, path: Path) -> bytes | None:
        """Return a file's bytes, None where there is no such file."""
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, directory: Path) -> list[str]:
        """Return what is in a directory; nothing where there is none."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def make(self, directory: Path) -> None:
        """Make a directory, if there is none."""
        directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """Write a new file, down to the disk."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, _MODE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def link(self, source: Path, path: Path) -> None:
        """Give a file another name; FileExistsError where the name is taken."""
        os.link(source, path)

    def rename(self, source: Path, path: Path) -> None:
        """Put a file in another's place."""
        source.replace(path)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory, if it is there."""
        with suppress(FileNotFoundError):
            path.rmdir()

    def sync(self, directory: Path) -> None:
        """Have what was made, renamed or removed in a directory down on the disk."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Mirror:
    """One log's mirror. Whoever writes has it `taken` meanwhile; reading needs nothing. Unavailable where it fails."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self._root = root
        self._files = files or Files()
        # Directories that are on the disk for certain, and those in which something was made that may not be yet.
        self._durable: set[Path] = set()
        self._unsettled: set[Path] = set()

    # --- reading

    def checkpoint(self) -> bytes | None:
        """Return the last checkpoint; None where nothing was ever published here."""
        return self._read(CHECKPOINT)

    def key(self) -> str | None:
        """Return the vkey of the log whose mirror this is; None where nobody has said."""
        found = self._read(KEY)
        return None if found is None else found.decode("utf-8", "replace").removesuffix("\n")

    def read(self, tile: Tile) -> bytes | None:
        """Return a tile, or a bundle of entries, of exactly this width; None where there is none."""
        return self._read(tile.path)

    # --- writing

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the mirror alone, making it where there is none; Unavailable while another process on it writes."""
        with _reported():
            self._root.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            if self._root not in self._durable:
                self._files.sync(self._root.parent)
                self._durable.add(self._root)
            lock = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            with _reported():
                # Ends with the process, however that ends.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._sweep()
            yield
        finally:
            os.close(lock)

    def claim(self, vkey: str) -> None:
        """Say whose mirror this is; Differs where it is another log's."""
        with _reported():
            self._put(self._root / KEY, f"{vkey}\n".encode())
            self._settle()

    def put(self, tile: Tile, data: bytes) -> None:
        """Write a tile or a bundle, durably with the next `publish`; Differs if there is another under its name."""
        with _reported():
            self._put(self._root / tile.path, data)

    def drop(self, tile: Tile) -> None:
        """Remove a file that no checkpoint vouches for."""
        with _reported():
            self._files.remove(self._root / tile.path)

    def publish(self, note: bytes) -> None:
        """Put a checkpoint in the place of the last one, once all that was put is down on the disk."""
        with _reported():
            self._settle()
            fresh = self._fresh(note)
            self._files.rename(fresh, self._root / CHECKPOINT)
            self._files.sync(self._root)

    def settle(self) -> None:
        """Have the checkpoint down on the disk, where whoever wrote it may have died before."""
        with _reported():
            self._files.sync(self._root)

    def tidy(self, tile: Tile, widths: Iterable[int]) -> None:
        """Remove what was published of a tile while it was narrower, but for these widths."""
        kept = {str(width) for width in widths if width < WIDTH}
        directory = (self._root / Tile(tile.level, tile.tile, 1).path).parent
        with _reported():
            for name in self._files.names(directory):
                if name not in kept:
                    self._files.remove(directory / name)
            if not kept:
                self._durable.discard(directory)
                self._unsettled.discard(directory)
                self._files.remove_directory(directory)

    # --- how

    def _read(self, path: str) -> bytes | None:
        with _reported():
            return self._files.read(self._root / path)

    def _put(self, path: Path, data: bytes) -> None:
        try:
            self._ensure(path.parent)
            there = self._files.read(path)
            if there is None:
                there = self._link_new(path, data)
        except OSError:
            # The disk may have gone and come back as another one.
            self._durable.clear()
            self._unsettled.clear()
            raise
        if there != data:
            raise Differs(path.relative_to(self._root).as_posix())
        # Also where it was there: whoever made it may have died before it was down.
        self._unsettled.add(path.parent)

    def _settle(self) -> None:
        for directory in sorted(self._unsettled):
            self._files.sync(directory)
            self._unsettled.discard(directory)

    def _link_new(self, path: Path, data: bytes) -> bytes | None:
        fresh = self._fresh(data)
        try:
            # Fails where a rename would overwrite.
            self._files.link(fresh, path)
        except FileExistsError:
            return self._files.read(path)
        finally:
            self._files.remove(fresh)
        return data

    def _fresh(self, data: bytes) -> Path:
        directory = self._root / _NEW
        self._files.make(directory)
        fresh = directory / ids.secret(8).hex()
        self._files.write(fresh, data)
        return fresh

    def _ensure(self, directory: Path) -> None:
        """Make a directory and those above it durably; one that was there may not be so yet."""
        if directory in self._durable or directory == self._root:
            return
        self._ensure(directory.parent)
        self._files.make(directory)
        self._files.sync(directory.parent)
        self._durable.add(directory)

    def _sweep(self) -> None:
        """Remove what killed writers left half written."""
        for name in self._files.names(self._root / _NEW):
            self._files.remove(self._root / _NEW / name)


@contextmanager
def _reported() -> Iterator[None]:
    """Turn failures of the file system into an outage, which is what they are; paths do not pass."""
    try:
        yield
    except OSError as error:
        raise errors.Unavailable(Reason.STORE_UNAVAILABLE, type(error).__name__) from None
