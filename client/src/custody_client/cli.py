"""The command `custody`."""

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

_FOUND = """\
answers with 0 if all is well, 1 if something is not, 3 if nothing failed but something could not be checked.
"""
_ANSWERS = """\
answers with 0 if everything was checked and is right, 1 if something failed, 3 if nothing failed but something was not
checked (no anchor was given, say, or nothing is in the bundle), 2 if the command cannot be used like this.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return what it answers with."""
    wanted = _parser().parse_args(arguments)
    return _check(wanted) if wanted.command == "check" else _verify(wanted)


def _check(wanted: argparse.Namespace) -> int:
    from custody_client.diagnostics import doctor  # noqa: PLC0415 - the verifier needs none of it

    try:
        key = wanted.key_file.read_text("utf-8").strip() if wanted.key_file else None
    except (OSError, UnicodeError) as error:
        sys.stderr.write(f"custody check: --key-file cannot be read: {type(error).__name__}\n")
        return 2
    report = doctor(wanted.url, key, timeout=wanted.timeout)
    sys.stdout.write(f"{report}\n")
    return report.exit


def _verify(wanted: argparse.Namespace) -> int:
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
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    check = commands.add_parser(
        "check", help="whether a runtime's captures would arrive: address, key, clock, admission, delivery",
        epilog=_FOUND,
    )  # fmt: skip
    # A key in an argument could be read by every user of the machine.
    check.add_argument("--url", help="the service's address (CUSTODY_URL)")
    check.add_argument(
        "--key-file", type=Path, metavar="FILE", help="holds the key (CUSTODY_KEY, CUSTODY_KEY_FILE)"
    )
    check.add_argument("--timeout", type=float, default=5.0, metavar="S", help="seconds for each answer (5)")
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
