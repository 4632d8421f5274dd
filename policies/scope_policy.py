"""What a scope's owner decided, and the document in which it is written.

Fails closed: a document with any fault is refused whole, and nothing ever falls back to "keep for ever".
"""

from dataclasses import dataclass
from typing import Final, Self

from policies.documents import Document, PolicyFault, count, flag, fraction, word
from policies.kinds import Content, Kind
from policies.limits import DEFAULT_RUN_LIMITS, DEFAULT_SCOPE_LIMITS, RunLimits, ScopeLimits
from policies.quantities import duration, duration_text, size, size_text
from policies.revocation import UnknownSources

# A body is held whole in memory until it is sealed; a process's budget for all bodies at once is 64 MiB.
MAX_PART_BYTES: Final = 32 << 20
# The queue keeps a field for each part of a run that lives, in one hash.
MAX_RUN_PARTS: Final = 100_000
# More than what sealing adds to a part: padding to 64, a nonce, a tag, a salt, a key's id.
_SEAL_BYTES: Final = 1_024
_DAY_S: Final = 86_400
_NEVER: Final = "never"
_FIELDS: Final = (
    "kinds",
    "content",
    "sampling",
    "retention",
    "metadata_retention",
    "destroy_after",
    "unknown_sources",
    "purpose_required",
    "limits",
    "waiting",
    "share",
)


@dataclass(frozen=True, slots=True)
class ScopePolicy:
    """A scope's policy; `content` is for runs that do not say, `destroy_after_s` None means never."""

    kinds: frozenset[Kind] = frozenset(Kind)
    content: Content = Content.ALLOW
    sampling: float = 1.0
    retention_default_s: int = 30 * _DAY_S
    retention_max_s: int = 90 * _DAY_S
    metadata_retention_s: int = 400 * _DAY_S
    destroy_after_s: int | None = 30 * _DAY_S
    unknown_sources: UnknownSources = "refuse"
    purpose_required: bool = False
    run_limits: RunLimits = DEFAULT_RUN_LIMITS
    scope_limits: ScopeLimits = DEFAULT_SCOPE_LIMITS

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read a policy document; absent fields have their defaults. PolicyFault names every fault at once."""
        faults: list[str] = []
        fields = Document(document, _FIELDS, faults)
        retention = fields.inner("retention", ("default", "max"))
        limits = fields.inner("limits", ("part_bytes", "run_parts", "run_bytes"))
        waiting = fields.inner("waiting", ("run_parts", "run_bytes", "run_notes", "parts", "bytes"))
        usual = cls()
        max_s = retention.read("max", duration, usual.retention_max_s)
        policy = cls(
            kinds=fields.read("kinds", _kinds, usual.kinds),
            content=fields.read("content", _content, usual.content),
            sampling=fields.read("sampling", fraction, usual.sampling),
            # Whoever only lowers the most has lowered what it is for those who do not say.
            retention_default_s=retention.read("default", duration, min(usual.retention_default_s, max_s)),
            retention_max_s=max_s,
            metadata_retention_s=fields.read("metadata_retention", duration, usual.metadata_retention_s),
            destroy_after_s=fields.read("destroy_after", _destroy_after, usual.destroy_after_s),
            unknown_sources=fields.read("unknown_sources", _unknown_sources, usual.unknown_sources),
            purpose_required=fields.read("purpose_required", flag, usual.purpose_required),
            run_limits=_run_limits(limits, waiting, usual.run_limits),
            scope_limits=_scope_limits(fields, waiting, usual.scope_limits),
        )
        # What contradicts itself can only be told of fields that could be read.
        faults.extend([] if faults else _contradictions(policy))
        if faults:
            raise PolicyFault(faults)
        return policy

    def to_document(self) -> dict[str, object]:
        """Write the whole policy as a JSON-able document that `from_document` reads back."""
        run, scope, destroy_after_s = self.run_limits, self.scope_limits, self.destroy_after_s
        return {
            "kinds": sorted(self.kinds),
            "content": self.content.value,
            "sampling": self.sampling,
            "retention": {
                "default": duration_text(self.retention_default_s),
                "max": duration_text(self.retention_max_s),
            },
            "metadata_retention": duration_text(self.metadata_retention_s),
            "destroy_after": _NEVER if destroy_after_s is None else duration_text(destroy_after_s),
            "unknown_sources": self.unknown_sources,
            "purpose_required": self.purpose_required,
            "limits": {
                "part_bytes": size_text(run.part_bytes),
                "run_parts": run.run_parts,
                "run_bytes": size_text(run.run_bytes),
            },
            "waiting": {
                "run_parts": run.run_waiting_parts,
                "run_bytes": size_text(run.run_waiting_bytes),
                "run_notes": run.run_waiting_notes,
                "parts": scope.waiting_parts,
                "bytes": size_text(scope.waiting_bytes),
            },
            "share": scope.share,
        }


def _kinds(value: object) -> frozenset[Kind]:
    if not isinstance(value, list):
        raise ValueError("needs a list of kinds")  # noqa: TRY004 - all faults of a document are ValueErrors
    return frozenset(Kind(word(each, tuple(Kind))) for each in value)


def _content(value: object) -> Content:
    return Content(word(value, tuple(Content)))


def _destroy_after(value: object) -> int | None:
    return None if value == _NEVER else duration(value)


def _unknown_sources(value: object) -> UnknownSources:
    return "allow" if word(value, ("refuse", "allow")) == "allow" else "refuse"


def _share(value: object) -> float:
    # The queue counts shares in thousandths: one that it would round is refused here, not silently made nothing.
    share = fraction(value)
    if share == 0 or round(share * 1000) / 1000 != share:
        raise ValueError("needs a number from 0.001 to 1 in steps of 0.001")
    return share


def _run_limits(limits: Document, waiting: Document, usual: RunLimits) -> RunLimits:
    return RunLimits(
        part_bytes=limits.read("part_bytes", size, usual.part_bytes),
        run_parts=limits.read("run_parts", count, usual.run_parts),
        run_bytes=limits.read("run_bytes", size, usual.run_bytes),
        run_waiting_parts=waiting.read("run_parts", count, usual.run_waiting_parts),
        run_waiting_bytes=waiting.read("run_bytes", size, usual.run_waiting_bytes),
        run_waiting_notes=waiting.read("run_notes", count, usual.run_waiting_notes),
    )


def _scope_limits(fields: Document, waiting: Document, usual: ScopeLimits) -> ScopeLimits:
    return ScopeLimits(
        waiting_parts=waiting.read("parts", count, usual.waiting_parts),
        waiting_bytes=waiting.read("bytes", size, usual.waiting_bytes),
        share=fields.read("share", _share, usual.share),
    )


def _contradictions(policy: ScopePolicy) -> list[str]:
    """Name what each field allows and all together do not."""
    run, scope = policy.run_limits, policy.scope_limits
    sealed_bytes = run.part_bytes + _SEAL_BYTES
    rules = (
        (
            policy.retention_default_s <= policy.retention_max_s,
            "retention.default: is longer than retention.max",
        ),
        (
            policy.metadata_retention_s >= policy.retention_max_s,
            "metadata_retention: ends before the content that it describes may (retention.max)",
        ),
        (
            run.part_bytes <= MAX_PART_BYTES,
            "limits.part_bytes: is over 32MiB, which a process may hold at once",
        ),
        (
            run.run_parts <= MAX_RUN_PARTS,
            "limits.run_parts: is over 100000, which the queue can remember of one run",
        ),
        (run.run_bytes >= run.part_bytes, "limits.run_bytes: is less than one part"),
        (run.run_waiting_bytes >= sealed_bytes, "waiting.run_bytes: is less than one sealed part"),
        (scope.waiting_bytes >= sealed_bytes, "waiting.bytes: is less than one sealed part"),
    )
    return [fault for stands, fault in rules if not stands]
