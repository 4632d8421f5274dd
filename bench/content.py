"""Contents as model calls have them: JSON of messages, tool schemas and answers, never the same twice.

Sizes follow what recorded calls showed: median 0.7 KB, mean 4.9 KB. The text is drawn from words whose frequency falls
as it does in prose, and long contents repeat themselves as long prompts do (tool after tool, turn after turn), so that
zstd finds what it would find in real ones.
"""

import base64
import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

MEDIAN_BYTES: Final = 700
# exp(sigma² / 2) times the median is the mean; cutting off at the largest part takes about a tenth of it.
SIGMA: Final = 2.05
LEAST_BYTES: Final = 120
MOST_BYTES: Final = 256 * 1024

_WORDS: Final = 4_000
_PROSE_WORDS: Final = 120_000
_SYLLABLES: Final = (
    "an ter con re in de pro al tion ed er ing com ver sta per ma ti men or li co ro ne di la un ex"
)


class Contents:
    """An endless supply of contents; two of them with the same seed give the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._made = 0
        vocabulary = _vocabulary(self._random)
        self._names = ["_".join(self._random.sample(vocabulary, 2)) for _ in range(500)]
        self._prose = _prose(self._random, vocabulary)

    def some(self, count: int) -> list[bytes]:
        """Return that many contents, of the sizes that recorded calls have."""
        return [self.one(self._size()) for _ in range(count)]

    def one(self, size: int) -> bytes:
        """Return one content of exactly that size."""
        self._made += 1
        head = (
            f'{{"id":"call-{self._made:x}-{self._random.getrandbits(48):012x}","model":"large-3","messages":['
        )
        pieces = [head]
        length = len(head)
        while length < size:
            piece = self._turn() if self._random.random() < 0.7 else self._tool()
            pieces.append(piece)
            length += len(piece)
        return "".join(pieces)[: size - 2].encode() + b"]}"

    def _size(self) -> int:
        size = math.exp(self._random.gauss(math.log(MEDIAN_BYTES), SIGMA))
        return int(min(max(size, LEAST_BYTES), MOST_BYTES))

    def _turn(self) -> str:
        role = "user" if self._random.random() < 0.5 else "assistant"
        said = self._text(self._random.randint(60, 600))
        # A turn quotes what was said before, as tool results and corrections do.
        quoted = f"{said}\\n\\n> {said[: len(said) * 3 // 4]}" if self._random.random() < 0.3 else said
        return f'{{"role":"{role}","content":[{{"type":"text","text":"{quoted}"}}]}},'

    def _tool(self) -> str:
        fields = ",".join(
            f'"{name}":{{"type":"string","description":"The {name} of the {name}, as a string"}}'
            for name in self._random.choices(self._names, k=4)
        )
        name = self._random.choice(self._names)
        return (
            f'{{"type":"function","function":{{"name":"{name}","description":"{self._text(80)}","strict":true,'
            f'"parameters":{{"type":"object","additionalProperties":false,"properties":{{{fields}}}}}}}}},'
        )

    def _text(self, length: int) -> str:
        at = self._random.randrange(len(self._prose) - length)
        return self._prose[at : at + length]


class Corpus:
    """The contents of a file of recorded calls; once all were given, they come again with a number behind each."""

    def __init__(self, path: Path) -> None:
        self._all = list(_recorded(path))
        self._given = 0

    def some(self, count: int) -> list[bytes]:
        """Return that many contents."""
        return [self._next() for _ in range(count)]

    def one(self, size: int) -> bytes:
        """Return one content of exactly that size, made of as many recorded ones as it takes."""
        text = b""
        while len(text) < size:
            text += self._next()
        return text[:size]

    def _next(self) -> bytes:
        again, at = divmod(self._given, len(self._all))
        self._given += 1
        return self._all[at] + (b"" if again == 0 else b"\n%d" % again)


Supply = Contents | Corpus


def supply(corpus: Path | None, seed: int) -> Supply:
    """Return recorded contents where a file is given, else made ones."""
    return Contents(seed) if corpus is None else Corpus(corpus)


def slices(contents: Supply, count: int, size: int = 4096) -> list[bytes]:
    """Return contents cut, and put together, into slices of one size."""
    text = bytearray()
    while len(text) < count * size:
        text += b"".join(contents.some(256))
    return [bytes(text[at * size : (at + 1) * size]) for at in range(count)]


def _vocabulary(random: Random) -> list[str]:
    return ["".join(random.choices(_SYLLABLES.split(), k=random.randint(1, 4))) for _ in range(_WORDS)]


def _prose(random: Random, vocabulary: Sequence[str]) -> str:
    weights = [1 / (rank + 3) for rank in range(len(vocabulary))]
    words = random.choices(vocabulary, weights, k=_PROSE_WORDS)
    return " ".join(f"{word}." if random.random() < 0.08 else word for word in words)


def _recorded(path: Path) -> Iterator[bytes]:
    """Yield requests and answers of a gzipped JSON-lines file; those above the largest part are left out."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            call = json.loads(line)
            for content in (_bytes(call["request"]), _bytes(call["response"])):
                if 0 < len(content) < MOST_BYTES - 16:
                    yield content


def _bytes(body: dict[str, Any]) -> bytes:
    if "base64" in body:
        return base64.b64decode(body["base64"])
    text: str = body["text"]
    return text.encode()
