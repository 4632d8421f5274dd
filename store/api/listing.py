"""Lists that are ordered by names, for the key and the scope of a call."""

from store.api.identity import caller, scope_of, services
from store.api.reading import AnyRequest
from store.services import listing as lists
from store.services.listing import Listing
from store.services.paging import Reader


async def listing(request: AnyRequest, page: str, *filters: tuple[str, str]) -> Listing:
    """Begin to read a list."""
    who, scope = caller(request), await scope_of(request)
    reader = Reader(scope.scope_id, who.key_id, who.role, who.clearances)
    return lists.listing(reader, services(request).keyring, page, *filters)
