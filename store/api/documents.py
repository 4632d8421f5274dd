"""JSON bodies of calls that are not captures: small, said once, and read by everybody in the same way.

A name that is there twice has two readers and two meanings (edge case 6): such a document is refused whole.
"""

import asyncio
import json
import re
from typing import Any, Final

import msgspec
from litestar import Request

from policies.reasons import Reason
from store.api.identity import services
from store.errors import CustodyError, Malformed

MOST_BYTES: Final = 64 * 1024
MOST_CHARACTERS: Final = 256
_JSON: Final = "application/json"
_PATH: Final = re.compile(r"at `\$\.?([a-z_.\[\]0-9]+)`$")


async def unambiguous(request: Request[Any, Any, Any]) -> None:
    """Read the body before the framework does, and refuse what is no plain JSON document; for `before_request`."""
    if request.method not in ("PUT", "POST", "PATCH"):
        return
    if request.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise CustodyError(Reason.UNSUPPORTED_MEDIA, "send the body without a content coding")
    body = await _body(request)
    if not body:
        return
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise CustodyError(Reason.UNSUPPORTED_MEDIA, "the body is application/json")
    check(body)
    _strictly(body, request)


def check(body: bytes) -> None:
    """Refuse a document that is not UTF-8, not JSON, too deep, or names something twice."""
    try:
        json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        # Our own Malformed is no ValueError, so that it passes with its detail.
        raise Malformed(detail="the body is not a JSON document") from None


def printable(text: str, what: str) -> str:
    """Return a label's or subject's text; what cannot be printed (NUL, half a pair) cannot be stored either."""
    if not 0 < len(text) <= MOST_CHARACTERS or not text.isprintable():
        raise Malformed(detail=f"{what} is 1 to {MOST_CHARACTERS} printable characters")
    return text


async def _body(request: Request[Any, Any, Any]) -> bytes:
    try:
        async with asyncio.timeout(services(request).settings.body_deadline.total_seconds()):
            return await request.body()
    except TimeoutError:
        raise CustodyError(Reason.INTERRUPTED, "the body did not arrive in time") from None


def _strictly(body: bytes, request: Request[Any, Any, Any]) -> None:
    """Refuse what the framework would guess at: it takes "3" for a number and "1" for true."""
    data = request.route_handler.parsed_fn_signature.parameters.get("data")
    if data is None:
        return
    try:
        msgspec.json.decode(body, type=data.annotation)
    except msgspec.ValidationError as fault:
        # The message may quote a value or an unknown name; the path in it holds names of ours only.
        found = _PATH.search(str(fault))
        where = f": {found[1]}" if found else ""
        raise Malformed(detail=f"the body is not as /schema says{where}") from None
    except msgspec.DecodeError:
        # Half of a surrogate pair is JSON to some readers and none to others.
        raise Malformed(detail="the body is not a JSON document") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed(detail="a name is there twice in the body")
    return found


def _no_constant(_: str) -> object:
    raise Malformed(detail="the body holds a number that JSON does not know")
