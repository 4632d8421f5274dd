"""Goes through the console as far as its links lead: a page that is new is found without being listed anywhere."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

from litestar.routes import HTTPRoute
from playwright.async_api import APIRequestContext

from console.app import ROUTERS

# Addresses of one route that are looked at; among runs, exchanges and attempts there are more of a kind.
A_FEW = 3
_LINK = re.compile(r'<a\b[^>]*\shref="([^"]+)"')
_ANCHOR = re.compile(r'\shref="#([^"]+)"')
_ID = re.compile(r'\sid="([^"]+)"')
_REFUSED = 400
_VALUE = r"[^/]+"


def routes() -> dict[str, re.Pattern[str]]:
    """Return every route that answers GET, with what its paths look like; the most precise first."""
    found = {
        route.path
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, HTTPRoute) and "GET" in {str(each) for each in route.methods}
    }
    return {path: _looks(path) for path in sorted(found, key=lambda path: (path.count("{"), path))}


def route_of(path: str) -> str | None:
    """Return the route that a path belongs to."""
    return next((name for name, looks in routes().items() if looks.fullmatch(urlsplit(path).path)), None)


@dataclass
class Walk:
    """Where links lead, by route: pages, files to keep, and addresses that lead to none of ours."""

    pages: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    nowhere: list[str] = field(default_factory=list)

    def all_pages(self) -> list[str]:
        return [path for paths in self.pages.values() for path in paths]


async def walked(request: APIRequestContext, origin: str, *starts: str) -> Walk:
    """Follow links from here to a few addresses of every route; each that is followed must lead to an answer."""
    walk = Walk()
    queue, seen = list(starts), set(starts)
    came_from = dict.fromkeys(starts, "the start")
    while queue:
        path = queue.pop(0)
        route = route_of(path)
        if route is None:
            walk.nowhere.append(path)
            continue
        if not _wanted([*walk.pages.get(route, []), *walk.files.get(route, [])], path):
            continue
        answer = await request.get(origin + path, max_redirects=0)
        assert answer.status < _REFUSED, (path, answer.status, came_from[path])
        page = "text/html" in answer.headers.get("content-type", "")
        (walk.pages if page else walk.files).setdefault(route, []).append(path)
        if not page:
            continue
        for link in _links(await answer.text(), path):
            if link not in seen:
                seen.add(link)
                came_from[link] = path
                queue.append(link)
    return walk


def anchors(text: str) -> set[str]:
    """Return what a page leads to on itself, and has not."""
    return {unescape(each) for each in _ANCHOR.findall(text)} - {unescape(each) for each in _ID.findall(text)}


def _wanted(known: list[str], path: str) -> bool:
    """Say whether an address is unlike those that are known of its route: by what it asks, or as one more of few."""
    asked = Counter(frozenset(_asked(each)) for each in known)
    return asked[frozenset(_asked(path))] < (A_FEW if not _asked(path) else 1) and len(known) < 3 * A_FEW


def _asked(path: str) -> list[str]:
    return [each.partition("=")[0] for each in urlsplit(path).query.split("&") if each]


def _links(text: str, here: str) -> Iterator[str]:
    for each in _LINK.findall(text):
        path = urldefrag(urljoin(here, unescape(each))).url
        assert path.startswith("/"), (here, path)
        yield path


def _looks(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+:\w+\\\}", _VALUE, re.escape(path)))
