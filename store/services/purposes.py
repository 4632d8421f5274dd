"""For which purpose operators act: said once for a request, and recorded with whatever it does."""

from store.services.content import checked_purpose
from store.tables import operator_actions


def for_purpose(purpose: str | None) -> None:
    """Record with this purpose what the task under way does from now on; Malformed where no record could show it."""
    operator_actions.for_purpose(checked_purpose(purpose))
