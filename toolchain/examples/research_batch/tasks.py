"""The two fixed tasks, and what is to be there once each is done."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Task:
    """A question, and the acceptance items without which its answer is not taken for done."""

    name: str
    question: str
    items: tuple[str, ...]


LETTERS: Final = "keepers-letters.txt"
TASKS: Final = (
    Task(
        "harbour",
        "When did the water pass the second step of the quay for the first time, and what was ordered?",
        ("harbour-section",),
    ),
    Task(
        "letters",
        "Who lit the lamp on the skerry on 11 March? Read the letters to their end.",
        ("letters-section", "letters-whole"),
    ),
)
