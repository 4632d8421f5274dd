"""`custody verify BUNDLE --policy FILE [--anchor CHECKPOINT] [--json]`."""

import argparse
import json
import sys
from pathlib import Path

from custody_client.verify import table
from custody_client.verify.bundle import verify_bundle
from custody_client.verify.policy import Policy
from custody_client.verify.report import Exit


def run(wanted: argparse.Namespace) -> int:
    """Verify, print, and return what the command answers with."""
    try:
        policy = Policy.parse(Path(wanted.policy).read_bytes())
    except OSError as error:
        return _unusable(f"the policy cannot be read: {error.strerror or 'not a file'}")
    except ValueError as error:
        return _unusable(f"the policy cannot be used: {error}")
    try:
        anchors = [Path(path).read_bytes() for path in wanted.anchor]
    except OSError as error:
        return _unusable(f"the anchor cannot be read: {error.strerror or 'not a file'}")
    try:
        report = verify_bundle(Path(wanted.bundle), policy, anchors)
    except OSError as error:
        return _unusable(f"the bundle cannot be read: {error.strerror or 'not a file'}")
    told = json.dumps(report.plain(), indent=2) if wanted.json else "\n".join(table.lines(report))
    # A key's name may be in any script, and the terminal's encoding is anybody's guess.
    sys.stdout.write(told.encode("ascii", "backslashreplace").decode("ascii") + "\n")
    return report.exit


def _unusable(told: str) -> int:
    sys.stderr.write(f"custody verify: {told}\n")
    return Exit.USAGE
