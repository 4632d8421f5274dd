"""What in a value cannot be written, and where: its type and a path, never a value.

Only names that providers' requests have stand in a path by themselves; other keys may be content, and stand as their
place among their siblings.
"""

import re
from collections.abc import Iterator
from itertools import islice
from math import isfinite
from typing import Any, Final

from custody_client.encoding import JSON

_MOST_NODES: Final = 20_000
_MOST_DEPTH: Final = 200
_MOST_CHARACTERS: Final = 200

_KNOWN: Final = frozenset(
    re.findall(
        r"\w+",
        """
        model messages role content text type tools tool_calls tool_choice tool_call_id function name arguments
        parameters input output instructions system contents parts config metadata options extra_body extra_headers
        temperature top_p top_k max_tokens stop seed n user stream response_format logit_bias image_url url data
        source id at created created_at timestamp index items choices message delta usage finish_reason schema
        properties description required safety_settings generation_config thinking reasoning prompt labels headers
        """,
    )
)
_LEAVES: Final = (str, bytes, bool, int, type(None))


def first_fault(content: Any) -> str:
    """Name the first thing in it that cannot be written as JSON, such as `socket at $.metadata.id`."""
    for value, path, above in _walk(content):
        fault = _fault(value, above)
        if fault:
            return f"{fault} at {path}"[:_MOST_CHARACTERS]
    return f"something within {_name(content)}"


def not_finite(plain: Any) -> bool:
    """Say whether there is a float in it that JSON cannot hold; `plain` holds only what JSON has, and no cycle."""
    if isinstance(plain, dict):
        return any(not_finite(each) for each in plain.values())
    if isinstance(plain, (list, tuple)):
        return any(not_finite(each) for each in plain)
    return isinstance(plain, float) and not isfinite(plain)


def _walk(content: Any) -> Iterator[tuple[Any, str, tuple[int, ...]]]:
    """Yield values with their paths and what they are within; bounded in number and depth."""
    stack: list[tuple[Any, str, tuple[int, ...]]] = [(content, "$", ())]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        value, path, above = stack.pop()
        yield value, path, above
        below = (*above, id(value))
        inner: list[tuple[Any, str, tuple[int, ...]]] = []
        if isinstance(value, dict):
            some = islice(value.items(), _MOST_NODES)
            inner = [(each, _step(path, key, at), below) for at, (key, each) in enumerate(some)]
        elif isinstance(value, (list, tuple)):
            inner = [(each, f"{path}[{at}]", below) for at, each in enumerate(islice(value, _MOST_NODES))]
        stack.extend(reversed(inner))


def _fault(value: Any, above: tuple[int, ...]) -> str:
    if id(value) in above:
        return f"{_name(value)} that holds itself"
    if len(above) > _MOST_DEPTH:
        return f"{_name(value)} too deep within"
    if isinstance(value, float):
        return "" if isfinite(value) else "float that is not finite"
    if isinstance(value, str) and _lone(value):
        return "str with a lone surrogate"
    if isinstance(value, (dict, list, tuple, *_LEAVES)) or _writable(value):
        return ""
    return _name(value)


def _step(path: str, key: Any, at: int) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key in _KNOWN else f"{path}.{{{at}}}"


def _name(value: Any) -> str:
    return type(value).__qualname__


def _lone(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _writable(value: Any) -> bool:
    try:
        JSON.encode(value)
    except Exception:  # noqa: BLE001 - whatever it raises, it cannot be written
        return False
    return True
