"""The assembler: takes a model's answer in pieces of any cut, and gives it as `observable-output/1`."""

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from custody_client.streams import chat, converse, gemini, invoke, messages, ollama, responses
from custody_client.streams.build import Origin, built
from custody_client.streams.decoding import NOT_STRICT, decoded, leniently
from custody_client.streams.draft import Draft
from custody_client.streams.exact import exact, written
from custody_client.streams.frames import Frame, Frames
from custody_client.streams.items import unrecognised
from custody_client.streams.limits import DEFAULT, Limits
from custody_client.streams.lines import STRAY, Lines
from custody_client.streams.output import Output, Route, State, Stream, Unknown, Vantage
from custody_client.streams.plain import plain
from custody_client.streams.words import Budget, encoded


class Format(Protocol):
    """A wire format: both tell whether they know the shape of what they were given."""

    @staticmethod
    def take(draft: Draft, event: dict[str, Any]) -> bool:
        """Take one event of a stream."""

    @staticmethod
    def take_whole(draft: Draft, body: dict[str, Any]) -> bool:
        """Take an answer that did not stream."""


_FORMATS: Final[dict[str, Any]] = {
    "chat.completions": chat,
    "responses": responses,
    "anthropic.messages": messages,
    "gemini": gemini,
    "bedrock.converse": converse,
    "bedrock.invoke": invoke,
    "ollama.chat": ollama,
}
_STREAMS: Final = (b"data:", b"event:", b": ", b"\x00")
_DONE: Final = b"[DONE]"


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
        self._origin = Origin(vantage, provider, Route(host, api))
        self._streamed, self._limits = streamed, limits
        self._format: Format | None = _FORMATS.get(api)
        self._draft = Draft(limits)
        self._lines: Lines | None = None
        self._frames: Frames | None = None
        self._recognised = self._whole = self._cancelled = False

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream as they came: SSE, NDJSON or Amazon's binary event stream, cut anywhere."""
        try:
            self._feed(bytes(data))
        except Exception as error:  # noqa: BLE001 -- an observer must not break the stream it observes
            self._broke(error)

    def event(self, event: object) -> None:
        """Take one event that an SDK has decoded already: a mapping, or an object with `model_dump`."""
        self._guarded(self._event, event)

    def answer(self, body: object) -> None:
        """Take a whole answer that did not stream: bytes, a mapping, or an object with `model_dump`."""
        self._guarded(self._answer, body)

    def cancelled(self) -> None:
        """Say that the consumer stopped reading before the end."""
        self._cancelled = True

    def failed(self, kind: str) -> None:
        """Say that the transport failed; `kind` is the name of the error's class, nothing else."""
        self._draft.fails(kind, None, source="transport")

    @property
    def state(self) -> State:
        """How far the answer came."""
        self._guarded(self._end)
        draft = self._draft
        if draft.error is not None and draft.error.source == "stream":
            return "error"
        if self._whole or draft.terminal is not None:
            return "completed"
        if draft.finished:
            return "finished-no-terminal"
        return "cancelled" if self._cancelled else "interrupted"

    @property
    def completeness(self) -> str:
        """The same in the words of parts: `complete`, `truncated`, `interrupted` or `unknown`."""
        state = self.state
        if self._draft.budget.overdrawn:
            return "truncated"
        if state == "completed" or self._whole:
            return "complete"
        return "unknown" if state == "finished-no-terminal" else "interrupted"

    @property
    def response_id(self) -> str | None:
        """The provider's id of this answer, once it was seen."""
        return self._draft.response_id

    def output(self) -> Output:
        """Give what was seen so far."""
        state, draft = self.state, self._draft
        unknown = draft.unknowns() or self._remnant()
        return built(
            draft,
            origin=self._origin,
            stream=Stream(self._streamed, state, draft.seq, draft.terminal, draft.error),
            dropped_events=self._dropped(),
            remarks=self._remarks(state),
            unknown=unknown,
            shape=UNSET if self._recognised or unknown is None else "unrecognised",
        )

    def encode(self) -> bytes:
        """Give the output as JSON."""
        output = self.output()
        try:
            return msgspec.json.encode(output)
        except UnicodeEncodeError:
            # Half of a surrogate pair has no UTF-8, but JSON has an escape for it.
            return json.dumps(msgspec.to_builtins(output, enc_hook=_unraw), separators=(",", ":")).encode()

    def _feed(self, data: bytes) -> None:
        if self._lines is None and self._frames is None:
            if not data:
                return
            # A frame begins with its length, which is below 2^24; no text begins with a zero.
            if data[0] == 0:
                self._frames = Frames(self._limits.event_bytes)
            else:
                self._lines = Lines(self._limits.event_bytes)
        if self._lines is not None:
            for name, event in self._lines.feed(data):
                self._text(name, event)
        elif self._frames is not None:
            for frame in self._frames.feed(data):
                self._frame(frame)

    def _text(self, name: str | None, data: bytes) -> None:
        """Take the data of one event in text."""
        if data == _DONE or (data[:1] != b"{" and data.strip() == _DONE):
            self._draft.terminal = "[DONE]"
            return
        value = self._decoded(data)
        if type(value) is dict:
            self._take(name, value, data)
        elif isinstance(value, list) and value:
            for at, element in enumerate(value):
                self._take(name, element, exact(data, (at,), element))
        elif data and (name != STRAY or value is None):
            self._unknown(name, data)

    def _frame(self, frame: Frame) -> None:
        """Take one frame of the binary stream; its headers name the event."""
        draft, headers, payload = self._draft, frame.headers, frame.payload
        kind = (
            headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code") or ""
        )
        value = self._decoded(payload)
        if headers.get(":message-type") in {"exception", "error"}:
            converse.fails(draft, kind, value if value is not None else headers.get(":error-message"))
            self._recognised = True
            draft.seq += 1
            return
        inner = invoke.unpacked(value) if kind == "chunk" else None
        if inner is not None:
            self._text(None, inner)
        elif isinstance(value, dict):
            self._take(kind, {kind: value}, b'{"%s":%s}' % (kind.encode(), payload))
        else:
            self._unknown(kind, payload)

    def _event(self, event: object) -> None:
        if isinstance(event, bytes | bytearray | memoryview):
            self._text(None, bytes(event))
        elif isinstance(event, str):
            self._text(None, encoded(event))
        else:
            value = plain(event)
            inner = invoke.unpacked(value.get("chunk")) if isinstance(value, dict) else None
            if inner is not None:
                self._text(None, inner)
            else:
                self._take(None, value, None)

    def _take(self, name: str | None, value: Any, data: bytes | None) -> None:
        draft = self._draft
        draft.data = data
        if self._format is not None and type(value) is dict and self._format.take(draft, value):
            self._recognised = True
            draft.seq += 1
            return
        if name is None and isinstance(value, dict) and isinstance(value.get("type"), str):
            name = value["type"]
        if name == "error" and isinstance(value, dict):
            draft.fails("error", value.get("message"), value.get("code"))
        self._unknown(name, data if data is not None else written(value))

    def _decoded(self, data: bytes) -> Any:
        value = decoded(data)
        if value is not NOT_STRICT:
            return value
        value = leniently(data)
        if value is not None:
            self._draft.note("json-not-strict")
        return value

    def _unknown(self, name: str | None, data: bytes) -> None:
        self._draft.keep(None if name == STRAY else name, data)
        self._draft.seq += 1

    def _answer(self, body: object) -> None:
        data = bytes(body) if isinstance(body, bytes | bytearray | memoryview) else None
        if data is not None and data.startswith(_STREAMS):
            self._feed(data)  # a stream after all, read to its end by somebody else
            return
        self._whole = True
        value = plain(body) if data is None else self._decoded(data)
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for at, one in enumerate(value):  # a stream of Gemini's that was not asked for events
                self._take(None, one, None if data is None else exact(data, (at,), one))
            return
        draft = self._draft
        draft.data = data
        if self._format is not None and type(value) is dict and self._format.take_whole(draft, value):
            self._recognised = True
            draft.seq += 1
        else:
            draft.keep_answer(data if data is not None else written(value))

    def _end(self) -> None:
        """Take the last event, if all of it but its end came."""
        if self._lines is None:
            return
        last = self._lines.unfinished()
        if last is not None and (last[1].strip() == _DONE or isinstance(leniently(last[1]), dict | list)):
            self._lines.forget()
            self._text(*last)

    def _remarks(self, state: State) -> list[str]:
        """Say what can be said only at the end."""
        draft, frames = self._draft, self._frames
        said = {
            "ends-within-an-event": bool(self._rest()),
            "frames-damaged": frames is not None and (frames.lost or frames.damaged > 0),
            "finish-missing": state == "completed" and bool(draft.choices) and not draft.finished,
            "closed-by-consumer": self._cancelled and state != "cancelled",
        }
        return [remark for remark, holds in said.items() if holds]

    def _remnant(self) -> Unknown | None:
        """Give the beginning of an event as it came, where nothing else came."""
        rest, kept = self._rest(), self._limits.raw_bytes
        if self._recognised or not rest:
            return None
        return Unknown(1, [unrecognised(None, rest, kept, Budget(kept), self._draft.seq)])

    def _rest(self) -> bytes:
        reader = self._lines or self._frames
        return b"" if reader is None else reader.rest().strip()

    def _dropped(self) -> int:
        reader = self._lines or self._frames
        return 0 if reader is None else reader.dropped

    def _guarded(self, step: Callable[..., None], *arguments: object) -> None:
        try:
            step(*arguments)
        except Exception as error:  # noqa: BLE001 -- an observer must not break the stream it observes
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """Go on with what is there; the event that could not be assembled is kept as it came."""
        draft = self._draft
        draft.note(f"assembly-failed:{type(error).__name__}")
        if draft.data is not None:
            draft.keep("assembly-failed", draft.data)
        draft.seq += 1


def _unraw(value: object) -> Any:
    return json.loads(bytes(value)) if isinstance(value, Raw) else str(value)
