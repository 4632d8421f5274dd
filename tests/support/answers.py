"""What every answer must be, whatever was asked: no fault of ours, of one shape, without a value of the request."""

import json
from collections.abc import Iterable
from typing import Any, Final

import httpx

from policies.reasons import READ_STATUS, STATUS, Reason
from tests.support.api import problem

# What tests put into requests, so that an echo is seen.
CANARY: Final = "CANARY-7f3a"
_GONE: Final = 410
# What the framework refuses before a reason of ours applies: no such method on this path.
_NOT_ALLOWED: Final = 405


def sane(answer: httpx.Response) -> dict[str, Any] | None:
    """Check an answer; return the problem that it is, or None where it is good news."""
    assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (answer.status_code, answer.text)
    if answer.status_code < httpx.codes.BAD_REQUEST:
        return None
    if answer.request.method == "HEAD":
        return {}
    found = problem(answer)
    reason = Reason(str(found["reason"]))
    assert answer.status_code in {STATUS.get(reason), READ_STATUS.get(reason), _GONE, _NOT_ALLOWED}, found
    assert found["type"] == f"urn:custody:reason:{reason.value}"
    assert isinstance(found["retryable"], bool)
    echoes_nothing(found)
    return found


def echoes_nothing(found: dict[str, Any], canaries: Iterable[str] = (CANARY,)) -> None:
    """Check that nothing of a request is in a problem but the ids in the receipt, which are the caller's own names."""
    said = json.dumps({name: value for name, value in found.items() if name != "receipt"}, ensure_ascii=False)
    for canary in canaries:
        assert canary not in said, said
