"""Gemini's `generateContent`: each chunk is a whole answer, and a call comes whole, mostly without an id."""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.draft import AnswerDraft, given_id, listed, mapping
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

Event = Mapping[str, Any]

_HEADS: Final = frozenset({"candidates", "promptFeedback", "usageMetadata"})
_KNOWN: Final = frozenset({"id", "name", "args"})
_UNSAID: Final = "FINISH_REASON_UNSPECIFIED"


def whole(draft: AnswerDraft, body: Event) -> None:
    """Take an answer that did not stream."""
    chunk(draft, body)
    draft.terminal = True


def chunk(draft: AnswerDraft, event: Event) -> None:
    """Take one chunk."""
    if isinstance(event.get("response"), Mapping):  # as Code Assist wraps it
        event = event["response"]
    draft.recognised = draft.recognised or not _HEADS.isdisjoint(event)
    draft.failed = draft.failed or bool(event.get("error"))
    draft.head(event.get("responseId"), event.get("modelVersion"))
    for candidate in listed(event.get("candidates")):
        said = mapping(candidate)
        at = said.get("index", 0)
        if type(at) is not int:
            raise Refused(Why.WRONG_TYPE, Boundary.ANSWER)
        reason = said.get("finishReason")
        if reason and reason != _UNSAID:
            draft.finish(reason, at)
            draft.terminal = True
        for part in listed(mapping(said.get("content")).get("parts")):
            _part(draft, mapping(part), at)
    feedback = event.get("promptFeedback")
    if isinstance(feedback, Mapping) and feedback.get("blockReason"):
        draft.finish("content_filter")
        draft.terminal = True


def _part(draft: AnswerDraft, part: Event, choice: int) -> None:
    if part.get("functionCall") is not None:
        _call(draft, part, mapping(part["functionCall"], Boundary.CALL), choice)
    elif not part.get("thought"):
        draft.say(part.get("text"), choice)


def _call(draft: AnswerDraft, part: Event, function: Event, choice: int) -> None:
    if function.get("partialArgs") or function.get("willContinue"):
        raise Refused(Why.PARTIAL_ARGUMENTS, Boundary.ARGUMENTS)
    call_id, arguments = given_id(function.get("id")), mapping(function.get("args"), Boundary.ARGUMENTS)
    call = draft.begin((choice, "last"), function.get("name"), call_id, choice)
    draft.give(call, arguments)
    draft.keep(
        call, {key: value for key, value in function.items() if key not in _KNOWN and value is not None}
    )
    if part.get("thoughtSignature") is not None:
        draft.keep(call, {"thoughtSignature": part["thoughtSignature"]})
