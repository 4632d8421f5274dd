"""The OpenAPI document, and one page that lists it: no script, no style and no address from elsewhere.

What the framework cannot know is completed here: that every error is a problem, and what bodies raw handlers take.
"""

import html
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from litestar import Request
from litestar.enums import MediaType
from litestar.enums import OpenAPIMediaType as OpenAPIText
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from store.api import problems

# A handler whose `opt` holds this adds it to its operation: bodies and headers that it reads by itself.
OPERATION: Final = "openapi"

_BEARER: Final = "bearer"
_OPERATORS: Final = "operators"
_PURPOSE: Final[Mapping[str, Any]] = {
    "name": "Custody-Purpose",
    "in": "header",
    "required": False,
    "description": "What it is for; recorded with the operator action, where the call is one",
    "schema": {"type": "string", "maxLength": 200},
}
_METHODS: Final = ("get", "put", "post", "patch", "delete", "head", "options")
_REF: Final = "#/components/schemas/{name}"


def config() -> OpenAPIConfig:
    """Return how the document is made and where it is served: /schema and /schema/openapi.json."""
    return OpenAPIConfig(
        title="Custody",
        version="1",
        summary="An evidence store for model calls",
        path="/schema",
        render_plugins=[
            _Page(path="/", media_type=MediaType.HTML),
            _Json(path="/openapi.json", media_type=OpenAPIText.OPENAPI_JSON),
        ],
        security=[{_BEARER: []}],
        components=Components(
            security_schemes={
                _BEARER: SecurityScheme(
                    type="http", scheme="bearer", bearer_format="ck_<role>_<id>_<secret>",
                    description="An API key. Never in a URL.",
                )
            }
        ),
        use_handler_docstrings=True,
    )  # fmt: skip


def answer(description: str, struct: str, media_type: str = "application/json") -> Mapping[str, Any]:
    """Return what `responses` of an operation say of an answer that holds one of our structs."""
    return {
        "description": description,
        "content": {media_type: {"schema": {"$ref": _REF.format(name=struct)}}},
    }


def completed(document: dict[str, Any], extras: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document with our errors in it; `extras` are additions by operation id."""
    _, components = msgspec.json.schema_components([problems.Problem], ref_template=_REF)
    document = dict(document)
    document["components"] = {
        **document.get("components", {}),
        "schemas": {**components, **document.get("components", {}).get("schemas", {})},
    }
    document["paths"] = {path: dict(item) for path, item in document.get("paths", {}).items()}
    for item in document["paths"].values():
        for method in _METHODS:
            if method in item:
                item[method] = _operation(item[method], extras)
    return document


def _operation(operation: Mapping[str, Any], extras: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    # The framework documents errors in a shape of its own, which nobody ever gets.
    answers = {status: answer for status, answer in operation.get("responses", {}).items() if status < "4"}
    problem = {
        "description": "A problem (RFC 9457); `reason` is from a closed list",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}},
    }
    extra = dict(extras.get(str(operation.get("operationId")), {}))
    parameters = [*operation.get("parameters", ()), *extra.pop("parameters", ())]
    if _OPERATORS in operation.get("tags", ()):
        parameters.append(_PURPOSE)
    return {
        **operation,
        "parameters": parameters,
        "responses": {**answers, **extra.pop("responses", {}), "default": problem},
        **extra,
    }


def _completed_for(request: Request[Any, Any, Any], document: dict[str, Any]) -> dict[str, Any]:
    return completed(document, dict(_extras(request)))


def _extras(request: Request[Any, Any, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for route in request.app.routes:
        for handler in getattr(route, "route_handlers", ()):
            if OPERATION in handler.opt:
                yield str(handler.operation_id), handler.opt[OPERATION]


class _Json(OpenAPIRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return self.render_json(request, _completed_for(request, openapi_schema))


class _Page(OpenAPIRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        document = _completed_for(request, openapi_schema)
        rows = "".join(_row(*each) for each in _operations(document))
        return _PAGE.format(title=html.escape(document["info"]["title"]), rows=rows).encode()


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, item in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def _row(method: str, path: str, operation: Mapping[str, Any]) -> str:
    summary, description = operation.get("summary", ""), operation.get("description", "")
    return (
        f"<dt><code>{method} {html.escape(path)}</code> <b>{html.escape(summary)}</b></dt>"
        f"<dd>{html.escape(description)} <small>{html.escape(str(operation.get('operationId', '')))}</small></dd>\n"
    )


_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1>
<p>Errors are <code>application/problem+json</code>. The whole document:
<a href="/schema/openapi.json">/schema/openapi.json</a> (OpenAPI 3.1).</p>
<dl>
{rows}</dl></body></html>
"""
