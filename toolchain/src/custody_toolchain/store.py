"""Facts to a Custody store, through the client of a run that the runtime has declared.

Promised: what is observed is handed to the client, which is never in the way: it keeps a bounded number, sends them
once the run is admitted, and counts what it loses (`Custody.counters().facts_lost`). Not promised: that a fact arrives.
"""

from typing import TYPE_CHECKING

from custody_toolchain.facts import Fact, encode
from custody_toolchain.observing import Observer

if TYPE_CHECKING:
    from custody_client import Run


def to_store(run: "Run") -> Observer:
    """Return an observer that posts facts to the store of this run; give it to a `Reporter`.

    `run` is what `Custody.run` returned. ImportError where the client is not installed.
    """
    try:
        from custody_client import Run as Known  # noqa: PLC0415 - nothing else here needs it
    except ImportError:
        raise ImportError(
            "posting facts to a store needs custody-client: pip install 'custody-toolchain[store]'"
        ) from None
    if not isinstance(run, Known):
        raise TypeError("to_store takes a run of custody_client: Custody(...).run(id)")

    def post(fact: Fact) -> None:
        run.report((encode(fact),))

    return post
