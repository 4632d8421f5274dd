"""One part: what is known of it, whether it may be read, how it stands in the proof log, and who read it."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec
from litestar import Response, Router, get
from litestar.params import FromPath

from console import api_calls
from console.filters import Filters, filters
from console.guards import AnyRequest, Signed, reads, services, signed
from console.navigation import may_open
from console.pages.accesses import PATH, link_key, rows
from console.proof_words import of_state
from console.rendering import file_answer, page
from policies.kinds import Role
from store.errors import Corrupt, NotFound
from store.services.access import AccessItem
from store.services.paging import Page
from store.services.part_views import PartView
from store.services.proofs import Proof
from store.services.questions import evidence_of

_PROVERS: Final = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR)
_TEXT: Final = "text/plain"


@dataclass(frozen=True, slots=True)
class _Shown:
    """A proof as text: the entry is the leaf itself, canonical JSON."""

    index: int
    leaf: str
    text: str
    checkpoint: str


@get("/parts/{evidence:str}", guards=[reads()])
async def show_part(request: AnyRequest, evidence: FromPath[str]) -> Response[Any]:
    """Show one part. Its content is on the page of its attempt: nothing here reads it."""
    who, asked = signed(request), filters(request)
    part = await services(request).readback.part(who.reader, evidence_of(evidence))
    accesses = await _accesses(request, who, part.evidence, asked)
    return page(
        request,
        "part.html",
        part=part,
        state=of_state(part.proof_state),
        proof=await _proof(request, who, part),
        proves=who.role in _PROVERS,
        access_rows=rows(accesses.items) if accesses else None,
        info=accesses.page if accesses else None,
        link_key=link_key(),
        filters=asked,
        **_copies(request, who, part),
    )


@get("/parts/{evidence:str}/proof", guards=[reads(*_PROVERS)])
async def download_proof(request: AnyRequest, evidence: FromPath[str]) -> Response[Any]:
    """The proof that its leaf is in the log, as C2SP tlog-proof writes it; it ends with the checkpoint."""
    proof = await services(request).proofs.of_part(signed(request).reader.scope, evidence_of(evidence))
    return file_answer(proof.text, f"custody-{evidence}.tlog-proof", _TEXT)


@get("/parts/{evidence:str}/leaf", guards=[reads(*_PROVERS)])
async def download_leaf(request: AnyRequest, evidence: FromPath[str]) -> Response[Any]:
    """The leaf that the proof is about, byte for byte."""
    proof = await services(request).proofs.of_part(signed(request).reader.scope, evidence_of(evidence))
    return file_answer(proof.entry, f"custody-{evidence}.leaf", "application/octet-stream")


router = Router("/", route_handlers=[show_part, download_proof, download_leaf])


async def _proof(request: AnyRequest, who: Signed, part: PartView) -> _Shown | None:
    """Return the proof for those whom the api gives it; None where there is none now, which the state says."""
    if who.role not in _PROVERS or part.proof_state == "pending":
        return None
    try:
        return _shown(await services(request).proofs.of_part(who.reader.scope, part.evidence))
    except (NotFound, Corrupt):
        return None


def _shown(proof: Proof) -> _Shown:
    text = proof.text.decode()
    # A proof ends with the signed checkpoint, after an empty line.
    checkpoint = text.partition("\n\n")[2]
    entry = proof.entry.decode(errors="replace")
    return _Shown(proof.index, entry, text, checkpoint)


async def _accesses(
    request: AnyRequest, who: Signed, evidence: UUID, asked: Filters
) -> Page[AccessItem] | None:
    if not may_open(who.role, PATH):
        return None
    return await services(request).accesses.page(who.reader, evidence, None, asked.asked)


def _copies(request: AnyRequest, who: Signed, part: PartView) -> dict[str, Any]:
    url = api_calls.address(services(request).settings, f"/v1/parts/{part.evidence}")
    scope = who.in_scope.name if who.of_store else None
    return {
        "json": msgspec.json.format(msgspec.json.encode(part), indent=2).decode(),
        "curl": api_calls.curl(url, scope),
    }
