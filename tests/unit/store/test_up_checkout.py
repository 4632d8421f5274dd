"""Whether `up` says which commit runs, and only of its own checkout."""

import subprocess
from pathlib import Path

import pytest

from store.up.checkout import build_commit, commit_of


def git(directory: Path, *said: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *names, *said], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("as committed")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message", "First")
    git(tmp_path, "tag", "--annotate", "v1", "--message", "a tag is no commit")
    return tmp_path


def test_the_commit_of_a_checkout_is_found_and_whether_files_differ_from_it(checkout: Path):
    commit = git(checkout, "rev-parse", "HEAD")
    assert commit_of(checkout) == commit
    (checkout / "file").write_text("changed")
    assert commit_of(checkout) == f"{commit}-dirty"


def test_a_checkout_around_it_is_not_taken_for_its_own(checkout: Path):
    (checkout / "custody").mkdir()
    assert commit_of(checkout / "custody") is None


def test_without_git_or_a_commit_nothing_is_said(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    assert commit_of(tmp_path / "empty") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(checkout) is None


def test_a_commit_that_is_given_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUSTODY_BUILD_COMMIT", "0123abc")
    assert build_commit() == {}
