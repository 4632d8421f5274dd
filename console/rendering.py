"""Templates, and the answers that pages give. Every value is escaped; an unknown name is a fault, not a blank."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Response
from litestar.response import Stream
from markupsafe import Markup

from console import navigation, words
from console.alarm_words import of_alarm
from console.assets import address
from console.guards import FORM_FIELD, SHOWN_FIELD, AnyRequest, alarms, perhaps_signed
from console.showing.visible import visible
from policies import quantities
from store.services.scopes import Scope

_HTML: Final = "text/html"  # the framework adds the charset
_SHORT_ID: Final = 8
_SEE_OTHER: Final = 303
# What may stand in an address as it is, "%" included: what is quoted already stays so.
_OF_ADDRESS: Final = "%/?&=#:;,+~!*'()@$[]"


def page(request: AnyRequest, template: str, *, status: int = 200, **facts: Any) -> Response[str]:
    """Answer a whole page: `template` fills the blocks of base.html, with what every page knows and these facts."""
    return _html(request, template, status, facts)


def fragment(request: AnyRequest, template: str, *, status: int = 200, **facts: Any) -> Response[str]:
    """Answer a piece of a page, for htmx; what asks for it works as a whole page too."""
    return _html(request, template, status, facts)


def wants_fragment(request: AnyRequest) -> bool:
    """Say whether htmx asks for a piece, and not for what a browser would show by itself."""
    return "hx-request" in request.headers and "hx-history-restore-request" not in request.headers


def redirect(path: str, **parameters: str) -> Response[bytes]:
    """Lead to another page of ours, asked for by GET; where callers want to go passes `sign_in.local` first."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    lead = quote(path, safe=_OF_ADDRESS) + query
    return Response(b"", status_code=_SEE_OTHER, media_type="text/plain", headers={"Location": lead})


def file_answer(
    content: bytes | str | AsyncIterator[bytes], name: str, media_type: str, headers: Mapping[str, str] = {}
) -> Response[Any]:
    """Answer something to keep: always an attachment under a name of ours, never shown by the browser."""
    said = {**headers, "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    if isinstance(content, bytes | str):
        return Response(content, media_type=media_type, headers=said)
    return Stream(content, media_type=media_type, headers=said)


def _html(request: AnyRequest, template: str, status: int, facts: dict[str, Any]) -> Response[str]:
    text = _TEMPLATES.get_template(template).render(_known(request) | facts)
    return Response(text, status_code=status, media_type=_HTML)


def _known(request: AnyRequest) -> dict[str, Any]:
    """Return what every page knows: who looks, within which scope, where one can go, and where this is."""
    who = perhaps_signed(request)
    path = request.url.path
    return {
        "signed": who,
        "scope": None if who is None else who.scope,
        # For addresses that keep it: another page may choose another one.
        "chosen_scope": who.scope.name if who is not None and who.of_store and who.scope else None,
        "places": [] if who is None else navigation.places(who.role),
        "desk_places": navigation.DESK,
        "path": path,
        "here": path + (f"?{request.url.query}" if request.url.query else ""),
        "csrf": "" if who is None else who.csrf,
        "csrf_field": Markup("") if who is None else form_field(who.csrf, who.scope),
        "alarms": [(each, of_alarm(each)) for each in alarms(request)],
    }


def form_field(token: str, scope: Scope | None = None) -> Markup:
    """Return the fields that every form with POST carries: that it is ours, and of which scope its page was."""
    field = Markup('<input type="hidden" name="{}" value="{}">')
    return field.format(FORM_FIELD, token) + field.format(SHOWN_FIELD, scope.name if scope else "")


def _time(at: datetime | None) -> Markup:
    """Show an instant to the second, in UTC; whole in the title, for those who need it."""
    if at is None:
        return Markup('<span class="unknown">unknown</span>')
    at = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), at.isoformat(), at.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def _short(text: object) -> Markup:
    """Show the end of an id, which is what tells ids of one moment apart; the whole is its title."""
    whole = str(text)
    return Markup('<span class="id" title="{}">…{}</span>').format(whole, whole[-_SHORT_ID:])


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"time": _time, "size": quantities.size_text, "short": _short, "visible": visible}
    made.globals |= {"asset": address, "words": words.of, "words_at_read": words.at_read, "at": navigation.at}
    return made


_TEMPLATES: Final = _environment()
