"""`python -m store`: what operators do on the host itself. See `python -m store COMMAND --help`.

Works with the addresses of the environment, or else with the stack of `up` that runs in the data directory.
Ends with 0, 1 (it could not be done, or faults were found), or 2 (it was asked for in the wrong way).
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from policies.documents import PolicyFault
from policies.kinds import Role
from policies.reasons import Reason
from store import commands, key_commands, log_commands, restore_commands
from store.embedded import EmbeddedFault
from store.errors import ConfigFaults, CustodyError, Unavailable
from store.up import StackFault, Wanted, run

_FAULT: Final = 1

# Where an error has no words of its own.
_PLAIN: Final = {Reason.NOT_FOUND: "there is nothing of that name"}
# What `cause` says is the class of the fault: a refused connection, a missing table, a full disk.
_AWAY: Final = {
    Reason.STORE_UNAVAILABLE: "Postgres or the key directory does not do its part",
    Reason.QUEUE_UNAVAILABLE: "Redis does not do its part",
}


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says."""
    said = _parser().parse_args(arguments)
    try:
        return _do(said)
    except (ConfigFaults, PolicyFault) as faults:
        return _fault(*faults.faults)
    except (StackFault, EmbeddedFault) as fault:
        return _fault(str(fault))
    except Unavailable as outage:
        return _fault(f"{_AWAY.get(outage.reason, outage.reason.value)} ({outage.cause})")
    except CustodyError as fault:
        return _fault(fault.detail or _PLAIN.get(fault.reason, fault.reason.value))
    except KeyboardInterrupt:
        return _fault("interrupted")


def _do(said: argparse.Namespace) -> int:
    if said.command == "up":
        return run(
            Wanted(
                said.data_dir,
                said.port,
                said.console_port,
                not said.no_console,
                not said.no_duties,
                said.json_ready,
            )
        )
    act: commands.Act = said.act
    return asyncio.run(act(said))


def _fault(*lines: str) -> int:
    for line in lines:
        print(f"custody: {line}", file=sys.stderr)
    return _FAULT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m store", description="Custody, on the host itself.")
    commanded = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_up(commanded)
    for name, act, text in (
        ("migrate", commands.migrate_schema, "bring the database to this version"),
        (
            "verify",
            commands.verify,
            "re-derive everything that is stored; say what is wrong and what was not checked",
        ),
        ("check-config", commands.check_config, "check the settings and what they name; print them, masked"),
    ):
        _command(commanded, name, act, text)
    purge = _command(commanded, "purge", commands.purge, "do what is due to be destroyed")
    purge.add_argument("--now", action="store_true", required=True, help="all duties once; shortens nothing")
    _command(
        commanded, "restore", restore_commands.restore,
        "after an older backup was restored: bring back from the mirror what the log says of the time since",
    )  # fmt: skip
    _command(
        commanded,
        "restore-check",
        restore_commands.check,
        "say whether reads are open, what a backup lacks of the log, and which keys are missing",
    )
    _add_keys(commanded)
    _add_keys_at_rest(commanded)
    _add_log(commanded)
    _add_scopes(commanded)
    return parser


Subparsers = argparse._SubParsersAction  # noqa: SLF001 - argparse names its type nowhere else


def _command(
    commanded: "Subparsers[argparse.ArgumentParser]", name: str, act: commands.Act, text: str
) -> argparse.ArgumentParser:
    parser = commanded.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--data-dir", type=Path, help="where a stack of `up` runs (default: CUSTODY_DATA_DIR)"
    )
    parser.set_defaults(act=act)
    return parser


def _add_up(commanded: "Subparsers[argparse.ArgumentParser]") -> None:
    text = "everything at once: embedded servers where no addresses are given, api, console, writer, duties, publisher"
    parser = commanded.add_parser("up", help=text, description=text)
    parser.add_argument("--data-dir", type=Path, help="home of servers and keys (default: CUSTODY_DATA_DIR)")
    parser.add_argument("--port", type=int, help="port of the api (default: CUSTODY_PORT)")
    parser.add_argument(
        "--console-port", type=int, help="port of the console (default: CUSTODY_CONSOLE_PORT)"
    )
    parser.add_argument("--no-console", action="store_true", help="do not run the console")
    parser.add_argument("--no-duties", action="store_true", help="do not run the duties: they run elsewhere")
    parser.add_argument(
        "--json-ready",
        metavar="FILE",
        help="when ready, write url, console, first keys and pids there as JSON; - is stdout",
    )


def _add_keys(commanded: "Subparsers[argparse.ArgumentParser]") -> None:
    keys = commanded.add_parser("keys", help="keys of runtimes, reviewers, auditors, operators")
    actions = keys.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _command(actions, "create", commands.create_key, "make a key; it is shown only now")
    create.add_argument("role", choices=[role.value for role in Role])
    create.add_argument("--scope", help="the scope's name; an operator without one reaches the whole store")
    create.add_argument("--expires", default="365d", help="lifetime, such as 90d (default: 365d)")
    create.add_argument("--note", default="", help="what it is for")
    create.add_argument("--clearance", action="append", default=[], help="a tag of sources that it may read")
    listed = _command(actions, "list", commands.list_keys, "list keys, newest first")
    listed.add_argument("--scope", help="only those of this scope")
    for name, act, text in (
        (
            "rotate",
            commands.rotate_key,
            "give a key a second secret, shown only now; of two, the older one ends",
        ),
        ("retire", commands.retire_secret, "end the older of a key's two secrets"),
        ("revoke", commands.revoke_key, "end a key"),
    ):
        _command(actions, name, act, text).add_argument("key_id", help="the id in the middle of the key")


def _add_keys_at_rest(commanded: "Subparsers[argparse.ArgumentParser]") -> None:
    at_rest = commanded.add_parser("keys-at-rest", help="the keys in the key directory")
    actions = at_rest.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "make the keys that a new store needs; those that are there stay"
    init = _command(actions, "init", commands.init_keys, text)
    init.add_argument(
        "--keys-are-lost",
        action="store_true",
        help="also in a store that was used, once the owner has deleted the mark of its keys",
    )
    check = _command(
        actions, "check", key_commands.check, "look at every key that something needs, and its copies"
    )
    check.add_argument("--repair", action="store_true", help="bring back copies that are missing, then look")
    check.add_argument("--json", action="store_true", help="print what was found as JSON")
    rewrap = _command(
        actions, "rewrap", key_commands.rewrap, "change the keys of buckets, beside a running service"
    )
    rewrap.add_argument("--scope", help="only buckets of this scope, by its name")
    rewrap.add_argument("--bucket", help="only this one, by its id")
    rewrap.add_argument("--unfinished", action="store_true", help="only those of which this was begun")


def _add_log(commanded: "Subparsers[argparse.ArgumentParser]") -> None:
    log = commanded.add_parser("log", help="the proof log: how it stands, letting it go on, its keys")
    actions = log.add_subparsers(dest="action", required=True, metavar="ACTION")
    _command(actions, "status", log_commands.status, "say how the log stands, and whether its mirror agrees")
    _command(
        actions, "resume", log_commands.resume,
        "let a log go on that was rolled back, once it has again what was published",
    )  # fmt: skip
    back = _command(
        actions, "take-back", log_commands.take_back,
        "of a forked log: let wait again what the database gave places to and its mirror has not; as the owner",
    )  # fmt: skip
    back.add_argument(
        "--although-signed", action="store_true", help="also where the log's key signed another tree"
    )
    _command(
        actions,
        "write-mirror",
        log_commands.write_mirror,
        "write a mirror that was lost anew, from the database",
    )
    _command(actions, "policy", log_commands.policy, "print the policy file for `custody verify`")


def _add_scopes(commanded: "Subparsers[argparse.ArgumentParser]") -> None:
    scopes = commanded.add_parser("scopes", help="tenants or projects, and their policies")
    actions = scopes.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _command(actions, "create", commands.create_scope, "make a scope")
    create.add_argument("name")
    create.add_argument("--policy", help="a JSON file with its policy, - is stdin (default: the settings')")
    _command(actions, "list", commands.list_scopes, "list scopes")
    policy = _command(
        actions, "policy", commands.scope_policy, "show a scope's policy, or put another in its place"
    )
    policy.add_argument("name")
    policy.add_argument(
        "--set", metavar="FILE", dest="policy", help="a JSON file with the new policy, - is stdin"
    )


if __name__ == "__main__":
    sys.exit(main())
