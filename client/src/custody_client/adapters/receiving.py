"""What becomes of a try whose answer is a response of httpx or httpx2, or an error instead of one."""

from typing import Any, Final

from custody_client.adapters.answers import Answer
from custody_client.adapters.bodies import decoder, streams, watch
from custody_client.adapters.calls import Call, Try
from custody_client.adapters.routes import Route

# By these the request cannot have left: the connection was never there.
_NEVER_SENT: Final = frozenset({
    "ClientConnectorError", "ConnectError", "ConnectTimeout", "LocalProtocolError", "PoolTimeout", "ProxyError",
    "UnsupportedProtocol",
})  # fmt: skip
# By these it was sent, whatever came of it.
_SENT: Final = frozenset({"ReadError", "ReadTimeout", "RemoteProtocolError", "ServerDisconnectedError"})


def received(call: Call, tried: Try, route: Route, response: Any) -> None:
    """Watch a response of httpx or httpx2, unless somebody nearer to the wire does."""
    if not tried.claim():
        return
    answer = Answer(
        call,
        tried,
        route,
        vantage="wire",
        status=response.status_code,
        streamed=streams(response),
        decode=None if response.is_closed else decoder(response),
    )
    watch(response, answer)
    request_id = response.headers.get("x-request-id") or response.headers.get("request-id")
    if request_id:
        tried.attempt.refer(request=request_id)


def broken(call: Call, tried: Try, route: Route, error: BaseException) -> None:
    """Say that a try ended without a response: what is known of its having been sent, and by what it failed."""
    names = {parent.__name__ for each in (error, error.__cause__) for parent in type(each).__mro__}
    if names & _NEVER_SENT:
        tried.attempt.not_dispatched()
    elif names & _SENT:
        tried.attempt.dispatched()
    if tried.claim():
        Answer(call, tried, route, vantage="wire").broke(error)
