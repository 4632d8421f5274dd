"""Done means that the thing is there: evidence per promised item, structured failures, no vain retries."""

from custody_toolchain.delivery.changes import Change, Changes, VersionConflict
from custody_toolchain.delivery.commands import Begun, Build, Command, Commands, Ran, Stopped
from custody_toolchain.delivery.diagnosis import Diagnosis, Known, diagnose
from custody_toolchain.delivery.failures import Failure, Output, bounded
from custody_toolchain.delivery.files import FileVersion, version_of
from custody_toolchain.delivery.items import (
    CommandItem,
    Delivered,
    Evidence,
    FileItem,
    Item,
    ItemReport,
    PredicateItem,
    Started,
    Verdict,
    as_json,
    as_text,
)
from custody_toolchain.delivery.ledger import Delivery

__all__ = [
    "Begun",
    "Build",
    "Change",
    "Changes",
    "Command",
    "CommandItem",
    "Commands",
    "Delivered",
    "Delivery",
    "Diagnosis",
    "Evidence",
    "Failure",
    "FileItem",
    "FileVersion",
    "Item",
    "ItemReport",
    "Known",
    "Output",
    "PredicateItem",
    "Ran",
    "Started",
    "Stopped",
    "Verdict",
    "VersionConflict",
    "as_json",
    "as_text",
    "bounded",
    "diagnose",
    "version_of",
]
