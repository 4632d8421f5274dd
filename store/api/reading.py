"""What all calls of readers share: who reads, how a page was asked for, and how it is answered."""

from collections.abc import Collection
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.params import QueryParameter

from policies.availability import metadata_visible
from policies.kinds import Role
from store.api.identity import caller, scope_of
from store.services import questions
from store.services.paging import Page, Reader

AnyRequest = Request[Any, Any, Any]
Order = Literal["newest", "oldest"]
Item = TypeVar("Item")

Limit = Annotated[int, QueryParameter(ge=1, le=200)]
CursorText = Annotated[str | None, QueryParameter(name="cursor", max_length=1024)]
Since = Annotated[str | None, QueryParameter(name="from", max_length=64)]
Until = Annotated[str | None, QueryParameter(name="to", max_length=64)]
OrderWord = Annotated[Order, QueryParameter(name="order")]

READERS: Final = tuple(role for role in Role if metadata_visible(role))
PAGING: Final = frozenset({"order", "limit", "cursor", "from", "to"})


async def reader_of(request: AnyRequest) -> Reader:
    """Return who reads, within which scope."""
    who, scope = caller(request), await scope_of(request)
    return Reader(scope.scope_id, who.key_id, who.role, who.clearances)


def only(request: AnyRequest, offered: Collection[str]) -> None:
    """Refuse parameters that the call does not offer, and ones said twice: a filter that is ignored misleads."""
    # Not by the framework's own reading: a request on the short way has none prepared.
    questions.only(request.scope["query_string"].decode("latin-1"), offered)


def answered(request: AnyRequest, page: Page[Item]) -> Response[Page[Item]]:
    """Answer a page, with a link to the next one where there is one (RFC 8288)."""
    headers = {}
    if page.page.next is not None:
        query = dict(request.query_params.multi_items()) | {"cursor": page.page.next}
        headers["Link"] = f'<{request.url.path}?{urlencode(query)}>; rel="next"'
    return Response(page, headers=headers)
