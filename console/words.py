"""Every reason in a sentence, and what to do about it: as an outcome of an observation, and as the answer of a read.

docs/reasons.md says more of each; a test holds these complete against policies/reasons.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policies.reasons import Mark, Reason
from store.services.refusals import title


@dataclass(frozen=True, slots=True)
class Words:
    """What a reason is called, what it means for whoever looks, and what can be done."""

    name: str
    sentence: str
    advice: str


_NOTHING: Final = "Nothing needs to be done."
_FOR_GOOD: Final = "Nothing brings it back."

_OUTCOMES: Final[Mapping[Reason, tuple[str, str]]] = MappingProxyType(
    {
        Reason.TEMPORARY_MODE: (
            "The run was declared temporary, so its content was never looked at.",
            f"{_NOTHING} The runtime asked for this.",
        ),
        Reason.CONTENT_OPT_OUT: (
            "The run, or its scope, opted out of keeping content, so it was never looked at.",
            f"{_NOTHING} An opt-out is never taken back.",
        ),
        Reason.NOT_SAMPLED: (
            "The run was not drawn when it was declared: the scope keeps only a share of its runs.",
            "An operator may raise the scope's sampling rate, for runs that are declared from then on.",
        ),
        Reason.KIND_NOT_ADMITTED: (
            "The scope or the run does not admit parts of this kind.",
            "An operator may admit the kind in the scope's policy.",
        ),
        Reason.RUN_NOT_ADMITTED: (
            "The run was not declared, or its declaration was refused, before the part arrived.",
            "The runtime must declare the run before its first capture.",
        ),
        Reason.RUN_CLOSED: (
            "The run was closed before the part arrived.",
            "The runtime should close later, or use another run.",
        ),
        Reason.TICKET_INVALID: (
            "The ticket that came with the part is not one for this run and this key.",
            "The runtime must declare the run with the key that it captures with.",
        ),
        Reason.TICKET_EXPIRED: (
            "The ticket that came with the part was too old, or older than the scope's policy.",
            "The runtime must declare the run again and use the new ticket.",
        ),
        Reason.RETENTION_EXPIRED: (
            "The run's retention had ended before the part arrived or was written.",
            _FOR_GOOD,
        ),
        Reason.SOURCE_REVOKED: (
            "The content depended on a source that was revoked.",
            "The runtime should leave the source out, or an operator may restore it while it is not destroyed.",
        ),
        Reason.SOURCE_UNKNOWN: (
            "The content depended on a source, or a version of one, that the scope does not know.",
            "An operator may register the source, or let the scope take unknown ones.",
        ),
        Reason.DEPENDENCY_CHANGED: (
            "The content depended on a version of a source that was withdrawn.",
            "The runtime should bind a version that is readable.",
        ),
        Reason.IDENTITY_CONFLICT: (
            "Other bytes were already stored under the same identity; the first ones stay.",
            "The runtime should give each attempt an id of its own.",
        ),
        Reason.ERASED: (
            "What had this identity was erased before; it is never stored again.",
            _FOR_GOOD,
        ),
        Reason.PART_TOO_LARGE: (
            "The part was larger than the scope allows for one part.",
            "The client can leave media out; an operator may raise part_bytes.",
        ),
        Reason.CAPACITY_EXCEEDED: (
            "Too much was already waiting to be written, or the disk was full.",
            "Operators should look at the queue, at the writers and at the size of the database.",
        ),
        Reason.RUN_PART_LIMIT: (
            "The run already held as many parts as a run of this scope may.",
            "The runtime can use several runs; an operator may raise run_parts.",
        ),
        Reason.RUN_BYTE_LIMIT: (
            "The run already held as many bytes as a run of this scope may.",
            "The runtime can use several runs; an operator may raise run_bytes.",
        ),
        Reason.ENCODING_FAILED: (
            "What was sent was not a frame that could be read.",
            "This is a fault of the sender: report it.",
        ),
        Reason.DIGEST_MISMATCH: (
            "What arrived was not what its own digest said.",
            "It was damaged on the way, or the sender has a fault.",
        ),
        Reason.INTERRUPTED: (
            "The capture was cut off, or arrived too slowly.",
            "Look at the network between runtime and store.",
        ),
        Reason.WRITE_FAILED: (
            "It was queued, and the database refused it for itself alone, after several tries.",
            "Operators: the log of the writers names the cause.",
        ),
        Reason.QUEUE_ENTRY_LOST: (
            "It was queued, and is found nowhere: the queue's machine lost it.",
            "Operators: look at when the queue was lost, and at how its data is kept.",
        ),
        Reason.QUEUE_UNAVAILABLE: (
            "The write queue was away when it was captured.",
            "Operators: look at Redis or Valkey. This was an outage, not a refusal.",
        ),
        Reason.STORE_UNAVAILABLE: (
            "The database was away when it was captured.",
            "Operators: look at Postgres. This was an outage, not a refusal.",
        ),
        Reason.CLIENT_QUEUE_FULL: (
            "The runtime captured faster than its client could send.",
            "Raise the client's buffer, or sample.",
        ),
        Reason.CLIENT_SHUTDOWN: (
            "The runtime ended before everything in its client's buffer was sent.",
            "Flush before the end, or allow it more time.",
        ),
        Reason.CLIENT_UNSERIALISABLE: (
            "The runtime handed in something that cannot be made bytes.",
            "The client's log names its type and where it was.",
        ),
        Reason.CLIENT_MASK_FAILED: (
            "The runtime's own mask failed, was slow, or gave nothing; unmasked content never leaves it.",
            "Repair the mask.",
        ),
        Reason.CLIENT_TRANSPORT: (
            "The client got no answer from the store.",
            "Look at the network. A later answer may still take this gap's place.",
        ),
        Reason.NOT_OBSERVED: (
            "The runtime knows that there was something here, and that it could not see it.",
            _NOTHING,
        ),
        Reason.UNACCOUNTED: (
            "The session numbered this observation, and nobody ever told what became of it.",
            "Look at how the runtime ended: it may have been killed with something in its hands.",
        ),
    }
)

_READS: Final[Mapping[Reason, tuple[str, str]]] = MappingProxyType(
    {
        Reason.PERMISSION_DENIED: (
            "It is there, and your key's role or clearances do not reach it.",
            "An operator can make a key that does, which a second operator confirms.",
        ),
        Reason.EXPIRED_HELD: (
            "Its retention has ended, and a hold keeps it: only a custodian may read it.",
            "Ask a custodian, who must say a purpose.",
        ),
        Reason.NOT_FOUND: (
            "There is nothing here that your key can see.",
            "Look at the address. What never existed and what belongs to another scope look the same.",
        ),
        Reason.NOT_STORED: (
            "The observation did not become a part.",
            "Its gap says why.",
        ),
        Reason.RETENTION_EXPIRED: (
            "Its retention has ended: the content is gone, and its key was or is being destroyed.",
            _FOR_GOOD,
        ),
        Reason.ERASED: (
            "It was erased: the content is gone, here and in every backup.",
            _FOR_GOOD,
        ),
        Reason.LOST_IN_RESTORE: (
            "It was stored, and the backup that was restored since does not hold it.",
            _FOR_GOOD,
        ),
        Reason.SOURCE_UNAVAILABLE: (
            "It depends on a source that is revoked, or that the scope does not know.",
            "While it is not destroyed, an operator may restore the source.",
        ),
        Reason.DEPENDENCY_CHANGED: (
            "It depends on a version of a source that was withdrawn.",
            "While it is not destroyed, an operator may make the version readable again.",
        ),
        Reason.KEY_LOST: (
            "The key that opens it is gone, and nothing says that it should be. No byte of it is shown.",
            "Operators: this is an alarm. Look for the key's second copy.",
        ),
        Reason.INTEGRITY_MISMATCH: (
            "What is stored is not what was committed to. No byte of it is shown.",
            "Operators: this is an alarm. The proof log says what was there.",
        ),
        Reason.READS_CLOSED: (
            "No evidence is shown now: the proof log is stopped, was not compared in time, or a restore runs.",
            "Captures go on. An operator finds out why, and opens reads again.",
        ),
        Reason.STORE_UNAVAILABLE: (
            "The database does not answer.",
            "This is an outage, not a refusal: try again in a moment.",
        ),
        Reason.QUEUE_UNAVAILABLE: (
            "The write queue does not answer.",
            "This is an outage, not a refusal: try again in a moment.",
        ),
        Reason.MALFORMED_REQUEST: (
            "The request cannot be understood.",
            "Look at the address and at what was filled in.",
        ),
        Reason.CURSOR_INVALID: (
            "This page of a list is over: it was of another filter or key, or older than a day.",
            "Begin at the first page.",
        ),
        Reason.UNAUTHENTICATED: (
            "You are not signed in, or not any more.",
            "Sign in again.",
        ),
        Reason.LENGTH_REQUIRED: (
            "The request has a body without a length.",
            "Use a browser's own forms.",
        ),
        Reason.UNSUPPORTED_MEDIA: (
            "The request has a body of a form that is not taken here.",
            "Use a browser's own forms.",
        ),
        Reason.INTERNAL: (
            "Something went wrong here, and it is our fault.",
            "Operators: the log line of the request names it.",
        ),
    }
)

OVERDUE: Final = Words(
    "Write timeout",
    "It was accepted a while ago and is not written yet.",
    "It is still queued. Ask again later.",
)


def of(reason: Reason) -> Words:
    """Return the words of a reason as an outcome; as an answer where it can only be that."""
    return _words(reason, _OUTCOMES.get(reason) or _READS[reason])


def at_read(reason: Reason) -> Words:
    """Return the words of a reason as the answer of a read; as an outcome where it can only be that."""
    return _words(reason, _READS.get(reason) or _OUTCOMES[reason])


def of_mark(mark: Mark) -> Words:
    """Return the words of a mark."""
    return {Mark.WRITE_TIMEOUT: OVERDUE}[mark]


def _words(reason: Reason, said: tuple[str, str]) -> Words:
    return Words(title(reason), *said)
