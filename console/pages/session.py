"""One's own session: whose key it is, since when, what the reads of it are for, and its end."""

from typing import Any, Final

from litestar import Response, Router, get, post

from console.guards import AnyRequest, cookies, reads, services, signed
from console.rendering import page, redirect
from console.sign_in import local
from store.errors import Malformed
from store.services.content import MOST_PURPOSE, checked_purpose

_SEE_OTHER: Final = 303


@get("/session", guards=[reads()])
async def show_session(request: AnyRequest) -> Response[Any]:
    """Show one's own session, and how many others the key has."""
    who = signed(request)
    others = await services(request).console_sessions.count(who.session) - 1
    return page(request, "session.html", session=who.session, others=max(0, others), most=MOST_PURPOSE)


@post("/session/purpose", guards=[reads()], status_code=_SEE_OTHER)
async def say_purpose(request: AnyRequest) -> Response[Any]:
    """Keep what the reads and actions from now on are for; an empty field takes it back."""
    who = signed(request)
    said = str(who.form.get("purpose") or "").strip() or None
    try:
        checked_purpose(said)
    except Malformed:
        # The services speak of a header, which no reader of a page has ever seen.
        raise Malformed(
            detail=f"a purpose is one line of at most {MOST_PURPOSE} printable characters"
        ) from None
    await services(request).console_sessions.say(who.session, said)
    return redirect(local(str(who.form.get("next") or "/session")))


@post("/sign-out", guards=[reads()], status_code=_SEE_OTHER)
async def sign_out(request: AnyRequest) -> Response[Any]:
    """End this session, or every session of the key."""
    who, named, book = signed(request), cookies(request), services(request).console_sessions
    if who.form.get("everywhere"):
        await book.sign_out_everywhere(who.session)
    else:
        await book.sign_out(who.session)
    lead = redirect("/sign-in", out="1")
    lead.headers["Set-Cookie"] = named.drop(named.session)
    return lead


router = Router("/", route_handlers=[show_session, say_purpose, sign_out])
