"""Whom the verifier believes: a text of `log <vkey>` and `bundle <vkey>`, with `#` before comments."""

from dataclasses import dataclass
from itertools import takewhile

from custody_client.verify.notes import Vkey


@dataclass(frozen=True, slots=True)
class Policy:
    """The key that signs the log's checkpoints, and the one that signs bundles."""

    log: Vkey
    bundle: Vkey

    @classmethod
    def parse(cls, data: bytes) -> "Policy":
        """Read a policy; ValueError unless it names exactly one key of each."""
        keys: dict[str, Vkey] = {}
        for number, line in enumerate(data.decode().splitlines(), 1):
            words = list(takewhile(lambda word: not word.startswith("#"), line.split()))
            if not words:
                continue
            if len(words) != 2 or words[0] not in ("log", "bundle"):  # noqa: PLR2004 - a word and its key
                raise ValueError(f"line {number} is neither `log <vkey>` nor `bundle <vkey>`")
            if words[0] in keys:
                raise ValueError(f"line {number} names a second key for `{words[0]}`")
            keys[words[0]] = Vkey.parse(words[1])
        if keys.keys() != {"log", "bundle"}:
            raise ValueError("it must name one `log` key and one `bundle` key")
        if keys["bundle"].name != f"{keys['log'].name}/bundle":
            raise ValueError("its bundle key is not the one of its log")
        return cls(**keys)
