"""What a toolchain told of a run: its actions, each with its chain; checks of tools, coverage, delivery. No content."""

from litestar import Router

from console.pages.tools import action, lists

router = Router("/", route_handlers=[*lists.HANDLERS, action.show_action])
