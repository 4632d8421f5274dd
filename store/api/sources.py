"""Sources and their versions, for operators: add, withdraw, revoke, restore."""

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from litestar import Router, get, post, put
from litestar.params import FromPath, JSONBody

from policies.kinds import Role
from store.api.documents import MOST_BYTES, unambiguous
from store.api.identity import caller, requires, scope_of, services
from store.api.listing import listing
from store.api.reading import AnyRequest, CursorText, Limit, only
from store.ids import caller_id
from store.services.paging import USUAL
from store.tables.sources import SourceRow, VersionRow

_MOST_VERSIONS: Final = 200


class NewVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A version to be added. `earlier` ones stay readable unless withdrawn; an audience replaces the present one."""

    earlier: Literal["readable", "withdrawn"] = "readable"
    audience: list[str] | None = None


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole source, or one version of it."""

    version: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None


class SourceItem(msgspec.Struct, frozen=True, kw_only=True):
    """A source in a list; `destroyed` says that what it closed is gone."""

    source: str
    latest: int
    audience: list[str]
    revoked_at: datetime | None
    destroyed: bool
    created_at: datetime


class VersionItem(msgspec.Struct, frozen=True):
    """One version of a source."""

    version: int
    withdrawn_at: datetime | None
    destroyed: bool
    created_at: datetime


class SourceView(SourceItem, frozen=True, kw_only=True):
    """A source alone, with its newest versions."""

    versions: list[VersionItem]


class SourceList(msgspec.Struct, frozen=True):
    """Some sources by id; `next` is null at the end."""

    items: list[SourceItem]
    next: str | None


@get("/", operation_id="listSources", summary="Sources by id")
async def list_sources(request: AnyRequest, limit: Limit = USUAL, cursor: CursorText = None) -> SourceList:
    """Return some of the scope's sources."""
    only(request, {"limit", "cursor"})
    sources = await listing(request, "sources")
    page = await services(request).sources.page(sources.scope, sources.after_name(cursor), limit)
    return SourceList([_item(row) for row in page.rows], sources.following(page.last))


@get("/{source:str}", operation_id="getSource", summary="One source and its versions")
async def get_source(request: AnyRequest, source: FromPath[str]) -> SourceView:
    """Return a source with its newest versions."""
    return await _view(request, caller_id(source))


@put("/{source:str}", operation_id="putSource", summary="Add a version to a source", status_code=200)
async def put_source(request: AnyRequest, source: FromPath[str], data: JSONBody[NewVersion]) -> SourceView:
    """Add the next version, and make the source where there is none. A newer version alone closes nothing."""
    scope = await scope_of(request)
    await services(request).sources.put_version(
        scope.scope_id,
        caller_id(source),
        caller(request).key_id,
        withdraw_earlier=data.earlier == "withdrawn",
        audience=data.audience,
    )
    return await _view(request, source)


@post(
    "/{source:str}/revoke",
    operation_id="revokeSource",
    summary="Close a source or a version",
    status_code=200,
)
async def revoke_source(request: AnyRequest, source: FromPath[str], data: JSONBody[Which]) -> SourceView:
    """Refuse from now on what depends on it; after the scope's `destroy_after` that is destroyed."""
    scope = await scope_of(request)
    await services(request).sources.revoke(
        scope.scope_id, caller_id(source), data.version, caller(request).key_id
    )
    return await _view(request, source)


@post(
    "/{source:str}/restore",
    operation_id="restoreSource",
    summary="Open a source or a version again",
    status_code=200,
)
async def restore_source(request: AnyRequest, source: FromPath[str], data: JSONBody[Which]) -> SourceView:
    """Take a revocation back; refused once what it closed has been destroyed."""
    scope = await scope_of(request)
    await services(request).sources.restore(
        scope.scope_id, caller_id(source), data.version, caller(request).key_id
    )
    return await _view(request, source)


router = Router(
    "/v1/sources",
    route_handlers=[list_sources, get_source, put_source, revoke_source, restore_source],
    guards=[requires(Role.OPERATOR)],
    before_request=unambiguous,
    request_max_body_size=MOST_BYTES,
    tags=["operators"],
)


async def _view(request: AnyRequest, source: str) -> SourceView:
    scope = await scope_of(request)
    row, versions = await services(request).sources.one(scope.scope_id, source, _MOST_VERSIONS)
    return SourceView(**msgspec.structs.asdict(_item(row)), versions=[_version(each) for each in versions])


def _item(row: SourceRow) -> SourceItem:
    return SourceItem(
        source=row.source,
        latest=row.latest,
        audience=sorted(row.audience),
        revoked_at=row.revoked_at,
        destroyed=row.destroyed,
        created_at=row.created_at,
    )


def _version(row: VersionRow) -> VersionItem:
    return VersionItem(row.version, row.withdrawn_at, row.destroyed, row.created_at)
