"""What all benchmarks of one call share: the servers, one store for those that capture, the contents, the rounds."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.content import Supply
from bench.stack import Stack, Store

# Enough that no scope meets its share of the queue while all together fill most of it.
SCOPES: Final = 8


@dataclass(slots=True)
class Setting:
    """Where a benchmark runs."""

    stack: Stack
    contents: Supply
    exits: AsyncExitStack
    # Fewer rounds than a benchmark would take, for a quick look.
    most_rounds: int | None = None
    shared: Store | None = None

    async def store(self) -> Store:
        """Return the store that the benchmarks of capture share, made when it is first asked for."""
        if self.shared is None:
            self.shared = await self.exits.enter_async_context(self.stack.store(SCOPES))
        return self.shared

    def rounds(self, usual: int) -> int:
        """Return how many rounds to take."""
        return usual if self.most_rounds is None else min(usual, self.most_rounds)

    def file(self, name: str) -> Path:
        """Name a file for requests."""
        return self.stack.directory / f"{name}.requests"
