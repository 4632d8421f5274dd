"""The command `custody`."""

import argparse
import importlib.util
import sys
from collections.abc import Sequence

_ANSWERS = """\
answers with 0 if everything was checked and is right, 1 if something failed, 3 if nothing failed but something was not
checked (no anchor was given, say, or nothing is in the bundle), 2 if the command cannot be used like this.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return what it answers with."""
    wanted = _parser().parse_args(arguments)
    if importlib.util.find_spec("cryptography") is None:
        sys.stderr.write("custody verify: needs `cryptography`: pip install 'custody-client[verify]'\n")
        return 2
    # Not at the top: a runtime that only captures has no `cryptography`.
    from custody_client.verify.command import run  # noqa: PLC0415

    return run(wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="custody", description="What can be done with a Custody store's evidence."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    verify = commands.add_parser("verify", help="verify a bundle, offline", epilog=_ANSWERS)
    verify.add_argument(
        "bundle", metavar="BUNDLE", help="the zip file, or the directory it was unpacked into"
    )
    verify.add_argument("--policy", metavar="FILE", required=True, help="whose signatures are believed")
    verify.add_argument(
        "--anchor",
        metavar="CHECKPOINT",
        action="append",
        default=[],
        help="a checkpoint held from before (repeatable)",
    )
    verify.add_argument("--json", action="store_true", help="the report as JSON, for programs")
    return parser
