"""Lists that are ordered by names: sources, erasures, a run's receipts. What they share is where a page begins."""

from dataclasses import dataclass
from datetime import datetime

from store import cursor
from store.api.identity import caller, scope_of, services
from store.api.reading import AnyRequest
from store.clock import utc_now
from store.cursor import IdentityCursor, Question
from store.ids import ScopeId


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

    def following(self, last: tuple[str, str, str] | str | None) -> str | None:
        """Return the cursor of the next page, which begins after a name or an identity; None at the end."""
        if last is None:
            return None
        names = (last, "", "") if isinstance(last, str) else last
        return cursor.sign(self.key, self.question, IdentityCursor(*names, self.now))


async def listing(request: AnyRequest, page: str, *filters: tuple[str, str]) -> Listing:
    """Begin to read a list."""
    who, scope = caller(request), await scope_of(request)
    question = Question(scope.scope_id, who.key_id, who.clearances, page, filters, "oldest")
    return Listing(scope.scope_id, question, services(request).keyring.token_key("cursor"), utc_now())
