"""A model's stated intent becomes actions, or is refused whole.

Promised: the actions of a result are all that the answer asked for, in order, each with the id that the provider gave;
or there is a refusal that names what is wrong, and no action. Reading takes time linear in what is read and never
raises for what a model wrote. Not promised: that an action is allowed, makes sense to a tool, or is executed.
"""

from custody_toolchain.intake.answers import StreamReader, permitting, read_answer, read_output, read_stream
from custody_toolchain.intake.bounds import Limits
from custody_toolchain.intake.deciding import Options
from custody_toolchain.intake.results import Action, Native, Refusal, Result
from custody_toolchain.intake.steps import Outcome, Step, StepFact, Steps
from custody_toolchain.intake.texts import TextReader, read_markup, read_plan
from custody_toolchain.intake.words import Boundary, Dialect, Source, Truncated, Why

__all__ = [
    "Action",
    "Boundary",
    "Dialect",
    "Limits",
    "Native",
    "Options",
    "Outcome",
    "Refusal",
    "Result",
    "Source",
    "Step",
    "StepFact",
    "Steps",
    "StreamReader",
    "TextReader",
    "Truncated",
    "Why",
    "permitting",
    "read_answer",
    "read_markup",
    "read_output",
    "read_plan",
    "read_stream",
]
