"""Every page of the console by its route, so that tests of all of them miss none that comes later."""

import re
from collections.abc import Mapping
from typing import Final

from litestar.routes import HTTPRoute

from console.app import ROUTERS

# Answered to everybody, and no pages of anybody's work.
OPEN: Final = frozenset({"/sign-in", "/static/{name:str}", "/livez", "/metrics"})


def _routes() -> list[str]:
    found = set()
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, HTTPRoute)
            if "GET" in {str(method) for method in route.methods}:
                found.add(route.path)
    return sorted(found - OPEN)


PAGES: Final = tuple(_routes())


def filled(route: str, names: Mapping[str, str]) -> str:
    """Return a page's address; KeyError for one with a part in it that nobody has named yet."""
    return re.sub(r"\{(\w+):\w+\}", lambda found: names[found[1]], route)
