"""The closed words of intake: where calls come from, what bounds a piece of them, and why they are refused."""

from enum import StrEnum


class Source(StrEnum):
    """Where an action was read."""

    NATIVE = "native"
    PLAN = "plan"
    MARKUP = "markup"


class Dialect(StrEnum):
    """How models spell calls out in text. None is read unless the caller permits it."""

    DSML = "dsml"
    DEEPSEEK = "deepseek"  # the older marks of R1 and V3
    HERMES = "hermes"  # JSON in <tool_call>, Qwen 2.5 and 3 too
    QWEN_XML = "qwen-xml"  # <function=…><parameter=…>, with or without <tool_call>
    MISTRAL = "mistral"
    LLAMA = "llama"
    KIMI = "kimi"
    JSON_BLOCK = "json-block"  # the whole text is one ```json block that is a plan


class Truncated(StrEnum):
    """What to do with JSON that was cut. Never applied to markup, which is whole or refused."""

    REFUSE = "refuse"
    SALVAGE = "salvage"  # the leading actions that were closed before the cut, marked so


class Boundary(StrEnum):
    """Within what something was found wrong."""

    ANSWER = "answer"
    STREAM = "stream"
    TEXT = "text"
    PLAN = "plan"
    BLOCK = "block"
    CALL = "call"
    ARGUMENTS = "arguments"
    PARAMETER = "parameter"


class Why(StrEnum):
    """Why nothing was made of what came. None of these says anything about an execution: there was none."""

    # Bounds.
    TOO_MANY_BYTES = "too_many_bytes"
    TOO_MANY_ACTIONS = "too_many_actions"
    TOO_DEEP = "too_deep"
    PARAMETER_TOO_LONG = "parameter_too_long"
    NAME_TOO_LONG = "name_too_long"
    # Text and JSON.
    NOT_UTF8 = "not_utf8"
    BYTE_ORDER_MARK = "byte_order_mark"
    LONE_SURROGATE = "lone_surrogate"
    NOT_JSON = "not_json"
    CUT = "cut"  # the text, the arguments or the stream ended before they were whole
    DUPLICATE_KEY = "duplicate_key"
    NOT_A_NUMBER = "not_a_number"  # NaN and infinities, which JSON has not
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    NOT_AN_OBJECT = "not_an_object"
    WRONG_TYPE = "wrong_type"
    # Calls.
    NAME_MISSING = "name_missing"
    NAME_CHANGED = "name_changed"
    ARGUMENTS_MISSING = "arguments_missing"
    ARGUMENTS_CONFLICT = "arguments_conflict"  # given twice, under two names or with two contents
    PARAMETER_REPEATED = "parameter_repeated"
    ID_MISSING = "id_missing"
    ID_NULL = "id_null"
    ID_EMPTY = "id_empty"
    ID_IS_THE_TEXT_NULL = "id_is_the_text_null"
    ID_CHANGED = "id_changed"
    ID_REPEATED = "id_repeated"
    INDEX_REUSED = "index_reused"
    PARTIAL_ARGUMENTS = "partial_arguments"  # values by their paths, which nobody puts together here
    # Markup.
    UNCLOSED = "unclosed"
    UNOPENED = "unopened"
    UNKNOWN_NESTING = "unknown_nesting"
    UNKNOWN_MARK = "unknown_mark"
    UNEXPECTED_TEXT = "unexpected_text"
    EMPTY = "empty"
    AMBIGUOUS = "ambiguous"
    NOT_PERMITTED = "not_permitted"
    # Answers.
    ANSWER_FAILED = "answer_failed"
    ANSWER_FILTERED = "answer_filtered"
    ANSWER_REFUSED = "answer_refused"  # by the model, whatever it asks for beside that
    NOT_RECORDED_WHOLE = "not_recorded_whole"
    UNKNOWN_SHAPE = "unknown_shape"
    UNKNOWN_API = "unknown_api"
