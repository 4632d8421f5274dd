"""What a screen would hide is seen, and what somebody wrote stays text."""

import sys
import unicodedata

import pytest

from console.showing.marks import Marker
from console.showing.visible import hides, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, größe, 漢字, 👍", "plain text, größe, 漢字, 👍"),
        ("a\nb\tc", "a\nb\tc"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a\0b", 'a<span class="unseen" title="U+0000 control">U+0000</span>b'),
        ("\u202e", '<span class="unseen" title="U+202E right-to-left override">U+202E</span>'),
        ("x\u200by", 'x<span class="unseen" title="U+200B zero width space">U+200B</span>y'),
        ("\u00a0", '<span class="unseen" title="U+00A0 no-break space">U+00A0</span>'),
        ("y\ufe00", 'y<span class="unseen" title="U+FE00 variation selector-1">U+FE00</span>'),
        ("\u26a0\ufe0f \u2600\ufe0e", "\u26a0\ufe0f \u2600\ufe0e"),
        ("", ""),
    ],
)
def test_it_shows(text: str, shown: str):
    assert str(visible(text)) == shown


def test_no_character_without_a_picture_of_its_own_passes():
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in "\n\t":
            assert hides(character), hex(point)
    assert hides("\ud800")


def test_selectors_of_glyphs_that_could_spell_a_message_are_seen():
    selectors = [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
    assert [hex(point) for point in selectors if not hides(chr(point))] == []
    spelled = "\U0001f44d\ufe0f" + "".join(chr(0xE0100 + byte - 16) for byte in b"send it")
    for shown in (visible(spelled), Marker().text(spelled)):
        assert shown.count('class="unseen"') == len(b"send it")
    for twice in ("\u26a0\ufe0f\ufe0f", "a\ufe0f", "\ufe0f"):
        assert visible(twice).count('class="unseen"') == Marker().text(twice).count('class="unseen"') == 1


def test_what_has_a_picture_is_left_as_it_is():
    assert not any(map(hides, "aé漢\u0301👍 "))
