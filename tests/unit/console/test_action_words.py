"""Whatever an operator can do has its words on the page of actions, and no words are of what nobody does."""

import ast
import re

from console.action_words import ACTIONS, named
from tests.support.sources import tracked

# How services write what was done: directly, or by a function of their own that does only that.
_WRITERS = {"insert", "_note", "_begin"}
_WORD = re.compile(r"[a-z]+(_[a-z]+)+")


def written() -> set[str]:
    """Return every word that a service hands to what keeps actions, as it stands or by a name of its file."""
    found: set[str] = set()
    for path in tracked("store/services/*.py"):
        text = path.read_text()
        if "operator_actions.insert" not in text:
            continue
        tree = ast.parse(text)
        constants = {
            node.target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _writes(node.func):
                for each in node.args:
                    word = each.value if isinstance(each, ast.Constant) else None
                    word = constants.get(each.id) if isinstance(each, ast.Name) else word
                    found |= {word} if isinstance(word, str) and _WORD.fullmatch(word) else set()
    return found


def _writes(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in _WRITERS
    if not isinstance(called, ast.Attribute) or called.attr not in _WRITERS:
        return False
    return called.attr != "insert" or (
        isinstance(called.value, ast.Name) and called.value.id == "operator_actions"
    )


def test_every_action_has_words_and_no_words_are_of_none():
    assert set(ACTIONS) == written()
    assert all(re.fullmatch(r"[A-Z].*[^.]", words) for words in ACTIONS.values())


def test_an_id_of_ours_is_written_as_the_forms_of_the_desk_take_it():
    assert named("01a22b802ee172a7a10101afc36551fa") == "01a22b80-2ee1-72a7-a101-01afc36551fa"
    for same in ("4bca2f4cf65b009b", "doc-old v2", "not-hexadecimal-but-of-32-letters", ""):
        assert named(same) == same
    assert named(None) == ""
