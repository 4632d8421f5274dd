"""What `python -m store keys-at-rest …` does with keys that are there: look at them, change those of buckets."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from store.commands import opened
from store.errors import Malformed
from store.services import rewrapping
from store.services.key_check import KeyCheck, KeyReport
from store.services.keys import COMMAND_LINE
from store.services.rewrapping import Rewrapped, Rewrapping, Selection
from store.wiring import Services

_OK: Final = 0
_FAULTS: Final = 1


async def check(said: argparse.Namespace) -> int:
    """Look at every key that something needs; 1 where something is wrong."""
    async with opened(said, duties=True) as services:
        looking = KeyCheck(services.database, services.keyring, services.queue, services.settings.log_origin)
        report = await looking.look(repair=said.repair, anew=said.repair)
    sys.stdout.write(_json(report) if said.json else "".join(f"{line}\n" for line in _lines(report)))
    return _OK if report.sound else _FAULTS


async def rewrap(said: argparse.Namespace) -> int:
    """Change the keys of buckets; 1 where an old one still wraps something."""
    bucket = None if said.bucket is None else _bucket(said.bucket)
    async with opened(said, duties=True) as services:
        scope = None if said.scope is None else (await services.scopes.by_name(said.scope)).scope_id
        done = await _rewrapping(services).run(COMMAND_LINE, Selection(scope, bucket, said.unfinished))
    sys.stdout.write("".join(f"{line}\n" for line in _done(done)))
    return _FAULTS if done.left else _OK


def _rewrapping(services: Services) -> Rewrapping:
    if services.duties_database is None:
        raise ValueError("the services were opened without the duties' role")
    return Rewrapping(services.duties_database, services.keyring, rewrapping.GRACE_S)


def _bucket(text: str) -> UUID:
    try:
        return UUID(hex=text)
    except ValueError:
        raise Malformed(detail="--bucket is the id of a bucket, 32 digits in hexadecimal") from None


def _lines(report: KeyReport) -> Iterator[str]:
    for what, count in sorted(report.checked.items()):
        yield f"checked      {count:>9}  {what}"
    for what in report.not_checked:
        yield f"not checked             {what}"
    if report.repaired:
        yield f"repaired     {report.repaired:>9}  copies that were missing"
    for fault in report.faults:
        yield f"FAULT  {fault.role:<9}  {fault.what}  {fault.name}".rstrip()
    yield "sound" if report.sound else f"{len(report.faults)} faults"


def _json(report: KeyReport) -> str:
    faults = [
        {
            "role": fault.role, "name": fault.name, "what": fault.what,
            "scope": fault.of.scope_id.hex if fault.of else None,
            "bucket": fault.of.bucket_id.hex if fault.of else None,
        }
        for fault in report.faults
    ]  # fmt: skip
    document = {
        "sound": report.sound, "checked": report.checked, "not_checked": report.not_checked,
        "repaired": report.repaired, "faults": faults,
    }  # fmt: skip
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _done(done: Rewrapped) -> Iterator[str]:
    yield f"{done.secrets} secrets are wrapped anew, and {done.changed} old keys are gone from every copy"
    for bucket in done.left:
        yield f"LEFT  {bucket.scope_id.hex}  {bucket.bucket_id.hex}  its old key still wraps something: see the log"
