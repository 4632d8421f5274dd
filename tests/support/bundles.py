"""Bundles made from the formats alone, by neither the store's code nor the verifier's: both are held against them.

bundle = bundles.small()                 # some of everything, its log, its keys
bundle.zipped()                          # as an export would be
files = bundle.files(); files["data/…"] = b"…"; bundle.zipped(seal(bundle, files))   # a lie with a true signature
"""

import hashlib
import hmac
import io
import json
import zipfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ORIGIN: Final = "evidence.example/log/eu-1"
EXPORT: Final = "0193f0c2b0007000800000000000eeee"
SCOPE: Final = "01" * 16
BUCKET: Final = "02" * 16
T: Final = 1_764_460_800
TAGS: Final = ("bagit.txt", "bag-info.txt", "manifest-sha256.txt")

Files = dict[str, bytes]


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def b64(data: bytes) -> str:
    return b64encode(data).decode()


def drawn(*of: object) -> bytes:
    """32 bytes that look random and are always the same."""
    return hashlib.sha256(repr(of).encode()).digest()


def hmac256(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def size_class(size: int) -> int:
    found = 256
    while found < size:
        found *= 2
    return found


class Signer:
    """An Ed25519 key under a name, as signed notes know it."""

    def __init__(self, name: str, seed: bytes) -> None:
        self.name = name
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = b"\x01" + self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._id = hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
        self.vkey = f"{name}+{self._id.hex()}+{b64(public)}"

    def line(self, text: str) -> str:
        return f"— {self.name} {b64(self._id + self._key.sign(text.encode()))}\n"

    def note(self, text: str) -> bytes:
        return f"{text}\n{self.line(text)}".encode()


class Log:
    """A naive RFC 6962 tree, after the recursive definitions of section 2.1."""

    def __init__(self, signer: Signer) -> None:
        self.signer = signer
        self.entries: list[bytes] = []
        self._known: dict[tuple[int, int], bytes] = {}

    def append(self, **fields: Any) -> int:
        self.entries.append(canonical({"v": 1, "t": T + len(self.entries)} | fields))
        return len(self.entries) - 1

    def root(self, begin: int, end: int) -> bytes:
        if begin == end:
            return hashlib.sha256(b"").digest()
        if (begin, end) not in self._known:
            if end - begin == 1:
                found = hashlib.sha256(b"\x00" + self.entries[begin]).digest()
            else:
                middle = begin + _split(end - begin)
                found = hashlib.sha256(b"\x01" + self.root(begin, middle) + self.root(middle, end)).digest()
            self._known[begin, end] = found
        return self._known[begin, end]

    def path(self, index: int, begin: int, end: int) -> list[bytes]:
        if end - begin == 1:
            return []
        middle = begin + _split(end - begin)
        if index < middle:
            return [*self.path(index, begin, middle), self.root(middle, end)]
        return [*self.path(index, middle, end), self.root(begin, middle)]

    def consistency(self, old: int, begin: int, end: int, *, whole: bool = True) -> list[bytes]:
        if old == end - begin:
            return [] if whole else [self.root(begin, end)]
        middle = begin + _split(end - begin)
        if old <= middle - begin:
            return [*self.consistency(old, begin, middle, whole=whole), self.root(middle, end)]
        rest = self.consistency(old - (middle - begin), middle, end, whole=False)
        return [*rest, self.root(begin, middle)]

    def checkpoint(self, size: int | None = None) -> bytes:
        size = len(self.entries) if size is None else size
        return self.signer.note(f"{self.signer.name}\n{size}\n{b64(self.root(0, size))}\n")

    def proof(self, index: int) -> bytes:
        hashes = "".join(f"{b64(node)}\n" for node in self.path(index, 0, len(self.entries)))
        return f"c2sp.org/tlog-proof@v1\nindex {index}\n{hashes}\n".encode() + self.checkpoint()


def _split(size: int) -> int:
    """The largest power of two below a number above one."""
    return 1 << (size - 1).bit_length() - 1


@dataclass(slots=True)
class Part:
    evidence: str
    content: bytes
    meta: bytes
    meta_opening: bytes
    opening: bytes
    index: int


@dataclass(slots=True)
class Bundle:
    """What an export holds; everything in it can be changed before `files` makes it into one."""

    log: Log
    signer: Signer
    scope: str = SCOPE
    export: str = EXPORT
    parts: list[Part] = field(default_factory=list)
    unavailable: list[dict[str, Any]] = field(default_factory=list)
    extra: Files = field(default_factory=dict)
    closings: int = 0
    accesses: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)
    anchors: Sequence[int] = ()

    # --- what happened

    def log_part(self, content: bytes, *, scope: str | None = None, bucket: str = BUCKET) -> Part:
        """Put a part's leaf into the log; it is in the bundle only if it is put into `parts`."""
        number = len(self.log.entries)
        evidence = f"0193f0c2a00070008000{number:012x}"
        opening, meta_opening = drawn("opening", number), drawn("meta", number)
        meta = canonical(
            {
                "attempt": "physical-1", "bucket": bucket, "captured_at": None, "completeness": "complete",
                "exchange": f"x-{number}", "kind": "observable-output", "media_type": "application/json",
                "received_at": "2025-11-30T00:00:00.000000Z", "run": "demo-run", "scope": scope or self.scope,
                "sequence": number, "session": "00112233445566ff", "size_class": size_class(len(content)),
                "sources": [["doc-7", "3"]], "v": 1, "vantage": "sdk",
            }
        )  # fmt: skip
        index = self.log.append(
            k="part",
            b=bucket,
            c=b64(hmac256(opening, content)),
            m=b64(hmac256(meta_opening, meta)),
            p=evidence,
        )
        return Part(evidence, content, meta, meta_opening, opening, index)

    def add_part(self, content: bytes, **more: str) -> Part:
        part = self.log_part(content, **more)
        self.parts.append(part)
        return part

    def add_unavailable(
        self, evidence: str, reason: str, proofs: Mapping[str, int], *, meta_of: Part | None = None
    ) -> None:
        """List a part as missing; `proofs` are the leaves' indices by kind."""
        self.unavailable.append({"evidence": evidence, "reason": reason, "proofs": sorted(proofs)})
        folder = f"data/unavailable/{evidence}"
        for kind, index in proofs.items():
            # Proofs are of the log's last size: made when the bundle is.
            self.extra[f"{folder}/{kind}/leaf.json"] = self.log.entries[index]
            self.extra[f"{folder}/{kind}/proof.tlog-proof"] = b"%d" % index
        if meta_of is not None:
            self.extra[f"{folder}/part/meta.json"] = meta_of.meta
            self.extra[f"{folder}/part/openings.json"] = canonical(
                {"v": 1, "meta_opening": b64(meta_of.meta_opening)}
            )

    def add_closing(self, run_uid: str, *, scope: str | None = None) -> None:
        close = canonical(
            {
                "counts": {"not_captured": {"capacity_exceeded": 8}, "stored": 32, "unaccounted": 0},
                "run": "demo-run", "scope": scope or self.scope, "sessions": [["00112233445566ff", 40]], "v": 1,
            }
        )  # fmt: skip
        opening = drawn("close", run_uid)
        index = self.log.append(k="close", m=b64(hmac256(opening, close)), r=run_uid)
        folder = f"data/closings/{run_uid}"
        self.extra[f"{folder}/close.json"] = close
        self.extra[f"{folder}/leaf.json"] = self.log.entries[index]
        self.extra[f"{folder}/openings.json"] = canonical({"v": 1, "close_opening": b64(opening)})
        self.extra[f"{folder}/proof.tlog-proof"] = b"%d" % index
        self.closings += 1

    # --- what is written

    def payload(self) -> Files:
        size = len(self.log.entries)
        facts = {
            "v": 1, "export": self.export, "scope": self.scope, "requested_at": T + size,
            "origin": self.log.signer.name, "tree_size": size, "parts": len(self.parts),
            "unavailable": len(self.unavailable), "closings": self.closings,
        }  # fmt: skip
        files = {
            "data/bundle.json": canonical(facts),
            "data/checkpoint": self.log.checkpoint(),
            "data/policy.txt": self.policy(),
            "data/unavailable.json": canonical(self.unavailable),
            "data/accesses.jsonl": b"".join(canonical(line) + b"\n" for line in self.accesses),
            "data/actions.jsonl": b"".join(canonical(line) + b"\n" for line in self.actions),
        }
        for part in self.parts:
            files |= self._part(part)
        for name, data in self.extra.items():
            files[name] = self.log.proof(int(data)) if name.endswith(".tlog-proof") else data
        for anchor in self.anchors:
            hashes = self.log.consistency(anchor, 0, size)
            files[f"data/consistency/{anchor}.txt"] = "".join(f"{b64(node)}\n" for node in hashes).encode()
        return files

    def _part(self, part: Part) -> Files:
        folder = f"data/parts/{part.evidence}"
        openings = {"v": 1, "opening": b64(part.opening), "meta_opening": b64(part.meta_opening)}
        return {
            f"{folder}/content": part.content,
            f"{folder}/meta.json": part.meta,
            f"{folder}/leaf.json": self.log.entries[part.index],
            f"{folder}/openings.json": canonical(openings),
            f"{folder}/proof.tlog-proof": self.log.proof(part.index),
        }

    def files(self) -> Files:
        return seal(self, self.payload())

    def policy(self) -> bytes:
        return f"# whom to believe\nlog {self.log.signer.vkey}\nbundle {self.signer.vkey}\n".encode()

    def zipped(self, files: Mapping[str, bytes] | None = None) -> bytes:
        return zipped(self.files() if files is None else files, f"custody-{self.export}/")


def seal(bundle: Bundle, files: Mapping[str, bytes], signer: Signer | None = None) -> Files:
    """Put manifests and a true signature around a payload, whatever it says."""
    payload = {name: data for name, data in files.items() if name.startswith("data/")}
    oxum = f"{sum(map(len, payload.values()))}.{len(payload)}"
    info = f"Bagging-Date: 2025-11-30\nExternal-Identifier: {bundle.export}\nPayload-Oxum: {oxum}\n"
    tags = {
        "bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        "bag-info.txt": info.encode(),
        "manifest-sha256.txt": manifest(payload),
    }
    return payload | signed(bundle, tags | {"tagmanifest-sha256.txt": manifest(tags)}, signer)


def signed(bundle: Bundle, files: Mapping[str, bytes], signer: Signer | None = None) -> Files:
    """Sign the tag manifest, whatever it says."""
    digest = b64(hashlib.sha256(files["tagmanifest-sha256.txt"]).digest())
    note = (signer or bundle.signer).note(f"custody/v1/bundle\n{bundle.export}\n{digest}\n")
    return {**files, "bundle.note": note}


def manifest(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()


class _Stream(io.RawIOBase):
    """Where bytes can only be appended, as on a wire."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += data
        return len(data)


def zipped(files: Mapping[str, bytes], top: str, *, wide: bool = False, most_stored: int = 256) -> bytes:
    """Zip as an export is: to a stream, sizes after the data, contents deflated and small texts stored."""
    stream = _Stream()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(top + name, (2025, 11, 30, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED if len(data) > most_stored else zipfile.ZIP_STORED
            entry.external_attr = 0o100644 << 16
            with archive.open(entry, "w", force_zip64=wide) as file:
                file.write(data)
    return bytes(stream.data)


def empty(origin: str = ORIGIN) -> Bundle:
    """A bundle with nothing in it yet."""
    return Bundle(Log(Signer(origin, bytes(range(32)))), Signer(f"{origin}/bundle", drawn("bundle key")))


def small(parts: int = 3) -> Bundle:
    """Some of everything: parts, what was erased and what expired, a closing, records, a tree that grew."""
    bundle = empty()
    for number in range(parts):
        bundle.add_part(b'{"answer":"%d %s"}' % (number, b"yes " * (number * 200)))
    bundle.anchors = (len(bundle.log.entries),)
    erased = bundle.log_part(b"erased")
    purge = bundle.log.append(k="purge", of=erased.index, p=erased.evidence, w="erased")
    expired = bundle.log_part(b"expired", bucket="03" * 16)
    expire = bundle.log.append(k="expire", b="03" * 16, n=1)
    bundle.add_closing("04" * 16)
    bundle.add_unavailable(erased.evidence, "erased", {"part": erased.index, "purge": purge}, meta_of=erased)
    bundle.add_unavailable(expired.evidence, "retention_expired", {"part": expired.index, "expire": expire})
    bundle.accesses = (
        [{"evidence": bundle.parts[0].evidence, "purpose": "audit", "t": T}, {"t": T + 1}] if parts else []
    )
    bundle.actions = [{"action": "erase", "t": T + 2}]
    return bundle


def mixed() -> Bundle:
    """A small bundle with parts of which the reason, or that they were stored, has no proof."""
    bundle = small()
    denied = bundle.log_part(b"denied")
    bundle.add_unavailable(denied.evidence, "permission_denied", {"part": denied.index})
    bundle.add_unavailable("0193f0c2a0007000800000000000ffff", "lost_in_restore", {})
    return bundle
