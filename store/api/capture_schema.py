"""What the OpenAPI document says of runtimes' calls beyond what the framework knows of them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from store.api.schema import answer
from store.services import facts
from store.services.said import MAX_SOURCES

_RECEIPT: Final[Mapping[str, Any]] = {
    "application/json": {"schema": {"$ref": "#/components/schemas/ReceiptView"}},
}


def _header(
    name: str, description: str, *, required: bool = False, form: str = "string"
) -> Mapping[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": form},
    }


def _fact_forms() -> list[dict[str, Any]]:
    """Return the forms of facts as this document writes them: whole, without names of their own."""
    _, named = msgspec.json.schema_components([facts.Fact], ref_template="{name}")
    return [_inlined(named[form.__name__], named) for form in facts.FORMS]


def _inlined(form: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(form, list):
        return [_inlined(each, named) for each in form]
    if isinstance(form, str):
        # What Python calls the end of a text, JSON Schema's patterns call so.
        return form.replace("\\Z", "$")
    if not isinstance(form, dict):
        return form
    if "$ref" in form:
        return _inlined(named[form["$ref"]], named)
    return {name: _inlined(each, named) for name, each in form.items()}


_TICKET: Final = _header("Custody-Ticket", "The ticket of the run's declaration", required=True)
_SESSION: Final = _header("Custody-Session", "The sender within the run; new after a fork")

PUT_PART: Final[Mapping[str, Any]] = {
    "parameters": [
        _TICKET,
        _SESSION,
        _header("Custody-Sequence", "The observation's number within its session, from 1", form="integer"),
        _header("Content-Digest", "sha-256 of the body (RFC 9530); checked and dropped"),
        _header("Custody-Sources", f'At most {MAX_SOURCES} sources as a structured-field list: "doc-7";v=3'),
        _header("Custody-Completeness", "complete, truncated, interrupted or unknown"),
        _header("Custody-Captured-At", "The caller's own time, RFC 3339; shown, and decides nothing"),
        _header("Custody-Vantage", "sdk, gateway or wire"),
        _header("Custody-Dispatch", "unknown, dispatched or not_dispatched"),
        _header("Custody-Settlement", "unknown, completed, failed or cancelled"),
        _header("Custody-Content", "allow; anything else opts this part out"),
        _header("Prefer", "wait=n waits for the commit, at most a few seconds (RFC 7240)"),
    ],
    "requestBody": {
        "required": True,
        "description": "The exact bytes of the part; what is read back is byte for byte what was posted",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    },
    "responses": {
        "200": {
            "description": "The same identity with the same bytes: the first receipt again",
            "content": _RECEIPT,
        },
        "201": {"description": "Committed while the caller waited", "content": _RECEIPT},
        "202": {
            "description": "A bounded copy waits to be written: queued is not stored",
            "content": _RECEIPT,
        },
    },
}

POST_FRAMES: Final[Mapping[str, Any]] = {
    "parameters": [
        _TICKET,
        _SESSION,
        _header(
            "Custody-Sequences",
            "The numbers in this flush, as ranges: recorded as a gap if it is refused unread",
        ),
        _header("Custody-Content", "allow; anything else opts the whole flush out"),
    ],
    "responses": {
        "202": {
            "description": "One answer a frame, in order: a receipt for a part, else whether it is recorded",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["receipts"],
                        "properties": {
                            "receipts": {
                                "type": "array",
                                "items": {
                                    "oneOf": [
                                        {"$ref": "#/components/schemas/ReceiptView"},
                                        {"$ref": "#/components/schemas/NoteView"},
                                    ]
                                },
                            }
                        },
                    }
                }
            },
        },
    },
    "requestBody": {
        "required": True,
        "description": (
            "An array of frames [type, header map, bytes?]. part (has bytes): exchange, attempt, kind, sequence, "
            "session, content, content-type, content-digest, sources ([[id, version or null]]), completeness, "
            "captured-at, vantage, dispatch, settlement; state: exchange, attempt, dispatch, settlement, refs; "
            "gap: session, sequences, reason"
        ),
        "content": {"application/msgpack": {"schema": {"type": "string", "format": "binary"}}},
    },
}

PUT_ATTEMPT: Final[Mapping[str, Any]] = {
    "parameters": [_TICKET],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "dispatch": {"enum": ["unknown", "dispatched", "not_dispatched"]},
                        "settlement": {"enum": ["unknown", "completed", "failed", "cancelled"]},
                        "refs": {
                            "type": "array",
                            "maxItems": 4,
                            "items": {"type": "string", "minLength": 1, "maxLength": 200},
                        },
                    },
                }
            }
        },
    },
}

POST_GAPS: Final[Mapping[str, Any]] = {
    "parameters": [_header("Custody-Ticket", "A ticket of the run, of whatever age")],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["gaps"],
                    "additionalProperties": False,
                    "properties": {
                        "gaps": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["session", "sequences", "reason"],
                                "properties": {
                                    "session": {"type": "string"},
                                    "sequences": {"type": "string", "examples": ["1-3,7"]},
                                    "reason": {"type": "string", "examples": ["client_queue_full"]},
                                },
                            },
                        }
                    },
                }
            }
        },
    },
}

POST_FACTS: Final[Mapping[str, Any]] = {
    "parameters": [_TICKET],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["facts"],
                    "additionalProperties": False,
                    "properties": {
                        "facts": {
                            "type": "array",
                            "maxItems": facts.MOST_AT_ONCE,
                            "items": {"oneOf": _fact_forms()},
                        }
                    },
                }
            }
        },
    },
}

_AT_WRITE: Final = "Taken, while Redis is away: a narrowing holds at the write"

DECLARE_RUN: Final[Mapping[str, Any]] = {
    "responses": {
        "200": answer("Declared before; what holds now", "RunAdmission"),
        "201": answer("Declared for the first time", "RunAdmission"),
        "202": answer(_AT_WRITE, "RunAdmission"),
    }
}
CLOSE_RUN: Final[Mapping[str, Any]] = {"responses": {"202": answer(_AT_WRITE, "RunStanding")}}
