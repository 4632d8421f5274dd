"""Errors that providers send in a stream or as an answer."""

from typing import Any

from custody_client.streams.draft import Draft


def take_error(draft: Draft, event: dict[str, Any]) -> bool:
    """Take what stands under `error`, if it is one: an object, or a text alone."""
    error = event.get("error")
    if not error:
        return False
    if isinstance(error, dict):
        kind = error.get("type") or error.get("status") or error.get("code")
        draft.fails(kind, error.get("message"), error.get("code"))
    else:
        draft.fails(event.get("error_type") or event.get("type"), error, event.get("status_code"))
    return True
