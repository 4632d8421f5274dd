"""What the documents say is there, is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.config import SETTINGS, describe_markdown
from tests.support.sources import ROOT, tracked

# Beginnings and endings by which a word in backticks is taken for a path of this repository.
BEGINNINGS = (
    "policies", "store", "workers", "console", "client", "toolchain", "migrations", "bench", "demo", "docs",
    "tests", "requirements", "deploy", ".ci",
)  # fmt: skip
ENDINGS = (".md", ".py", ".sql", ".toml", ".yaml", ".txt", ".json", ".conf", ".sh")
# Placeholders, patterns and wholes that are made, not kept.
NOT_ONE_PATH = re.compile(r"[<>*{}…$ ]|NNNN|\.\.\.|^deploy/secrets")


def paths_named(text: str) -> Iterator[str]:
    """Find what a document names as a path: words in backticks, trees in code blocks apart, and relative links."""
    for word in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        begins = "/" in word and word.partition("/")[0] in BEGINNINGS
        ends = word.endswith(ENDINGS) and not word.startswith(("/", "."))
        if (begins or ends) and not NOT_ONE_PATH.search(word):
            yield word.partition("::")[0]
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            yield target


def documents() -> list[Path]:
    found = tracked("*.md")
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"} <= {path.name for path in found}
    return found


def test_every_path_that_a_document_names_exists():
    missing = {
        f"{document.relative_to(ROOT)}: {name}"
        for document in documents()
        for name in paths_named(document.read_text())
        if not any((base / name).exists() for base in (ROOT, document.parent))
    }
    assert missing == set()


def test_no_code_leads_to_a_paper_that_is_not_here():
    known = {path.name for path in tracked("*.md")}
    # What the toolchain's example writes, and the examples below.
    made = {"report.md", "nowhere.md", "NNNN_x.md", "x.md"}
    named = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked("*.py", "*.md", "*.toml", "*.sql", "*.lua", "*.yaml", "*.html")
        for name in re.findall(r"\w[\w-]*\.md\b", path.read_text())
        if name not in known | made
    }
    assert named == set()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see `store/api/nowhere.py`", ["store/api/nowhere.py"]),
        ("see `store/nowhere/`", ["store/nowhere/"]),
        ("see `nowhere.toml` and [this](docs/nowhere.md#part)", ["nowhere.toml", "docs/nowhere.md"]),
        ("a `text/plain` body, `store.config`, `/v1/runs`, `docs/NNNN_x.md`, `make test`", []),
        ("[the RFC](https://example.org/x.md)", []),
    ],
)
def test_the_check_knows_a_path_when_it_sees_one(text, names):
    assert list(paths_named(text)) == names


def test_the_settings_are_documented_as_they_are():
    assert (ROOT / "docs" / "settings.md").read_text() == describe_markdown()


def test_the_changelog_has_a_place_for_what_comes_next():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[Unreleased\]$", text, re.MULTILINE)


def test_documents_name_the_ports_that_api_and_console_have():
    usual = {setting.default for setting in SETTINGS if setting.field in {"port", "console_port"}}
    named = {
        (str(document.relative_to(ROOT)), port)
        for document in documents()
        for port in re.findall(r"\b(?:127\.0\.0\.1|localhost):(\d+)", document.read_text())
    }
    assert {port for _, port in named} == usual, named


def test_whoever_is_told_to_install_a_package_of_ours_is_told_how_to_from_a_checkout():
    told = [
        document
        for document in documents()
        if re.search(r"pip install '?custody-", document.read_text())
        and document.name != "CHANGELOG.md"
        and document.parent.name != "decisions"
    ]
    assert told
    assert [
        path for path in told if not re.search(r"pip install '?\./(client|toolchain)\b", path.read_text())
    ] == []
