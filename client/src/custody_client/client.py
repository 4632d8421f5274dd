"""The client of one service under one key: makes runs, and has one background thread that talks for all of them."""

import os
from _thread import allocate_lock
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from custody_client import forks
from custody_client.accounts import Account, nowhere
from custody_client.addresses import Address, address_of
from custody_client.counters import Counters
from custody_client.declarations import Declaration, declared
from custody_client.masking import Mask
from custody_client.offices import Office
from custody_client.runs import Run
from custody_client.settings import Bounds, LocalPolicy, Source
from custody_client.words import is_id

if TYPE_CHECKING:
    from custody_client.sender import Sender

_MOST_WAIT_S: Final = 2.0
# Beyond it the system's own calls raise.
_LONGEST_WAIT_S: Final = 86_400.0
# A line that is begun this long before the end is written before it.
_LAST_LINE_S: Final = 0.2


class Custody:
    """A service's address and a runtime's key. Whatever happens to either, no call of this raises or waits.

    `mask` takes the bytes of each part before it leaves and returns those that may; where it raises, is slow, or
    returns anything else, nothing leaves (`client_mask_failed`). It runs on a thread of its own.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        mask: Mask | None = None,
        bounds: Bounds | None = None,
        local: LocalPolicy | None = None,
    ) -> None:
        self.fault: str | None = None
        """Why this client does nothing, if so: what is wrong with its address or key, in our own words."""
        self.office = Office(bounds or Bounds(), self._start)
        self.office.nowhere = nowhere(self.office)
        self._mask = mask
        self._local = local
        self._thread: Thread | None = None
        self._sender: Sender | None = None
        self._starting = allocate_lock()
        self._closed = False
        self._address: Address | None = None
        try:
            self._address = address_of(url, key)
        except Exception as error:  # noqa: BLE001 - whatever was handed in, the runtime goes on
            self.fault = str(error) if type(error) is ValueError else "the address is none"
            self.office.trouble.note("settings", self.fault)
            self.office.trouble.say()
        # On its owner's thread: it hooks itself into forks, which must not happen amid one.
        import logging  # noqa: F401, PLC0415 - a process that captures nothing need not load it

        forks.look_after(self)

    @property
    def url(self) -> str:
        """Where the service is, without its key; empty where what was given is no address."""
        return "" if self._address is None else self._address.url

    @classmethod
    def from_environment(
        cls,
        *,
        mask: Mask | None = None,
        bounds: Bounds | None = None,
        local: LocalPolicy | None = None,
    ) -> Self:
        """Take the address from CUSTODY_URL, the key from CUSTODY_KEY or from the file named by CUSTODY_KEY_FILE."""
        key = os.environ.get("CUSTODY_KEY", "")
        path = os.environ.get("CUSTODY_KEY_FILE", "")
        if not key and path:
            try:
                with open(path, encoding="ascii") as file:  # noqa: PTH123 - pathlib takes longer to import
                    key = file.read(1024).strip()
            except (OSError, ValueError):
                key = ""
        return cls(os.environ.get("CUSTODY_URL", ""), key, mask=mask, bounds=bounds, local=local)

    def run(  # noqa: PLR0913 - each is a wish of its own, and all but the first by name
        self,
        run_id: str,
        *,
        mode: str = "normal",
        content: str | None = None,
        retention: str | None = None,
        labels: Mapping[str, str] | None = None,
        sources: Sequence[Source | str] = (),
        subject: str | None = None,
        shared: bool = False,
        local: LocalPolicy | None = None,
        wait: float = 0.0,
    ) -> Run:
        """Declare a run in the background, and return it; the same object for the same id.

        Said again, the strictest of all declarations holds. `content` is `allow` or `opt_out`; where it is not said,
        the scope decides. `wait` (seconds, at most 2) waits for the answer; leave it out in an event loop.
        """
        try:
            if not is_id(run_id):
                raise ValueError("the id of a run is 1 to 128 of A-Z a-z 0-9 . _ : -")  # noqa: TRY301 - noted below
            said = declared(mode, content, retention, labels, sources, subject, shared)
            run = self._run(run_id, said, local or self._local)
        except Exception as error:  # noqa: BLE001 - whatever was handed in, the runtime goes on
            text = str(error) if type(error) is ValueError else "a run cannot be declared like this"
            self.office.trouble.note("runs", text)
            return Run("", self.office.nowhere)
        if wait and (account := self.office.accounts.get(run_id)) is not None:
            account.answered.wait(min(self._seconds(wait), _MOST_WAIT_S))
        return run

    def flush(self, timeout: float = 2.0) -> bool:
        """Send what waits now, and wait for it; False if there is still something when the time is over.

        The one call that waits by its nature: in an event loop, hand it to a thread.
        """
        if self._closed or not self.office.accounts:
            return not self.office.accounts
        done = Event()
        self.office.flushes.append(done)
        self.office.press()
        finished = done.wait(self._seconds(timeout))
        self.office.urgent = False
        return finished and self.office.room.parts == 0

    def close(self, timeout: float = 2.0) -> None:
        """Flush, for at most so long, and end the background thread; what is left is `client_shutdown`."""
        if self._closed:
            return
        self._closed = True
        timeout = self._seconds(timeout)
        until = monotonic() + timeout
        self.office.trouble.silent_at = until - min(_LAST_LINE_S, timeout / 8)
        self.office.ending_at = until
        thread = self._thread
        if thread is not None and thread.is_alive():
            self.office.press()
            thread.join(max(0.0, until - monotonic()))
        elif self._address is not None and any(
            each.last or each.facts for each in list(self.office.accounts.values())
        ):
            # In a forked process that only counted, or where no thread can be started any more.
            self.office.urgent = self.office.hurry = True
            self._talk(self._address, finish=True)
        for account in list(self.office.accounts.values()):
            account.standing = None

    def counters(self) -> Counters:
        """Return what became of everything that was observed in this process."""
        office = self.office
        accounts = list(office.accounts.values())
        lost: dict[str, int] = {**office.forgotten}
        for counts in (office.refused, *(account.ledger.counts for account in accounts)):
            for reason, number in list(counts.items()):
                lost[reason] = lost.get(reason, 0) + number
        observed = office.observed + sum(account.last for account in accounts)
        waiting = office.room.parts
        return Counters(
            observed=observed,
            waiting=waiting,
            waiting_bytes=office.room.bytes,
            delivered=office.delivered,
            not_captured=lost,
            undecided=max(0, observed - waiting - office.delivered - sum(lost.values())),
            untold=sum(account.ledger.gather() for account in accounts),
            facts_told=office.tally.told,
            facts_waiting=sum(len(account.facts) for account in accounts),
            facts_lost=office.tally.lost(),
            troubles=dict(office.trouble.counts),
            requests=office.requests,
            unanswered=office.unanswered,
        )

    def begin_again(self) -> None:
        """Begin anew in a forked process; called by `forks` alone."""
        self._thread = None
        self._starting = allocate_lock()
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.hang_up()
        self.office.begin()

    # --- within

    def _seconds(self, asked: float) -> float:
        """Return a time that can be waited for: of what is no number, the usual one."""
        try:
            return min(max(0.0, float(asked)), _LONGEST_WAIT_S)
        except (TypeError, ValueError, OverflowError):
            self.office.trouble.note("waiting", "a time to wait is a number of seconds")
            return _MOST_WAIT_S

    def _run(self, run_id: str, said: Declaration, local: LocalPolicy | None) -> Run:
        office = self.office
        account = office.accounts.get(run_id)
        if account is None:
            if self._address is None or self._closed:
                return Run(run_id, office.nowhere)
            if len(office.accounts) >= office.bounds.runs:
                raise ValueError("too many runs are open; close them at their end")
            made = Account(office, run_id, said, local)
            made.run = Run(run_id, made)
            # Whichever thread is first: what is captured into any other account would be nobody's.
            account = office.accounts.setdefault(run_id, made)
            if account is made:
                made.mark()
                return made.run
        account.narrow(said)
        return account.run or Run(run_id, office.nowhere)

    def _start(self) -> None:
        """Start the background thread, unless there is one; nobody waits for anybody here."""
        thread = self._thread
        if self._address is None or self._closed or (thread is not None and thread.is_alive()):
            return
        if not self._starting.acquire(False):  # noqa: FBT003 - the lock's own way
            return
        try:
            self._thread = Thread(
                target=self._talk, args=(self._address,), name="custody-sender", daemon=True
            )
            self._thread.start()
        except RuntimeError:
            # The interpreter ends, and `close` does what the thread would have done; or there are too many threads
            # just now, and whoever marks a run next tries again.
            self._thread = None
            self.office.rest()
        finally:
            self._starting.release()

    def _talk(self, address: Address, *, finish: bool = False) -> None:
        try:
            with forks.Loading.lock:
                self._sender = sender = _sender(self.office, address, self._mask)
            if finish:
                sender.finish()
            else:
                sender.work()
        except Exception as error:  # noqa: BLE001 - the runtime goes on
            self.office.trouble.note("sender", f"the sender ended: {type(error).__name__}")


def _sender(office: Office, address: Address, mask: Mask | None) -> "Sender":
    """Import what talks to the service, and all that it needs later: it takes longer than a runtime should wait."""
    import encodings.idna  # noqa: F401, PLC0415 - as said above

    from custody_client.sender import Sender  # noqa: PLC0415 - as said above

    if address.secure:
        import ssl  # noqa: F401, PLC0415 - as said above
    return Sender(office, address, mask)
