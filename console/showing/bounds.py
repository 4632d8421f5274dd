"""How much of attacker-written content is laid out; what goes beyond is shown as it stands, and says so."""

from typing import Final

# A part is 256 KiB by default, and this is the most text that any page writes out of one of them.
MOST_CHARACTERS: Final = 1 << 20
# Marks of unseen characters, all together: each takes some seventy bytes of the page.
MOST_MARKS: Final = 10_000
MOST_DEPTH: Final = 100
MOST_VALUES: Final = 30_000
MOST_ROWS: Final = 2_000


class NotLaidOut(Exception):
    """The content is shown as it stands; the message says why, in a sentence for readers, and holds none of it."""
