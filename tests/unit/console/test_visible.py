"""What a screen would hide is seen, and what somebody wrote stays text."""

import sys
import unicodedata

import pytest

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
    assert not any(map(hides, "aé漢\u0301👍 "))
