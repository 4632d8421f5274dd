"""The files of a bundle: names are ids that we minted, texts have one form only."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from store.commitments import canonical_json
from store.log_tree.strict import to_base64
from store.services.actions import ActionItem
from store.services.export.closings import Closed
from store.services.export.parts import PART, Given, Missing
from store.services.proofs import Proof
from store.tables.export_items import AccessOf

Files: TypeAlias = Mapping[str, bytes]
"""Contents by name, below the payload's directory."""

LEAF: Final = "leaf.json"
PROOF: Final = "proof.tlog-proof"
OPENINGS: Final = "openings.json"
META: Final = "meta.json"
CONTENT: Final = "content"


def part_files(part: Given) -> Files:
    """Return the files of a part that is given."""
    openings = {
        "meta_opening": to_base64(part.meta_opening),
        "opening": to_base64(part.opened.opening),
        "v": 1,
    }
    files = {CONTENT: part.opened.content, META: part.opened.meta, OPENINGS: canonical_json(openings)}
    return _below(f"parts/{part.evidence.hex}", files | _proven(part.proof))


def missing_files(part: Missing) -> Files:
    """Return what shows what became of a part that is not given."""
    found: dict[str, bytes] = {}
    for kind, proof in part.proofs.items():
        files = _proven(proof)
        if kind == PART and part.meta is not None:
            meta, opening = part.meta
            files |= {META: meta, OPENINGS: canonical_json({"meta_opening": to_base64(opening), "v": 1})}
        found |= _below(f"unavailable/{part.evidence.hex}/{kind}", files)
    return found


def missing_entry(part: Missing) -> Mapping[str, object]:
    """Return how the list of what is unavailable speaks of a part."""
    return {"evidence": part.evidence.hex, "reason": part.reason.value, "proofs": sorted(part.proofs)}


def closing_files(closed: Closed) -> Files:
    """Return the files of a run's closing. Where the record is lost, so is what the leaf commits to, and it fails."""
    files = _proven(closed.proof)
    if closed.record is not None:
        openings = {"close_opening": to_base64(closed.opening), "v": 1}
        files |= {"close.json": closed.record, OPENINGS: canonical_json(openings)}
    return _below(f"closings/{closed.run_uid.hex}", files)


def consistency_file(old: int, hashes: Sequence[bytes]) -> Files:
    """Return the proof that the tree began as one of `old` leaves."""
    lines = "".join(f"{to_base64(each)}\n" for each in hashes)
    return {f"consistency/{old}.txt": lines.encode("ascii")}


def access_line(access: AccessOf) -> bytes:
    """Return one access record."""
    return canonical_json(
        {
            "access": access.access_id.hex,
            "at": instant(access.at),
            "evidence": access.evidence.hex,
            "key": access.key_id,
            "outcome": access.outcome,
            "purpose": access.purpose,
            "role": access.role,
        }
    )


def action_line(action: ActionItem) -> bytes:
    """Return one operator action."""
    return canonical_json(
        {
            "action": action.action,
            "action_id": action.action_id.hex,
            "at": instant(action.at),
            "key": action.key_id,
            "purpose": action.purpose,
            "target": action.target,
        }
    )


def instant(at: datetime) -> str:
    """Return an instant as committed metadata has it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _proven(proof: Proof) -> dict[str, bytes]:
    return {LEAF: proof.entry, PROOF: proof.text}


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}
