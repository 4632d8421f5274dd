"""Lists that are ordered by names or ids: sources, holds, erasures. What they share is where a page begins."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from store import cursor
from store.clock import utc_now
from store.cursor import IdentityCursor, Question
from store.ids import ScopeId
from store.keyring import Keyring
from store.services.paging import Reader


@dataclass(frozen=True, slots=True)
class Listing:
    """One list being read by one key, within one scope."""

    scope: ScopeId
    question: Question
    key: bytes
    now: datetime

    def after(self, text: str | None) -> IdentityCursor | None:
        """Return where the page begins after, None at the start; Malformed for a cursor of another question."""
        return None if text is None else cursor.read_identity(self.key, self.question, text, self.now)

    def after_name(self, text: str | None) -> str:
        """Return the name after which the page begins, which is nothing at the start."""
        after = self.after(text)
        return "" if after is None else after.exchange

    def before_id(self, text: str | None) -> UUID | None:
        """Return the id before which the page begins."""
        after = self.after(text)
        return None if after is None else UUID(after.exchange)

    def following(self, last: tuple[str, str, str] | str | UUID | None) -> str | None:
        """Return the cursor of the next page, which begins after a name, an id or an identity; None at the end."""
        if last is None:
            return None
        names = last if isinstance(last, tuple) else (str(last), "", "")
        return cursor.sign(self.key, self.question, IdentityCursor(*names, self.now))


def listing(reader: Reader, keyring: Keyring, page: str, *filters: tuple[str, str]) -> Listing:
    """Begin to read a list."""
    question = Question(reader.scope, reader.key_id, reader.clearances, page, filters, "oldest")
    return Listing(reader.scope, question, keyring.token_key("cursor"), utc_now())
