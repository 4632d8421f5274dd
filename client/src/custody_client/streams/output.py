"""The schema `observable-output/1`: what a caller could see of a model's answer, in one form for all providers."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

State = Literal["completed", "finished-no-terminal", "interrupted", "cancelled", "error"]
Vantage = Literal["sdk", "wire", "gateway"]
FinishClass = Literal["tool_call", "stop", "length", "content_filter", "refusal", "pause", "error", "unknown"]
# `text` is no JSON by itself: free input, or Gemini's values by path; `truncated` was too long, hence is not judged.
ArgumentsState = Literal["valid-json", "invalid-json", "incomplete", "empty", "object", "text", "truncated"]


class Cut(Struct, frozen=True):
    """What is known of a text of which only the beginning is kept: its whole length in UTF-8, and SHA-256 (hex)."""

    bytes: int
    sha256: str


class Fragment(Struct, frozen=True, omit_defaults=True, gc=False):
    """One piece of a call as it came: `n` characters (code points) of arguments in chunk `seq`.

    `n` is null where the arguments were null, and absent where the key was. `index`, `id` and `name` are there only
    where they were not what they should be: on a first fragment number, id and name, later the same index alone.
    What should have been there and was not is named by `missing`.
    """

    seq: int
    n: int | UnsetType | None = UNSET
    index: Any = UNSET
    id: Any = UNSET
    name: Any = UNSET
    missing: tuple[str, ...] = ()


class Arguments(Struct, frozen=True):
    """The arguments of a call: the exact concatenation of what was sent, never written anew."""

    raw: str
    state: ArgumentsState
    fragments: list[Fragment] = []
    cut: Cut | UnsetType = UNSET


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """What the model said."""

    text: str
    cut: Cut | UnsetType = UNSET
    opaque: dict[str, Any] | UnsetType = UNSET


class Reasoning(Struct, frozen=True, tag_field="type", tag="reasoning"):
    """What was shown of its thinking; signatures and encrypted forms are in `opaque`."""

    text: str
    form: Literal["text", "summary", "redacted", "encrypted"]
    opaque: dict[str, Any] = {}
    cut: Cut | UnsetType = UNSET


class Refusal(Struct, frozen=True, tag_field="type", tag="refusal"):
    """Words of refusal, where the provider keeps them apart from text."""

    text: str
    cut: Cut | UnsetType = UNSET


class ToolCall(Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A call that the model asks its caller to make; of origin `markup`: read out of text, where it still stands."""

    ordinal: int
    wire_index: int | None
    id: str | None
    item_id: str | None
    name: str | None
    arguments: Arguments
    origin: Literal["structured", "markup"] = "structured"
    opaque: dict[str, Any] = {}


class ServerTool(Struct, frozen=True, tag_field="type", tag="server_tool"):
    """A tool that the provider ran itself; of what it took and gave, only this is kept."""

    name: str | None
    status: str | None
    summary_only: bool = True
    id: str | UnsetType | None = UNSET
    arguments: Arguments | UnsetType = UNSET


class Media(Struct, frozen=True, tag_field="type", tag="media"):
    """A picture, sound or file in the answer: not kept, only named. `sha256` and `size` are of the text that came."""

    media_type: str | None
    size: int
    sha256: str
    media_omitted: bool = True


class Unrecognised(Struct, frozen=True, tag_field="type", tag="unrecognised"):
    """Something of a shape that nothing here knows, as it came: text, or base64 where it was not UTF-8."""

    name: str | None
    raw: str
    encoding: Literal["text", "base64"] = "text"
    seq: int | None = None
    cut: Cut | UnsetType = UNSET
    shape: Literal["unrecognised"] = "unrecognised"


Item = Text | Reasoning | Refusal | ToolCall | ServerTool | Media | Unrecognised


class Finish(Struct, frozen=True):
    """Why the model stopped: the provider's word, and the class in which we read it."""

    reason: str | None
    class_: FinishClass = field(name="class")
    details: dict[str, Any] | UnsetType = UNSET


class Choice(Struct, frozen=True):
    """One of the answers, its items in the order in which each first appeared; `facts` are the provider's remarks."""

    index: int
    role: str | None
    items: list[Item]
    finish: Finish | None
    facts: dict[str, Any] | UnsetType = UNSET


class StreamError(Struct, frozen=True):
    """What broke the stream: an error that the provider sent in it, or a failure of the transport."""

    source: Literal["stream", "transport"]
    kind: str | None
    message: str | None = None
    code: str | None = None


class Stream(Struct, frozen=True):
    """How the answer came; `chunks` counts events that can hold an answer (no pings, no `[DONE]`)."""

    streamed: bool
    state: State
    chunks: int
    terminal: str | None
    error: StreamError | None


class Usage(Struct, frozen=True):
    """Tokens as the provider counted them, in its own sense: nothing is added up, and unknown stays null.

    Anthropic's and Bedrock's `input` is without what was read from or written to a cache; Gemini's `output` is
    without reasoning.
    """

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    source: Literal["provider", "estimated", "none"] = "none"


class Markup(Struct, frozen=True, omit_defaults=True):
    """A call or thought spelled out in a text; offsets in characters (code points), `end` the text's if open."""

    dialect: str
    item: int
    start: int
    end: int
    complete: bool
    choice: int = 0


class LimitsMet(Struct, frozen=True):
    """What did not fit."""

    truncated: bool = False
    dropped_fragments: int = 0
    dropped_items: int = 0
    dropped_events: int = 0


class Route(Struct, frozen=True):
    """Where the call went, and the wire format in which it was read."""

    host: str
    api: str


class Unknown(Struct, frozen=True):
    """Events of types that nothing here knows: how many, and the first of them as they came."""

    count: int
    kept: list[Unrecognised]


class Output(Struct, frozen=True, tag_field="schema", tag="observable-output/1"):
    """An answer of a model as evidence. `shape` is there only where nothing in it was recognised."""

    vantage: Vantage
    provider: str
    route: Route
    response_id: str | None
    model: str | None
    choices: list[Choice]
    stream: Stream
    usage: Usage
    markup: list[Markup]
    limits: LimitsMet
    notes: list[str]
    facts: dict[str, Any] | UnsetType = UNSET
    unknown: Unknown | UnsetType = UNSET
    shape: Literal["unrecognised"] | UnsetType = UNSET
