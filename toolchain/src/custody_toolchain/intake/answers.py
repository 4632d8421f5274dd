"""Model answers become actions: whole ones, streams chunk by chunk, and those that were recorded already."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from custody_toolchain.intake import outputs
from custody_toolchain.intake.bounds import DEFAULT, Limits, text_of, within_envelope
from custody_toolchain.intake.deciding import Options, decided, refused
from custody_toolchain.intake.draft import AnswerDraft
from custody_toolchain.intake.exact_json import check_nesting, value_of
from custody_toolchain.intake.native import ADAPTERS, Adapter
from custody_toolchain.intake.reading import Types
from custody_toolchain.intake.results import Refused, Result
from custody_toolchain.intake.words import Boundary, Dialect, Truncated, Why

_DONE: Final = "[DONE]"


def permitting(
    *,
    dialects: Collection[Dialect] = (),
    types: Types | None = None,
    alone: bool = False,
    truncated: Truncated = Truncated.REFUSE,
    choice: int = 0,
    limits: Limits = DEFAULT,
    echo: Collection[str] = (),
) -> Options:
    """Return what is permitted when an answer is read.

    `dialects` are those that may stand in its text: none, unless they are named. `types` says for dialects without
    types which parameters of which tool are `json`; all others are `text`. With `alone`, a batch in a text must be all
    of it. `choice` is the answer that counts where there are several. `echo` are names that a refusal may repeat.
    """
    return Options(
        dialects=frozenset(dialects),
        types=types or {},
        alone=alone,
        truncated=truncated,
        choice=choice,
        limits=limits,
        echo=frozenset(echo),
    )


def read_answer(api: str, body: object, options: Options | None = None) -> Result:
    """Read a whole answer: JSON, a mapping, or an object with `model_dump`. Whatever is wrong is in the result.

    `api` is one of chat.completions, responses, anthropic.messages, gemini, bedrock.converse, ollama.chat.
    """
    options = options or Options()
    try:
        adapter = _adapter(api)
        value = _mapped(body, options.limits)
    except Refused as why:
        return refused(why, options, body)
    draft = AnswerDraft(api, options.limits)
    _guarded(draft, adapter.whole, value)
    draft.state = "completed"
    return decided(draft, options, body)


def read_stream(
    api: str, chunks: Iterable[object], options: Options | None = None, *, ended: bool = False
) -> Result:
    """Read all chunks of a stream, as `StreamReader` does one after the other."""
    reader = StreamReader(api, options)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.end(ended=ended, response=chunks)


def read_output(output: object, options: Options | None = None) -> Result:
    """Read an answer that was recorded as `observable-output/1`: its JSON, or that decoded."""
    options = options or Options()
    try:
        draft = outputs.taken(_mapped(output, options.limits), options.limits)
    except Refused as why:
        return refused(why, options, output)
    return decided(draft, options, output)


class StreamReader:
    """Puts one stream together. `feed` never raises; what was wrong first is the refusal that `end` returns.

    Chunks are decoded events, their JSON, the text `[DONE]`, or objects with `model_dump`. No more than the limits
    allow is held, however much is fed.
    """

    def __init__(self, api: str, options: Options | None = None) -> None:
        self._options = options or Options()
        self._draft = AnswerDraft(api, self._options.limits)
        self._adapter: Adapter | None = None
        try:
            self._adapter = _adapter(api)
        except Refused as why:
            self._draft.refuse(why)

    def feed(self, chunk: object) -> None:
        """Take one chunk."""
        draft = self._draft
        if self._adapter is None:
            return
        if isinstance(chunk, str | bytes) and len(chunk) <= 2 * len(_DONE) and _is_done(chunk):
            draft.terminal = True
            return
        try:
            value = _mapped(chunk, self._options.limits)
        except Refused as why:
            draft.refuse(why.within(Boundary.STREAM))
        else:
            _guarded(draft, self._adapter.chunk, value)
        draft.chunk += 1

    def end(self, *, ended: bool = False, response: object = None) -> Result:
        """Return what became of it. `ended` says that the stream was seen to end by itself, where no chunk says so."""
        draft = self._draft
        finished = self._options.choice in draft.finishes
        whole = draft.terminal or ended
        draft.state = "completed" if whole else "finished-no-terminal" if finished else "interrupted"
        return decided(draft, self._options, response)


def _adapter(api: str) -> Adapter:
    found = ADAPTERS.get(api)
    if found is None:
        raise Refused(Why.UNKNOWN_API, Boundary.ANSWER)
    return found


def _guarded(
    draft: AnswerDraft, take: Callable[[AnswerDraft, Mapping[str, Any]], None], value: Mapping[str, Any]
) -> None:
    try:
        take(draft, value)
    except Refused as why:
        draft.refuse(why)


def _is_done(chunk: str | bytes) -> bool:
    text = chunk.decode("latin-1") if isinstance(chunk, bytes) else chunk
    return text.strip() == _DONE


def _mapped(given: object, limits: Limits) -> Mapping[str, Any]:
    """Return what was given as a mapping; Refused if it is none, or nested too deep."""
    deeper = within_envelope(limits)
    if isinstance(given, str | bytes):
        given = value_of(text_of(given, limits, Boundary.ANSWER), deeper)
    else:
        given = given if isinstance(given, Mapping) else _dumped(given)
        if isinstance(given, Mapping):
            check_nesting(dict(given), deeper)
    if not isinstance(given, Mapping):
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.ANSWER)
    return given


def _dumped(given: object) -> object:
    """Return what an SDK's object says on the wire."""
    dump = getattr(given, "model_dump", None)
    if not callable(dump):
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.ANSWER)
    try:
        return dump(mode="json", by_alias=True, exclude_unset=True)
    except Exception:  # noqa: BLE001 - whatever an SDK's object raises, it says nothing that could be read
        raise Refused(Why.UNKNOWN_SHAPE, Boundary.ANSWER) from None
