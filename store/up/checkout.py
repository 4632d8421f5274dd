"""Which commit runs, where this is a checkout: so that nobody has to name it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from store.config import in_environment
from store.up.processes import ROOT

_SETTING: Final = "CUSTODY_BUILD_COMMIT"
_DESCRIBE: Final = (
    "git",
    "--no-optional-locks",
    "describe",
    "--always",
    "--dirty",
    "--exclude=*",
    "--abbrev=40",
)
_GIT_S: Final = 5.0


def build_commit() -> Mapping[str, str]:
    """Return the setting that names the commit; empty where it is given already, or nobody can tell."""
    commit = None if in_environment(_SETTING) else commit_of(ROOT)
    return {} if commit is None else {_SETTING: commit}


def commit_of(root: Path) -> str | None:
    """Return the commit of the checkout whose root this is, with `-dirty` where files differ; None without git."""
    if not (root / ".git").exists():
        return None  # what is around it is another's checkout
    try:
        said = subprocess.run(_DESCRIBE, cwd=root, capture_output=True, text=True, timeout=_GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip() or None
