"""What can be said after a run, and from which part it comes."""

from collections.abc import Iterator
from typing import Final

from custody_toolchain.attachments import Attachments, Extraction, Given, State, Status
from custody_toolchain.delivery import Delivered, diagnose
from custody_toolchain.facts import Form

from . import texts
from .batch import Batch

_SHOWN: Final = (Form.FULL, Form.PARTIAL)


def observations(batch: Batch, delivered: Delivered) -> Iterator[str]:
    """Give one line for each thing that was observed."""
    facts = batch.journal.facts
    yield "What each action's result became:"
    for receipt in batch.journal.receipts:
        answer = batch.lineage.answer(receipt.action, facts)
        refused = receipt.answer().refusal
        told = str(answer) if refused is None else f"refused at {refused.stage}: {refused.code}; not executed"
        yield f"  {receipt.action} {receipt.tool}: {told}"
    yield f"What stood as a result in requests and is linked to none: {len(batch.lineage.unlinked())}"
    yield "What was read:"
    for name in texts.names():
        known = batch.coverage.of(name)
        if known is not None:
            odd = ", ".join(known.deviations) or "nothing odd"
            yield f"  {name}: {'whole' if known.whole else 'not whole'}, {known.ranges} of {known.end} ({odd})"
    yield "What was received, extracted and given:"
    for each in ledger(batch).all:
        whole = [given.request for given in each.given if each.seen_whole(given.request)]
        extracted = each.extractions[0].state.status if each.extractions else "nothing"
        given = f"given {len(each.given)} times, whole in {len(set(whole))} requests"
        yield f"  {each.id}: {each.received.sniffed_type}, extracted: {extracted}, {given}"
    yield "What was promised:"
    for item in delivered.items:
        yield f"  {item.item}: {item.state}{f', {item.code}' if item.code else ''}"
    planned = len(batch.journal.receipts)
    look_first = diagnose(facts, planned=planned, delivered=delivered).look_first
    yield f"Where to look first: {look_first or 'nowhere, all six questions are answered with yes'}"


def ledger(batch: Batch) -> Attachments:
    """Return the ledger of the texts: that one was read page by page does not say that a request held all of it."""
    attachments = Attachments()
    for name in texts.names():
        data = texts.content(name)
        attachments.received(
            name, size_bytes=len(data), head=data[:4096], where="shipped", claimed_type="text/plain"
        )
        known = batch.coverage.of(name)
        if known is not None:
            state = State(Status.DONE) if known.whole else State(Status.PARTIAL, "not_read_whole")
            attachments.extracted(name, Extraction("pages", "text", "read_page", state, size_bytes=len(data)))
    for receipt in batch.journal.receipts:
        if receipt.tool == "read_page" and receipt.has_held:
            whole = receipt.source_whole is True
            for each in batch.lineage.occurrences(receipt.action):
                if each.view.form in _SHOWN:
                    form = Form.FULL if whole and each.view.form is Form.FULL else Form.PARTIAL
                    attachments.given(receipt.held["path"], Given("pages", each.exchange, form))
    return attachments
