"""A logger for LiteLLM: `litellm.callbacks = [custody_client.adapters.litellm.logger()]`.

LiteLLM tells of a call when it is over, on a thread or task of its own, and of each failed try apart. It says nothing
of a stream that its reader left. What it was told to keep from loggers (`turn_off_message_logging`) is not captured.
"""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from custody_client.adapters import litellm_content
from custody_client.adapters.around import Witness, witness
from custody_client.adapters.calls import seen
from custody_client.adapters.faults import harmless
from custody_client.adapters.outputs import Late
from custody_client.attempts import Attempt, Exchange
from custody_client.client import Custody
from custody_client.content import NotObserved
from custody_client.current import current_run
from custody_client.runs import Run
from custody_client.words import LOGICAL_REQUEST

_REMEMBERED: Final = 4096

Kept = TypeVar("Kept")
Details = Mapping[str, Any]


def logger(custody: Custody | None = None, *, run: Run | None = None, **settings: Any) -> Any:
    """Make a `CustomLogger`; settings are LiteLLM's own (`turn_off_message_logging`).

    A call belongs to the run that was current when it began, else to `metadata={"custody_run": id}` of the call, for
    which `custody` is asked, else to `run`; without any it is not observed.
    """
    from litellm.integrations.custom_logger import CustomLogger  # noqa: PLC0415 - only who uses it has it

    watching = Watching(custody, run)

    class CustodyLogger(CustomLogger):  # type: ignore[misc] # where LiteLLM is not installed, its class is Any
        def log_pre_api_call(self, model: str, messages: Any, kwargs: Details) -> None:  # noqa: ARG002 - its form
            watching.began(kwargs)

        def log_success_event(self, kwargs: Details, *_: Any, **__: Any) -> None:
            watching.ended(kwargs)

        def log_failure_event(self, kwargs: Details, *_: Any, **__: Any) -> None:
            watching.ended(kwargs)

        async def async_log_success_event(self, kwargs: Details, *_: Any, **__: Any) -> None:
            watching.ended(kwargs)

        async def async_log_failure_event(self, kwargs: Details, *_: Any, **__: Any) -> None:
            watching.ended(kwargs)

    return CustodyLogger(**settings)


class Watching:
    """What is kept between the beginning of a call and the end of it that LiteLLM tells of."""

    def __init__(self, custody: Custody | None, run: Run | None) -> None:
        self._custody, self._run = custody, run
        self._begun: Remembered[tuple[Run | None, Witness]] = Remembered()
        self._told: Remembered[None] = Remembered()
        self._failed: Remembered[Exchange] = Remembered()

    def began(self, details: Details) -> None:
        """Remember the run: when the end is told of, its context may be gone."""
        with harmless("litellm"):
            self._begun.put(str(details.get("litellm_call_id")), (current_run(), witness()))

    def ended(self, details: Details) -> None:
        """Capture a call that has ended, unless it was told of before or was captured nearer to the wire."""
        with harmless("litellm"):
            payload = details.get("standard_logging_object")
            if not isinstance(payload, Mapping) or payload.get("call_type") not in litellm_content.APIS:
                return
            call_id = payload.get("litellm_call_id")
            if not self._told.new((call_id, payload.get("id"), payload.get("status")), None):
                return
            run, standing = self._begun.take(str(call_id)) or (None, None)
            run = run or self._run_of(details)
            if run is not None and not _seen_elsewhere(run, payload, standing):
                self._observe(run, details, payload)

    def _observe(self, run: Run, details: Details, payload: Details) -> None:
        attempt = self._exchange(run, details, payload).attempt()
        if run.admits(LOGICAL_REQUEST) and litellm_content.redacted(payload):
            attempt.capture_request(_kept_from_us, vantage="gateway")
            attempt.capture_output(_kept_from_us, vantage="gateway")
        else:
            attempt.capture_request(lambda: litellm_content.request(payload), vantage="gateway")
            attempt.capture_output(Late(lambda: litellm_content.output(payload)), vantage="gateway")
        _settle(attempt, payload)

    def _run_of(self, details: Details) -> Run | None:
        if (run := current_run()) is not None:
            return run
        named = _metadata(details).get("custody_run")
        return self._custody.run(str(named)) if named and self._custody is not None else self._run

    def _exchange(self, run: Run, details: Details, payload: Details) -> Exchange:
        """Find the exchange of which this is another try: LiteLLM's router counts the tries of one trace."""
        metadata = _metadata(details)
        tries = int(metadata.get("attempted_retries") or 0) + int(metadata.get("attempted_fallbacks") or 0)
        trace = payload.get("trace_id")
        exchange = self._failed.take((run.run_id, trace, tries)) if tries else None
        exchange = exchange or run.exchange()
        if payload.get("status") == "failure":
            self._failed.put((run.run_id, trace, tries + 1), exchange)
        return exchange


class Remembered(Generic[Kept]):
    """The last few thousand of something, by key."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Kept] = OrderedDict()
        self._lock = Lock()

    def put(self, key: object, value: Kept) -> None:
        """Keep a value."""
        self.new(key, value)

    def new(self, key: object, value: Kept) -> bool:
        """Keep a value, and say whether there was none."""
        with self._lock:
            is_new = key not in self._kept
            self._kept[key] = value
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
        return is_new

    def take(self, key: object) -> Kept | None:
        """Return a value and forget it."""
        with self._lock:
            return self._kept.pop(key, None)


def _metadata(details: Details) -> Details:
    found = (details.get("litellm_params") or {}).get("metadata")
    return found if isinstance(found, Mapping) else {}


def _seen_elsewhere(run: Run, payload: Details, standing: Witness | None) -> bool:
    """Whether an adapter nearer to the wire has the call: of one that failed there is no answer to know it by."""
    if payload.get("status") == "failure":
        return standing is not None and standing.saw
    # What LiteLLM's cache answers has the id of the answer that it keeps, and went over no wire.
    return not payload.get("cache_hit") and seen(run, str(payload.get("id")), "litellm")


def _kept_from_us() -> object:
    """Stand for content that LiteLLM keeps from its loggers: there was some, and it becomes a gap."""
    raise NotObserved


def _settle(attempt: Attempt, payload: Details) -> None:
    succeeded = payload.get("status") == "success"
    if payload.get("cache_hit"):
        # LiteLLM's own cache answered: there was no call.
        attempt.not_dispatched()
    elif succeeded:
        attempt.dispatched()
    attempt.settled("completed" if succeeded else "failed")
    response_id = payload.get("id") if succeeded else None
    attempt.refer(
        trace=_reference(payload.get("trace_id")),
        response=_reference(response_id),
        request=_reference(payload.get("litellm_call_id")),
    )


def _reference(given: object) -> str | None:
    return str(given) if given else None
