"""The assembler: takes a model's answer in pieces of any cut, and gives it as `observable-output/1`."""

import msgspec

from custody_client.streams.limits import DEFAULT, Limits
from custody_client.streams.output import LimitsMet, Output, Route, State, Stream, Usage, Vantage


class Assembler:
    """One answer. `feed`, `event` and `answer` never raise, and hold no more than `limits` allows."""

    def __init__(
        self,
        api: str,
        *,
        provider: str = "",
        host: str = "",
        vantage: Vantage = "sdk",
        streamed: bool = True,
        limits: Limits = DEFAULT,
    ) -> None:
        self._api, self._provider, self._host = api, provider, host
        self._vantage, self._streamed, self._limits = vantage, streamed, limits

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream as they came: SSE, NDJSON or Amazon's binary event stream, cut anywhere."""

    def event(self, event: object) -> None:
        """Take one event that an SDK has decoded already: a mapping, or an object with `model_dump`."""

    def answer(self, body: object) -> None:
        """Take a whole answer that did not stream: bytes, a mapping, or an object with `model_dump`."""

    def cancelled(self) -> None:
        """Say that the consumer stopped reading before the end."""

    def failed(self, kind: str) -> None:
        """Say that the transport failed; `kind` is the name of the error's class, nothing else."""

    @property
    def state(self) -> State:
        """How far the answer came."""
        return "interrupted"

    @property
    def completeness(self) -> str:
        """The same in the words of parts: `complete`, `truncated`, `interrupted` or `unknown`."""
        return "unknown"

    @property
    def response_id(self) -> str | None:
        """The provider's id of this answer, once it was seen."""
        return None

    def output(self) -> Output:
        """Give what was seen so far."""
        return Output(
            vantage=self._vantage,
            provider=self._provider,
            route=Route(self._host, self._api),
            response_id=None,
            model=None,
            choices=[],
            stream=Stream(self._streamed, self.state, 0, None, None),
            usage=Usage(),
            markup=[],
            limits=LimitsMet(),
            notes=[],
        )

    def encode(self) -> bytes:
        """Give the output as JSON."""
        return msgspec.json.encode(self.output())
