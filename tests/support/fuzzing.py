"""Inputs that nobody would write by hand: values, texts, headers, paths, and bytes that were damaged on the way."""

import string
from typing import Any, Final
from urllib.parse import quote

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.answers import CANARY

# Examples share one server, which is what is looked at: it must stand all of them.
_SHARED: Final = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)

# A few seconds each, so that they run with every change; and bounded ones that look longer.
SMOKE: Final = settings(max_examples=30, suppress_health_check=_SHARED)
LONG: Final = settings(max_examples=600, suppress_health_check=_SHARED)

WHOLE: Final = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1]),
)
AWKWARD: Final = st.sampled_from(
    [
        "", " ", "\x00", "\x1b[31m", "\u202e", "\ufeff", "\U0001f600", "null", "None", "true", "-0", "1e400", "NaN",
        "..", ".", "a/b", "%00", "a" * 129, "é" * 64, "'; DROP TABLE parts; --", "{{7*7}}", "$ref", "__proto__",
        "9" * 40, "0" * 40 + "1", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59.999999-23:59", "36525d", "0s",
        "1" * 12 + "d",
    ]
)  # fmt: skip
# Every text of ours is marked, so that an echo is seen.
TEXTS: Final = st.one_of(
    AWKWARD, st.just(CANARY), st.text(max_size=20).map(lambda text: text + CANARY), st.text(max_size=200)
)


def nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str] = TEXTS) -> st.SearchStrategy[Any]:
    """Values in lists and maps of values."""
    return st.recursive(
        leaves,
        lambda some: st.lists(some, max_size=4) | st.dictionaries(keys, some, max_size=4),
        max_leaves=12,
    )


JSON_VALUES: Final = nested(
    st.one_of(st.none(), st.booleans(), WHOLE, st.floats(allow_nan=False, allow_infinity=False), TEXTS)
)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of which some were changed, lost, doubled or put in."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "cut", "lose", "double", "insert"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at:]
            case "lose":
                del data[at : at + draw(st.integers(1, 8))]
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 16))]
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=6))
    return bytes(data)


@st.composite
def tampered(draw: st.DrawFn, text: str) -> str:
    """A signed text that is not quite the one that we gave."""
    kind = draw(st.sampled_from(["flip", "cut", "grow", "case", "swap", "pad"]))
    at = draw(st.integers(0, len(text) - 1))
    match kind:
        case "flip":
            other = draw(st.sampled_from(string.ascii_letters + string.digits + "-_.=+/ é"))
            return text[:at] + other + text[at + 1 :]
        case "cut":
            return text[:at]
        case "grow":
            return text + draw(st.sampled_from(["A", "=", "==", "\n", " ", ".", "AAAA"]))
        case "case":
            return text[:at] + text[at:].swapcase()
        case "pad":
            return draw(st.sampled_from([" ", "=", "\t"])) + text
        case _:
            return text[:at] + text[at:][::-1]


SEGMENTS: Final = st.one_of(
    AWKWARD.map(lambda text: quote(text, safe="")),
    st.binary(min_size=1, max_size=6).map(lambda data: quote(data, safe="")),
    st.sampled_from(["logical-request", "observable-output", "x-1", "a-1", CANARY, "a" * 128, "a" * 5_000]),
)
PARAMETERS: Final = [
    "limit", "cursor", "order", "from", "to", "label", "run", "kind", "reason", "ref", "days", "evidence", "x",
]  # fmt: skip
QUERIES: Final = st.dictionaries(st.sampled_from(PARAMETERS), TEXTS, max_size=4)

# What may stand in a header's value at all: no controls but the tab, and bytes above ASCII.
FIELD_VALUES: Final = st.one_of(
    st.binary(max_size=40).map(lambda data: bytes(each for each in data if each == 9 or 32 <= each != 127)),
    st.sampled_from(
        [
            b"", b" ", b"\t", b"allow", b"opt_out", b"\xff\xfe", b"\xc3\xa9", b"1" * 5_000, b"0" * 4_999 + b"1",
            b"-1", b"1.5", b"?1", b":", b"::::", b'"', b"\\", b"x" * 4_000, CANARY.encode(),
            b"sha-256=:AAAA:", b"sha-256=:" + b"A" * 43 + b"=:", b"sha-256=@999999999999999", b"sha-256=(1 2)",
            b'sha-256=%"%ff"', b'"doc-7";v=3', b'"doc-7";v=99999999999', b'"doc-7";v=@1', b"doc-7;v",
            b"(a b);v=1", b'"a", ' * 40 + b'"a"', b'"a";' * 50, b"wait=9", b"wait=-1", b"wait=" + b"9" * 30,
            b"1-10", b"10-1", b"1-9007199254740992", b"1," * 70 + b"1", b"2026-01-01T00:00:00+99:99",
            b"0001-01-01T00:00:00+23:59", b"application/json; charset=\xff", b"text/html;" + b"a=b;" * 200,
            b"ct1.AAAA", b"Bearer",
        ]
    ),
)  # fmt: skip
