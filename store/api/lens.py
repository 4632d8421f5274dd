"""The toolchain's lens on a run, for readers: its actions, tool surfaces, coverage and delivery. Never content."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

import msgspec
from litestar import Response, Router, get
from litestar.params import FromPath, QueryParameter

from policies.chain import Row
from policies.reasons import Reason
from store.api.identity import requires, services
from store.api.problems import MEDIA_TYPE, TYPE_PREFIX, Problem
from store.api.reading import READERS, AnyRequest, CursorText, Limit, answered, only, reader_of
from store.api.schema import OPERATION, answer
from store.ids import caller_id
from store.services.lens_views import ActionItem, ActionView, CoverageItem, DeliveryItem, SurfaceItem, Told
from store.services.paging import USUAL, Page
from store.services.questions import asked
from store.services.refusals import title

Item = TypeVar("Item")
Name = Annotated[str | None, QueryParameter(max_length=128)]

_PAGE: Final = frozenset({"limit", "cursor"})


class NotRecorded(Problem, frozen=True, kw_only=True):
    """The answer for an action of which a run that can be read has no fact."""

    row: Row


@get(
    "/v1/runs/{run:str}/actions",
    guards=[requires(*READERS)],
    operation_id="listRunActions",
    summary="What a run's tools did",
)
async def list_run_actions(
    request: AnyRequest, run: FromPath[str], limit: Limit = USUAL, cursor: CursorText = None
) -> Response[Page[ActionItem]]:
    """One page of actions in the order in which they were first told of; `row` says where to look first."""
    return await _listed(request, services(request).lens.actions, run, limit, cursor)


@get(
    "/v1/runs/{run:str}/actions/{action:str}",
    guards=[requires(*READERS)],
    operation_id="getRunAction",
    summary="One action: execution, views, requests",
    opt={
        OPERATION: {
            "responses": {
                "200": answer("What was told of the action", "ActionView"),
                "404": {
                    "description": "No such run; with `row`, nothing was recorded of the action",
                    "content": {
                        MEDIA_TYPE: {
                            "schema": {
                                "anyOf": [
                                    {"$ref": "#/components/schemas/NotRecorded"},
                                    {"$ref": "#/components/schemas/Problem"},
                                ]
                            }
                        }
                    },
                },
            }
        }
    },
)
async def get_run_action(
    request: AnyRequest, run: FromPath[str], action: FromPath[str]
) -> Response[ActionView | NotRecorded]:
    """The chain from its execution to every request that held its result, and in which form."""
    only(request, ())
    reader = await reader_of(request)
    found = await services(request).lens.action(reader, caller_id(run), caller_id(action))
    return _not_recorded() if found is None else Response(found)


@get(
    "/v1/runs/{run:str}/surface",
    guards=[requires(*READERS)],
    operation_id="listSurface",
    summary="Checks of what tools requests offered",
)
async def list_surface(
    request: AnyRequest,
    run: FromPath[str],
    exchange: Name = None,
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[SurfaceItem]]:
    """One page of checks in the order told: whether what a request offered is what was admitted."""
    return await _listed(request, services(request).lens.surface, run, limit, cursor, exchange=exchange)


@get(
    "/v1/runs/{run:str}/coverage",
    guards=[requires(*READERS)],
    operation_id="listCoverage",
    summary="How much of its files a run read",
)
async def list_coverage(
    request: AnyRequest,
    run: FromPath[str],
    action: Name = None,
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[CoverageItem]]:
    """One page in the order told; what was last told of a file is how far it was read."""
    return await _listed(request, services(request).lens.coverage, run, limit, cursor, action=action)


@get(
    "/v1/runs/{run:str}/delivery",
    guards=[requires(*READERS)],
    operation_id="listDelivery",
    summary="Whether what a run promised is there",
)
async def list_delivery(
    request: AnyRequest,
    run: FromPath[str],
    action: Name = None,
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[DeliveryItem]]:
    """One page in the order told; what was last told of an item is how it stands."""
    return await _listed(request, services(request).lens.delivery, run, limit, cursor, action=action)


router = Router(
    "/",
    route_handlers=[list_run_actions, get_run_action, list_surface, list_coverage, list_delivery],
    tags=["lens"],
)


async def _listed(
    request: AnyRequest,
    ask: Callable[..., Awaitable[Told[Item]]],
    run: str,
    limit: int,
    cursor: str | None,
    **only_of: str | None,
) -> Response[Page[Item]]:
    """Answer a page of a list, of one exchange or action alone where that is named.

    The answer says whether the run had as many facts as it may have, so that later ones are not there.
    """
    only(request, _PAGE | only_of.keys())
    reader, how = await reader_of(request), asked("oldest", limit, cursor)
    named = {by: None if name is None else caller_id(name) for by, name in only_of.items()}
    told = await ask(reader, caller_id(run), how, **named)
    response = answered(request, told.page)
    response.headers["Custody-Facts-Full"] = "true" if told.full else "false"
    return response


def _not_recorded() -> Response[ActionView | NotRecorded]:
    problem = NotRecorded(
        type=TYPE_PREFIX + Reason.NOT_FOUND,
        title=title(Reason.NOT_FOUND),
        status=404,
        detail="nothing was recorded of that action, which does not say that it did not happen",
        reason=Reason.NOT_FOUND,
        retryable=False,
        row=Row.NOT_RECORDED,
    )
    return Response(msgspec.json.encode(problem), status_code=404, media_type=MEDIA_TYPE)  # type: ignore[arg-type]
