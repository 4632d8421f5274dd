"""JSON bodies of calls that are not captures: small, said once, and exactly as /schema says."""

import asyncio
import re
from typing import Any, Final

import msgspec
from litestar import Request

from policies.reasons import Reason
from store.api.identity import services
from store.errors import CustodyError, Malformed
from store.services.documents import check

MOST_BYTES: Final = 64 * 1024
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
