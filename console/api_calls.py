"""The api's own call behind a page, as a line for a shell: never with a token in it."""

import shlex
from collections.abc import Mapping
from urllib.parse import urlencode

from store.config import Settings

TOKEN = "$CUSTODY_TOKEN"  # noqa: S105 - a placeholder, which the reader's shell fills in


def address(settings: Settings, path: str, query: Mapping[str, str] | None = None) -> str:
    """Return where callers find a path of the api."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    base = (settings.public_url or f"http://{host}:{settings.port}").rstrip("/")
    return f"{base}{path}" + (f"?{urlencode(query)}" if query else "")


def curl(url: str, scope: str | None) -> str:
    """Return the call; `scope` names the scope for a key that is for the whole store."""
    words = ["curl", "-fsS", "-H", f'"Authorization: Bearer {TOKEN}"']
    if scope is not None:
        words += ["-H", shlex.quote(f"Custody-Scope: {scope}")]
    return " ".join([*words, shlex.quote(url)])
