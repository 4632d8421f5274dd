"""The proof log as a whole: its last checkpoint, its key, whether it is stopped, and how to check it from outside."""

import base64
from dataclasses import dataclass
from typing import Any, Final

from litestar import Response, Router, get

from console import api_calls
from console.alarm_words import AlarmWords, of_alarm
from console.guards import AnyRequest, reads, services, signed
from console.rendering import file_answer, page
from policies.reasons import Reason
from store.errors import CustodyError, NotFound
from store.log_tree.notes import parse_checkpoint, unverified_text
from store.services.alarms import Alarm, Raised

_TEXT: Final = "text/plain"
_CHECKPOINT: Final = "/v1/log/checkpoint"


@dataclass(frozen=True, slots=True)
class Shown:
    """The last checkpoint, in parts and whole."""

    origin: str
    size: int
    root: str
    note: str


@get("/log", guards=[reads()])
async def show_log(request: AnyRequest) -> Response[Any]:
    """Show how the log stands; while reads are closed that is said where the checkpoint would be."""
    who, opened = signed(request), services(request)
    standing = await opened.log_standing.now()
    url = api_calls.address(opened.settings, _CHECKPOINT)
    scope = who.scope.name if who.of_store and who.scope is not None else None
    # Reads may stay open for an instant longer than the log: what is said beside it then holds for this too.
    found, reason = (None, Reason.READS_CLOSED) if standing.closed else await _checkpoint(request)
    return page(
        request,
        "log.html",
        standing=standing,
        stopped=_stopped(standing.closed),
        checkpoint=found,
        reason=reason,
        curl=api_calls.curl(url, scope) + " -o checkpoint",
        tiles=api_calls.address(opened.settings, "/v1/log/tile/"),
    )


@get("/log/checkpoint", guards=[reads()])
async def download_checkpoint(request: AnyRequest) -> Response[Any]:
    """The last checkpoint as a file: an anchor for whoever keeps it."""
    return file_answer(await services(request).proofs.checkpoint(), "checkpoint", _TEXT)


router = Router("/", route_handlers=[show_log, download_checkpoint])


async def _checkpoint(request: AnyRequest) -> tuple[Shown | None, Reason | None]:
    """Return the checkpoint, or why none is shown; no reason and none: nothing is published yet."""
    try:
        note = await services(request).proofs.checkpoint()
    except NotFound:
        return None, None
    except CustodyError as refusal:
        return None, refusal.reason
    said = parse_checkpoint(unverified_text(note))
    return Shown(said.origin, said.size, base64.b64encode(said.root).decode("ascii"), note.decode()), None


def _stopped(closed: str | None) -> AlarmWords | None:
    return None if closed is None else of_alarm(Raised(Alarm(closed)))
