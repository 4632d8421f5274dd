"""Reads the project's own source: which files there are, and which outside names each of them uses."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICE = ("policies", "store", "workers", "console")


def python_files(*roots: str) -> list[Path]:
    """List the modules below some of the project's directories."""
    found = sorted(path for root in roots for path in (ROOT / root).rglob("*.py"))
    assert found, roots
    return found


def tracked(*patterns: str) -> list[Path]:
    """List files that git knows or would take, so that what lies about unasked does not count."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.splitlines() if (path := ROOT / name).exists()]


def module_of(path: Path) -> str:
    """Name the module that a file holds."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names_used(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything that a module takes from what it imports, under its real name."""
    tree = ast.parse(source)
    origins = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and (name := _dotted(node, origins)):
            yield node.lineno, name


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.Attribute, origins: dict[str, str]) -> str | None:
    trail = [node.attr]
    inner = node.value
    while isinstance(inner, ast.Attribute):
        trail.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in origins:
        return None
    return ".".join([origins[inner.id], *reversed(trail)])
