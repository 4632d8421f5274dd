"""The client of one service under one key: makes runs, and has one background thread that talks for all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Self

from custody_client.counters import Counters
from custody_client.runs import Run
from custody_client.settings import Bounds, LocalPolicy, Source


class Custody:
    """A service's address and a runtime's key. Whatever happens to either, no call of this raises or waits.

    `mask` takes the bytes of each part before it leaves and returns those that may; where it raises, is slow, or
    returns anything else, nothing leaves (`client_mask_failed`). It runs on a thread of its own.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        mask: Callable[[bytes], bytes] | None = None,
        bounds: Bounds | None = None,
        local: LocalPolicy | None = None,
    ) -> None:
        self.url = url

    @classmethod
    def from_environment(
        cls,
        *,
        mask: Callable[[bytes], bytes] | None = None,
        bounds: Bounds | None = None,
        local: LocalPolicy | None = None,
    ) -> Self:
        """Take the address from CUSTODY_URL and the key from CUSTODY_KEY, or from the file that CUSTODY_KEY_FILE names."""
        return cls("", "", mask=mask, bounds=bounds, local=local)

    def run(
        self,
        run_id: str,
        *,
        mode: str = "normal",
        content: str | None = "allow",
        retention: str | None = None,
        labels: Mapping[str, str] | None = None,
        sources: Sequence[Source | str] = (),
        subject: str | None = None,
        shared: bool = False,
        local: LocalPolicy | None = None,
        wait: float = 0.0,
    ) -> Run:
        """Declare a run in the background, and return it; the same object for the same id.

        Said again, the strictest of all declarations holds. `wait` (seconds, at most 2) waits for the answer.
        """
        return Run(run_id)

    def flush(self, timeout: float = 2.0) -> bool:
        """Send what waits now, and wait for it; False if there is still something when the time is over."""
        return True

    def close(self, timeout: float = 2.0) -> None:
        """Flush, for at most so long, and end the background thread; what is left is `client_shutdown`."""

    def counters(self) -> Counters:
        """Return what became of everything that was observed in this process."""
        return Counters()
