"""Ollama's own chat: lines that hold whole calls, with objects for arguments and mostly without ids."""

from collections.abc import Mapping
from typing import Any

from custody_toolchain.intake.draft import AnswerDraft, listed, mapping
from custody_toolchain.intake.native.chat import take_piece
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why


def whole(draft: AnswerDraft, body: Mapping[str, Any]) -> None:
    """Take an answer that did not stream."""
    chunk(draft, body)
    if body.get("done") is False:
        raise Refused(Why.CUT, Boundary.ANSWER)
    draft.terminal = True


def chunk(draft: AnswerDraft, event: Mapping[str, Any]) -> None:
    """Take one line."""
    draft.recognised = draft.recognised or "message" in event or "done" in event
    draft.failed = draft.failed or bool(event.get("error"))
    draft.head(None, event.get("model"))
    message = mapping(event.get("message"))
    draft.say(message.get("content"))
    for piece in listed(message.get("tool_calls")):
        take_piece(draft, mapping(piece, Boundary.CALL), 0, streamed=False, needs_id=False)
    if event.get("done") is True:
        draft.finish(event.get("done_reason") or "stop")
        draft.terminal = True
