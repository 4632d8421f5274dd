"""The cookie that a session hangs on, and the token that a form must carry to be believed.

SameSite is Lax, not Strict: a link to a run in a message should open for whoever is signed in; with Strict it would ask
for the key again. What Lax leaves open is closed otherwise: nothing is changed by GET, every POST
carries a token that only our own pages know, and says from where it comes.
"""

import base64
import hashlib
import hmac
import re
from typing import Final

from store.config import Settings
from store.ids import secret

_NAME: Final = "custody-session"
_BEFORE: Final = "custody-before"
# A browser takes such a cookie only over TLS, for this host alone and for all of its paths.
_HOST: Final = "__Host-"
_TOKEN_BYTES: Final = 32
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_MEANT_FOR: Final = b"custody console form"


class Cookies:
    """The names and properties of our cookies, as the settings ask for them."""

    def __init__(self, settings: Settings) -> None:
        self._secure = (settings.console_public_url or "").startswith("https://")
        self.session = (_HOST if self._secure else "") + _NAME
        self.before = (_HOST if self._secure else "") + _BEFORE

    def put(self, name: str, value: str) -> str:
        """Return the header that sets a cookie until the browser ends; the server ends sessions by itself."""
        return f"{name}={value}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if self._secure else ''}"

    def drop(self, name: str) -> str:
        """Return the header that removes a cookie."""
        return f"{self.put(name, '')}; Max-Age=0"


def new_token() -> str:
    """Return what a browser holds before anybody is signed in, so that a form can be told from somebody else's."""
    return base64.urlsafe_b64encode(secret(_TOKEN_BYTES)).rstrip(b"=").decode("ascii")


def is_token(text: str) -> bool:
    """Say whether a text looks like one that we gave out."""
    return _TOKEN.fullmatch(text) is not None


def form_token(token: str) -> str:
    """Return what a form must carry, made from what the browser holds; it tells nothing of that."""
    return hmac.new(token.encode("utf-8"), _MEANT_FOR, hashlib.sha256).hexdigest()


def is_form_token(token: str, said: str) -> bool:
    """Say whether a form carries what belongs to this browser."""
    return hmac.compare_digest(form_token(token).encode("ascii"), said.encode("utf-8"))
