"""Files whose calls fail when a test says so: before anything was done, or after all of it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from store.mirror import Files

When = Literal["not_done", "done"]


class FlakyFiles(Files):
    """Counts its calls, and lets one of them fail."""

    def __init__(self, fails_at: int = 0, when: When = "not_done") -> None:
        self.calls = 0
        self.failed: str | None = None
        self._fails_at = fails_at
        self._when = when

    def read(self, path: Path) -> bytes | None:
        found: bytes | None = self._call("read", super().read, path)
        return found

    def names(self, directory: Path) -> list[str]:
        found: list[str] = self._call("names", super().names, directory)
        return found

    def make(self, directory: Path) -> None:
        self._call("make", super().make, directory)

    def write(self, path: Path, data: bytes) -> None:
        self._call("write", super().write, path, data)

    def link(self, source: Path, path: Path) -> None:
        self._call("link", super().link, source, path)

    def rename(self, source: Path, path: Path) -> None:
        self._call("rename", super().rename, source, path)

    def remove(self, path: Path) -> None:
        self._call("remove", super().remove, path)

    def remove_directory(self, path: Path) -> None:
        self._call("remove_directory", super().remove_directory, path)

    def sync(self, directory: Path) -> None:
        self._call("sync", super().sync, directory)

    def _call(self, name: str, act: Callable[..., Any], *arguments: Any) -> Any:
        self.calls += 1
        fails = self.calls == self._fails_at
        if fails:
            self.failed = name
        if fails and self._when == "not_done":
            raise OSError(5, "not done")
        done = act(*arguments)
        if fails:
            raise OSError(5, "done, and said to have failed")
        return done
