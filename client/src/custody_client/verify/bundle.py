"""The verification of a bundle from its first byte to the last item. Nothing is written, nothing is sent."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from custody_client.verify import parts, records, unavailable
from custody_client.verify.anchors import check_anchors
from custody_client.verify.bag import Archive, Bag
from custody_client.verify.folders import FolderBundle
from custody_client.verify.head import FACTS, Head, check_signature, head_of, read_checkpoint, read_facts
from custody_client.verify.policy import Policy
from custody_client.verify.report import Item, Report, State
from custody_client.verify.wrong import Wrong
from custody_client.verify.zips import ZipBundle


def verify_bundle(path: Path, policy: Policy, anchors: Sequence[bytes] = ()) -> Report:
    """Verify a bundle, zipped or unpacked, against the keys of `policy` and checkpoints held from before.

    OSError if it cannot be read at all; whatever is wrong with it is in the report.
    """
    report = Report()
    try:
        with closing(FolderBundle(path) if path.is_dir() else ZipBundle(path)) as archive:
            report.add([Item("archive", "bundle", State.OK)])
            _verify(archive, policy, anchors, report)
    except Wrong as wrong:
        report.add([_failed("archive", "bundle", wrong)])
    return report


def _verify(archive: Archive, policy: Policy, anchors: Sequence[bytes], report: Report) -> None:
    try:
        bag = Bag(archive)
    except Wrong as wrong:
        report.add([_failed("bag", "manifest", wrong)])
        return
    export = _signed(archive, bag, policy, report)
    head = _head(bag, policy, export, report)
    if head is not None:
        report.add([_one("bag", "manifest", partial(bag.check_tags, head.export))])
        report.add(_contents(archive, bag, head))
        report.add(check_anchors(bag, head, policy.log, anchors))
        report.add([_one("bag", "payload", partial(_rest, bag))])


def _signed(archive: Archive, bag: Bag, policy: Policy, report: Report) -> str | None:
    try:
        export = check_signature(archive, bag, policy.bundle)
    except Wrong as wrong:
        report.add([_failed("signature", policy.bundle.name, wrong)])
        return None
    report.add([Item("signature", policy.bundle.name, State.OK)])
    return export


def _head(bag: Bag, policy: Policy, export: str | None, report: Report) -> Head | None:
    try:
        checkpoint = read_checkpoint(bag, policy.log)
        report.add([Item("checkpoint", str(checkpoint.size), State.OK)])
        report.origin, report.tree_size = checkpoint.origin, checkpoint.size
        facts = read_facts(bag)
        report.export, report.scope = facts["export"], facts["scope"]
        return head_of(facts, checkpoint, export)
    except Wrong as wrong:
        # Nothing below means anything without them.
        report.add([_failed("checkpoint" if report.origin is None else "bundle", "head", wrong)])
        report.add(
            [Item("contents", "all", State.NOT_CHECKED, not_checked=("nothing to check them against",))]
        )
        return None


def _contents(archive: Archive, bag: Bag, head: Head) -> Iterator[Item]:
    folders = _folders(archive)
    evidence, runs = folders.get("parts", {}), folders.get("closings", {})
    yield from _each("part", evidence, partial(parts.check_part, bag, head))
    missing = yield from _missing(bag, head, evidence.keys(), folders.get("unavailable", {}))
    yield from _each("closing", runs, partial(parts.check_closing, bag, head))
    yield from _each("records", records.FILES, partial(records.check_records, bag))
    found = {"parts": len(evidence), "unavailable": missing, "closings": len(runs)}
    yield _one("bundle", "counts", partial(_counted, head, found))
    if not any(found.values()):
        yield Item("contents", "all", State.NOT_CHECKED, not_checked=("there is nothing in it",))


def _missing(
    bag: Bag, head: Head, present: Collection[str], files: Mapping[str, Collection[str]]
) -> Generator[Item, None, int]:
    """Check what is listed as unavailable, and return how much that is."""
    try:
        listed = unavailable.read_list(bag, present, files.keys())
    except Wrong as wrong:
        yield _failed("unavailable", "list", wrong)
        return 0
    yield from _each(
        "unavailable",
        listed,
        lambda name: unavailable.check_unavailable(bag, head, listed[name], files.get(name, ())),
    )
    return len(listed)


def _counted(head: Head, found: Mapping[str, int]) -> None:
    for name, count in found.items():
        if head.counts[name] != count:
            raise Wrong(FACTS, f"counts other {name} than there are")


def _rest(bag: Bag) -> None:
    """Read what no item needed, so that no file of the payload goes without its digest."""
    for name in bag.unread():
        bag.read(name)


def _folders(archive: Archive) -> dict[str, dict[str, list[str]]]:
    """Return the folders of the payload, in each the directories of single things, in each its files."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in archive.sizes:
        match name.split("/", 3):
            case ["data", folder, directory, file]:
                found.setdefault(folder, {}).setdefault(directory, []).append(file)
    return found


def _each(kind: str, names: Iterable[str], check: Callable[[str], Item]) -> Iterator[Item]:
    for name in names:
        try:
            yield check(name)
        except Wrong as wrong:
            yield _failed(kind, name, wrong)


def _one(kind: str, name: str, check: Callable[[], object]) -> Item:
    try:
        check()
    except Wrong as wrong:
        return _failed(kind, name, wrong)
    return Item(kind, name, State.OK)


def _failed(kind: str, name: str, wrong: Wrong) -> Item:
    return Item(kind, name, State.FAILED, file=wrong.file, problem=wrong.problem)
