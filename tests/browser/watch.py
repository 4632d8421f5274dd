"""A browser that remembers what it asked for, what it refused, what scripts complained of; and looks at pages."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, BrowserContext, Page, Response

# What a reader without sight or without a mouse cannot get past.
_GRAVE: Final = frozenset({"serious", "critical"})
# What of it the colours decide, which are all that another scheme changes.
_OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]

# In every page before any script of its own: refusals of the policy, and what hostile content would set.
_REMEMBER: Final = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.refused.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""

_TOKEN: Final = re.compile('name="csrf" value="([0-9a-f]+)"')
_SEE_OTHER: Final = 303
_HERE: Final = Path(__file__).parent
_BEYOND: Final = (_HERE / "beyond.js").read_text()
_CRAMPED: Final = (_HERE / "cramped.js").read_text()


@dataclass
class Sight:
    """A page of a browser, and all that it did."""

    context: BrowserContext
    page: Page
    origin: str
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    scripts: bool = True

    async def open(self, path: str, status: int | None = 200) -> Response:
        """Open a path of the console, which must answer with this status."""
        answer = await self.page.goto(self.origin + path)
        assert answer is not None
        assert status in (None, answer.status), (path, answer.status, await self.text())
        return answer

    async def text(self) -> str:
        return str(await self.page.locator("main").inner_text())

    async def enter(self, key: str) -> None:
        """Sign in without looking at it, in a session of its own."""
        request, where = self.context.request, f"{self.origin}/sign-in"
        token = _TOKEN.search(await (await request.get(where)).text())
        assert token is not None
        answer = await request.post(where, form={"csrf": token[1], "key": key, "next": ""}, max_redirects=0)
        assert answer.status == _SEE_OTHER, (answer.status, await answer.text())

    async def sign_in(self, key: str, next_path: str = "") -> None:
        """Sign in as a person does."""
        await self.open(next_path or "/sign-in")
        await self.page.get_by_label("Key", exact=True).fill(key)
        await self.page.get_by_role("button", name="Sign in").click()
        await self.page.wait_for_selector("form[action='/sign-out']")

    async def harm(self) -> list[str]:
        """Return what should never be: requests to others, refusals of the policy, faults of scripts, theft."""
        found = [f"asked {url}" for url in self.asked if not self._own(url)] + self.said
        if self.scripts:
            found += await self.page.evaluate("window.refused || []")
            found += ["something was run"] if await self.page.evaluate("'stolen' in window") else []
        return found

    async def unfit(self, width: int) -> list[str]:
        """Return what does not fit a window of this width."""
        await self.page.set_viewport_size({"width": width, "height": 900})
        return [*await self.page.evaluate(_BEYOND), *await self.page.evaluate(_CRAMPED)]

    async def barriers(self, *, colours_only: bool = False) -> list[str]:
        """Return what axe finds that is serious or critical; of colours only, where all else was looked at before."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE_SCRIPT)
        options = {"resultTypes": ["violations"], **({"runOnly": _OF_COLOURS} if colours_only else {})}
        found: dict[str, Any] = await self.page.evaluate("options => axe.run(options)", options)
        return [
            f"{each['id']}: {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
            for each in found["violations"]
            if each["impact"] in _GRAVE
            for node in each["nodes"][:3]
        ]

    def _own(self, url: str) -> bool:
        own, parts = urlsplit(self.origin), urlsplit(url)
        return (parts.scheme, parts.netloc) == (own.scheme, own.netloc)


@asynccontextmanager
async def sight(browser: Browser, origin: str, **options: Any) -> AsyncIterator[Sight]:
    """Open a window that nobody used before; at its end it must have done no harm."""
    context = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(8000)
    scripts = options.get("java_script_enabled", True)
    if scripts:
        await context.add_init_script(_REMEMBER)
    page = await context.new_page()
    seen = Sight(context, page, origin, scripts=scripts)
    context.on("request", lambda request: seen.asked.append(request.url))
    page.on("pageerror", lambda error: seen.said.append(f"script: {error}"))
    page.on("dialog", lambda dialog: seen.said.append(f"dialog: {dialog.message}"))
    context.on("page", lambda other: seen.said.append(f"window: {other.url}"))
    page.on("console", lambda told: _complaint(seen, told.type, told.text))
    try:
        yield seen
        assert await seen.harm() == []
    finally:
        await context.close()


def _complaint(seen: Sight, kind: str, text: str) -> None:
    # A page that refuses has its status, which the browser notes as an error of its own.
    if kind in {"error", "warning"} and not text.startswith("Failed to load resource: the server responded"):
        seen.said.append(f"console: {text}")
