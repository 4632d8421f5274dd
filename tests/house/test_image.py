"""The image: what it takes of this checkout reaches the engine, and is enough to run from."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.support.sources import ROOT, tracked

# By these the processes of compose.yaml come up: the apis, the console, the writers and duties, the commands.
ENTRANCES = ("store.api.app", "console.app", "workers.__main__", "workers.duties", "store.__main__")


def copied(dockerfile: str) -> list[str]:
    """Read a Dockerfile: the sources of each COPY and ADD from the context, in its order."""
    whole = re.sub(r"\\\n", " ", dockerfile)
    sources: list[str] = []
    for line in re.findall(r"(?m)^(?:COPY|ADD)\s+(.+)$", whole):
        words = line.split()
        if not any(word.startswith("--from=") for word in words):
            sources += [word for word in words if not word.startswith("--")][:-1]
    return sources


def let_through(path: PurePosixPath, ignored: str) -> bool:
    """Say whether a .dockerignore lets a file through: the last line that fits it, or what it lies in, decides."""
    through = True
    for line in filter(None, ignored.splitlines()):
        pattern = line.removeprefix("!")
        if any(re.fullmatch(_expression(pattern), str(place)) for place in (path, *path.parents)):
            through = line.startswith("!")
    return through


def _expression(pattern: str) -> str:
    forms = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(forms.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))


def context() -> list[PurePosixPath]:
    """List the files of this repository that the engine gets to see."""
    ignored = (ROOT / ".dockerignore").read_text()
    files = [PurePosixPath(path.relative_to(ROOT)) for path in tracked()]
    return [path for path in files if let_through(path, ignored)]


def dockerfiles() -> list[Path]:
    found = tracked("Dockerfile", "**/Dockerfile", "**/*.Dockerfile", "**/Dockerfile.*")
    assert ROOT / "Dockerfile" in found
    return found


@pytest.mark.parametrize("dockerfile", dockerfiles(), ids=lambda path: str(path.relative_to(ROOT)))
def test_whatever_an_image_copies_is_there_and_let_through(dockerfile):
    sources = copied(dockerfile.read_text())
    assert sources
    seen = context()
    for source in sources:
        assert any(path == PurePosixPath(source) or PurePosixPath(source) in path.parents for path in seen), (
            source
        )


def test_the_engine_sees_nothing_that_no_image_copies():
    sources = {PurePosixPath(source) for file in dockerfiles() for source in copied(file.read_text())}
    assert [path for path in context() if not sources & {path, *path.parents}] == []


def test_what_the_image_copies_is_enough_for_every_process_to_come_up(tmp_path):
    for path in context():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    program = f"import importlib\nfor name in {ENTRANCES}: importlib.import_module(name)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_last_fitting_line_of_a_dockerignore_decides():
    ignored = "*\n!store\n**/__pycache__\n"
    assert let_through(PurePosixPath("store/api/app.py"), ignored)
    assert not let_through(PurePosixPath("store/api/__pycache__/app.pyc"), ignored)
    assert not let_through(PurePosixPath("storehouse/app.py"), ignored)
    assert not let_through(PurePosixPath("tests/store"), ignored)
    assert copied("COPY --from=build a b\nCOPY --chown=x a \\\n  b c\n") == ["a", "b"]


def test_an_image_knows_the_commit_that_it_was_built_from():
    dockerfile, name = (ROOT / "Dockerfile").read_text(), "CUSTODY_BUILD_COMMIT"
    assert f"ARG {name}=unknown\nENV {name}=${name}\n" in dockerfile
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"].values()
    ours = [service["build"] for service in services if service["image"] == "custody"]
    assert ours
    assert all(build == {"context": ".", "args": {name: f"${{{name}:-unknown}}"}} for build in ours)
    planned = subprocess.run(
        ["make", "-n", "compose"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert re.search(rf"{name}=\"\$.*git rev-parse HEAD.*\" docker compose up", planned)
