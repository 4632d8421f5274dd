"""Whether a runtime's captures would arrive: address, key, clock, admission and delivery, each said in words.

It declares a run of its own, posts one small part and asks what became of it. No line of it holds the key.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from custody_client.addresses import address_of
from custody_client.transport import Answer, Deadline, Unanswered, Wire

State = Literal["ok", "failed", "not_checked"]

CHECKS: Final = ("address", "key", "clock", "admission", "delivery")
# `Date` counts whole seconds; more than this is not the network.
_CLOCK_S: Final = 5.0
_RETENTION: Final = "1h"
_OK, _UNAUTHORIZED, _FORBIDDEN = 200, 401, 403
_CAUSES: Final = {
    "ConnectionRefusedError": "nobody listens there",
    "TimeoutError": "no answer in time",
    "gaierror": "no such host",
}
_CONTENT: Final = {"check": "custody-client", "says": "posted by its doctor; nothing was called"}


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    check: str
    state: State
    words: str

    def __str__(self) -> str:
        """Write it as one line."""
        return f"{self.check:<9} {self.state.replace('_', ' '):<11} {self.words}"


class Report(msgspec.Struct, frozen=True):
    """All findings, in the order in which they were made; a check that could not be made says why."""

    findings: list[Finding]

    @property
    def exit(self) -> int:
        """0: all is well; 1: something is not; 3: nothing failed, but something could not be checked."""
        states = {finding.state for finding in self.findings}
        return 1 if "failed" in states else 3 if "not_checked" in states else 0

    def __str__(self) -> str:
        """Write one line a finding."""
        return "\n".join(map(str, self.findings))


class Trouble(Exception):
    """A check failed; its text is for people. What comes after it cannot be checked."""


class NotNow(Exception):
    """A check cannot be made, and that is nobody's fault."""


def doctor(
    url: str | None = None,
    key: str | None = None,
    *,
    timeout: float = 5.0,
    now: Callable[[], datetime] = _utc_now,
) -> Report:
    """Check against a service; what is not given is taken from the environment, as `Custody.from_environment` does."""
    visit = _Visit(url or os.environ.get("CUSTODY_URL", ""), key or "", timeout, now)
    return Report(list(_findings((visit.address, visit.key, visit.clock, visit.admission, visit.delivery))))


def _findings(steps: tuple[Callable[[], str], ...]) -> Iterator[Finding]:
    stopped = ""
    for check, step in zip(CHECKS, steps, strict=True):
        if stopped:
            yield Finding(check, "not_checked", stopped)
            continue
        try:
            yield Finding(check, "ok", step())
        except NotNow as why:
            yield Finding(check, "not_checked", str(why))
        except Trouble as why:
            yield Finding(check, "failed", str(why))
            # A clock that is wrong stops nothing.
            stopped = "" if check == "clock" else f"since {check} failed"


class _Visit:
    """One doctor's visit: what is found out on the way is needed by later checks."""

    def __init__(self, url: str, key: str, timeout: float, now: Callable[[], datetime]) -> None:
        self._url, self._key, self._timeout, self._now = url, key, timeout, now
        self._run = f"custody-check-{uuid.uuid4().hex[:12]}"
        self._shown = ""
        self._offset_s: float | None = None
        self._declared: tuple[int, dict[str, Any]] = (0, {})

    def address(self) -> str:
        self._reach(self._url, "none")
        answer = self._ask("GET", "/livez")
        if answer.status != _OK or _decoded(answer.body).get("status") != "alive":
            raise Trouble(f"{self._shown} answers {answer.status}, but not as a Custody service does")
        self._offset_s = _offset_s(answer.headers.get("date", ""), self._now())
        return f"{self._shown} answers"

    def key(self) -> str:
        self._key = self._key or _key_in(os.environ)
        self._reach(self._url, self._key)
        answer = self._ask("PUT", f"/v1/runs/{self._run}", {"retention": _RETENTION})
        self._declared = answer.status, _decoded(answer.body)
        if answer.status == _UNAUTHORIZED:
            raise Trouble("the service does not know this key, or it has ended")
        if answer.status == _FORBIDDEN:
            raise Trouble("the service knows this key, but not as a runtime's")
        return "the service takes it as a runtime's"

    def clock(self) -> str:
        if self._offset_s is None:
            raise NotNow("the service does not say its time")
        # The service's second may have begun up to one ago.
        off_s = 0.0 if 0 <= self._offset_s <= 1 else self._offset_s
        words = f"{abs(off_s):.0f} s {'before' if off_s > 0 else 'behind'} the service's"
        if abs(off_s) > _CLOCK_S:
            raise Trouble(f"{words}: times of capture will be wrong by as much")
        return "as the service's, to the second" if abs(off_s) < 1 else words

    def admission(self) -> str:
        status, answer = self._declared
        if status not in {200, 201, 202}:
            raise Trouble(f"a run was not declared: {status} {_reason(answer)}")
        if not answer.get("admitted"):
            # A refusal is an answer; that there is one works.
            return f"answered; this run is not admitted: {_reason(answer)}"
        return f"admitted: {', '.join(answer['kinds'])}, kept until {answer['retain_until']}"

    def delivery(self) -> str:
        from custody_client.client import Custody  # noqa: PLC0415 - it offers this module

        if not self._declared[1].get("admitted"):
            raise NotNow("the run was not admitted, so nothing may be posted")
        began = time.monotonic()
        custody = Custody(self._url, self._key)
        try:
            run = custody.run(self._run, retention=_RETENTION, wait=min(2.0, self._timeout))
            run.exchange("check").attempt("1").capture_request(_CONTENT)
            custody.flush(self._timeout)
            counted = custody.counters()
            run.close()
        finally:
            custody.close(self._timeout)
        if counted.delivered != 1:
            raise Trouble(f"a part was not delivered: {', '.join(counted.not_captured) or 'no answer'}")
        return self._became(began)

    def _became(self, began: float) -> str:
        path = f"/v1/runs/{self._run}/exchanges/check/attempts/1/parts/logical-request"
        while time.monotonic() < began + self._timeout:
            answer = self._ask("GET", path)
            receipt = _decoded(answer.body)
            if receipt.get("capture") == "stored":
                return f"a part was stored within {time.monotonic() - began:.1f} s"
            if receipt.get("capture") == "not_captured":
                raise Trouble(f"a part was taken, and then not stored: {_reason(receipt)}")
            time.sleep(0.05)
        raise Trouble(
            f"a part was taken (queued), but not stored within {self._timeout:.0f} s: does a writer run?"
        )

    def _reach(self, url: object, key: object) -> None:
        try:
            address = address_of(url, key)
        except ValueError as error:
            raise Trouble(str(error)) from None
        self._shown = address.url
        self._wire = Wire(address)

    def _ask(self, method: str, path: str, said: object = None) -> Answer:
        body = b"" if said is None else msgspec.json.encode(said)
        headers = {"Content-Type": "application/json"} if body else {}
        deadline = Deadline(time.monotonic() + self._timeout, _no_hurry)
        try:
            return self._wire.request(method, path, headers, body, deadline)
        except Unanswered as error:
            raise Trouble(f"{self._shown}: {_CAUSES.get(error.cause, error.cause)}") from None
        finally:
            self._wire.close()


def _no_hurry(_: Deadline) -> None:
    """Let a deadline stand as it is."""


def _key_in(environment: Mapping[str, str]) -> str:
    if key := environment.get("CUSTODY_KEY"):
        return key
    file = environment.get("CUSTODY_KEY_FILE")
    if not file:
        raise Trouble("none: set CUSTODY_KEY, or CUSTODY_KEY_FILE to the name of a file that holds it")
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise Trouble(
            f"the file that CUSTODY_KEY_FILE names cannot be read: {type(error).__name__}"
        ) from None


def _offset_s(date: str, now: datetime) -> float | None:
    """Return by how much our clock is before that of an answer."""
    try:
        return (now - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):
        return None


def _reason(answer: Mapping[str, Any]) -> str:
    return str(answer.get("reason") or "no reason given")


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
