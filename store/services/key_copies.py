"""Copies of keys: which are missing or differ, and bringing back those that are missing."""

from collections.abc import Collection, Iterator, Mapping

from store.key_directory import KeyDirectory, Role, Uneven

Names = Mapping[Role, Collection[str]]


def uneven(directory: KeyDirectory, needed: Names) -> Iterator[tuple[Role, str, Uneven]]:
    """Name the copies of needed keys that are not as they should be.

    Of keys that nothing needs one copy may be gone before the other: they are being destroyed.
    """
    for role, names in needed.items():
        found = directory.uneven(role)
        yield from ((role, name, found[name]) for name in sorted(found) if name in names)


def repair(directory: KeyDirectory, needed: Names, *, anew: bool) -> int:
    """Bring back missing copies of needed keys, and return how many; see KeyDirectory.complete."""
    repaired = 0
    for role, names in needed.items():
        # A role that is nowhere is not kept on this host.
        if directory.names(role):
            repaired += len(directory.complete(role, *sorted(names), anew=anew))
    return repaired
