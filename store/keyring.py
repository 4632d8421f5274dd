"""Which key is for what: bucket keys, the hours' intake keys, and the keys of our signed texts.

Keys are remembered in this process only and for at most a minute: a destroyed one is soon gone everywhere.
A remembered key never lets anybody skip the state of the row that it opens.
"""

import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args
from uuid import UUID

from policies.reasons import Reason
from store import errors, ids
from store.commitments import SECRET_BYTES, Intake, IntakeKey
from store.key_directory import KeyDirectory, Role

Purpose = Literal["ticket", "cursor", "receipt", "sampling", "lookup", "bundle"]

REMEMBERED_S: Final = 60.0

# How often a name that is missing makes us look at the directory again.
_RELIST_S: Final = 1.0
_MOST_REMEMBERED: Final = 4096

_LOOKUP_MARK: Final = b"custody/v1/lookup/mark"
_LOG: Final = "log"
_INTAKE_NAME: Final = re.compile(r"(\d{10})-([0-9a-f]{16})")
_HOUR: Final = "%Y%m%d%H"
_HOUR_S: Final = 3600
_BUCKET_NAME: Final = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{32})")


@dataclass(slots=True)
class _Remembered:
    """Secrets by name, each for at most REMEMBERED_S; the oldest make room."""

    clock: Callable[[], float]
    kept: dict[str, tuple[bytes, float]] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> bytes | None:
        found = self.kept.get(name)
        if found is None:
            return None
        secret, until = found
        if self.clock() < until:
            return secret
        del self.kept[name]
        return None

    def put(self, name: str, secret: bytes) -> None:
        while len(self.kept) >= _MOST_REMEMBERED:
            self.kept.pop(next(iter(self.kept)), None)
        self.kept[name] = (secret, self.clock() + REMEMBERED_S)

    def drop(self, suffix: str) -> None:
        # A copy made at once: keys are destroyed in a thread, beside others that are read.
        for name in list(self.kept):
            if name.endswith(suffix):
                self.kept.pop(name, None)


@dataclass(frozen=True, slots=True)
class _Sealing:
    """What seals under one hour's key, and until when it is remembered."""

    intake: Intake = field(repr=False)
    begins: datetime
    ends: datetime
    until: float


class Keyring:
    """The keys of one process. Only duties call what creates and destroys."""

    def __init__(self, directory: KeyDirectory, clock: Callable[[], float]) -> None:
        self.directory = directory
        self._clock = clock
        self._remembered: dict[Role, _Remembered] = {
            "bucket": _Remembered(clock),
            "intake": _Remembered(clock),
        }
        self._tokens: dict[Purpose, bytes] = {}
        self._disowned = False
        self._hours: dict[int, str] = {}
        self._sealing: _Sealing | None = None
        self._intake_names: dict[bytes, str] = {}
        self._listed_at = float("-inf")

    # --- bucket keys

    def bucket_key(self, scope: UUID, bucket: UUID) -> bytes:
        """Return a bucket's key; Corrupt (key_lost) if there is none."""
        return self._secret("bucket", bucket_name(scope, bucket))

    def has_bucket_key(self, scope: UUID, bucket: UUID) -> bool:
        """Whether the key is in the directory now; nothing remembered counts."""
        return self.directory.read("bucket", bucket_name(scope, bucket)) is not None

    def create_bucket_key(self, scope: UUID, bucket: UUID) -> bool:
        """Make a bucket's key; False if it has one, which is kept."""
        return self.directory.create("bucket", bucket_name(scope, bucket), ids.secret(SECRET_BYTES))

    def destroy_bucket_key(self, scope: UUID, bucket: UUID) -> None:
        """Make the expiry of a bucket final, in every backup too."""
        self.destroy_bucket_keys([(scope, bucket)])

    def destroy_bucket_keys(self, buckets: Collection[tuple[UUID, UUID]]) -> None:
        """Do the same for many, of (scope, bucket) each, in one go."""
        self.directory.destroy("bucket", *(bucket_name(*each) for each in buckets))
        for _, bucket in buckets:
            self.drop(bucket)

    def drop(self, bucket: UUID) -> None:
        """Forget a bucket's key in this process."""
        self._remembered["bucket"].drop(bucket.hex)

    def bucket_keys(self) -> set[tuple[UUID, UUID]]:
        """Return (scope, bucket) of every key in the directory, for the daily check."""
        found = (_BUCKET_NAME.fullmatch(name) for name in self.directory.names("bucket"))
        return {(UUID(match[1]), UUID(match[2])) for match in found if match}

    # --- intake keys

    def current_intake_key(self, now: datetime) -> IntakeKey:
        """Return the key of this hour; Unavailable (queue_unavailable) if no duty has made it."""
        hour = _hour_of(now)
        name = self._hours.get(hour)
        if name is None:
            self._relist()
            name = self._hours.get(hour)
        secret = None if name is None else self._read("intake", name)
        if name is None or secret is None:
            raise errors.Unavailable(Reason.QUEUE_UNAVAILABLE, "no intake key of this hour")
        return IntakeKey(_intake_id(name), secret)

    def current_intake(self, now: datetime) -> Intake:
        """Return what seals under the key of this hour; kept like the key itself, and no longer than its hour."""
        kept = self._sealing
        if kept is None or not kept.begins <= now < kept.ends or self._clock() >= kept.until:
            begins = datetime.fromtimestamp(_hour_of(now) * _HOUR_S, UTC)
            intake = Intake(self.current_intake_key(now))
            kept = _Sealing(intake, begins, begins + timedelta(hours=1), self._clock() + REMEMBERED_S)
            self._sealing = kept
        return kept.intake

    def intake_key(self, key_id: bytes) -> IntakeKey:
        """Return an intake key by its id; Corrupt (key_lost) if it was destroyed."""
        return IntakeKey(key_id, self.intake_secret(key_id))

    def intake_secret(self, key_id: bytes) -> bytes:
        """Return an intake key's secret, as opening a queued body asks for it."""
        if key_id not in self._intake_names:
            self._relist()
        name = self._intake_names.get(key_id)
        if name is None:
            raise errors.Corrupt(Reason.KEY_LOST)
        return self._secret("intake", name)

    def intake_keys(self) -> list[tuple[datetime, bytes]]:
        """Return (start of its hour, id) of every intake key in the directory, oldest first."""
        names = sorted(filter(_INTAKE_NAME.fullmatch, self.directory.names("intake")))
        return [(_start(name), _intake_id(name)) for name in names]

    def create_intake_keys(self, now: datetime, ahead: int) -> list[bytes]:
        """Make the keys of this hour and the `ahead` next that have none; return the ids of those made."""
        have = {_hour_of(start) for start, _ in self.intake_keys()}
        starts = [now + timedelta(hours=offset) for offset in range(ahead + 1)]
        made = [(start, ids.secret(8)) for start in starts if _hour_of(start) not in have]
        for start, key_id in made:
            self.directory.create("intake", intake_name(start, key_id), ids.secret(SECRET_BYTES))
        return [key_id for _, key_id in made]

    def destroy_intake_key(self, key_id: bytes) -> None:
        """Make what it sealed unreadable, wherever copies of the queue may be."""
        for name in self.directory.names("intake"):
            if name.endswith(f"-{key_id.hex()}"):
                self.directory.destroy("intake", name)
        self._remembered["intake"].drop(f"-{key_id.hex()}")
        self._sealing = None

    # --- keys of signed texts and keyed hashes

    def token_key(self, purpose: Purpose) -> bytes:
        """Return the key of one purpose; Unavailable until `create_token_keys` was run, and once disowned."""
        if self._disowned:
            raise errors.Unavailable(Reason.STORE_UNAVAILABLE, "the keys of another store")
        key = self._tokens.get(purpose)
        if key is None:
            key = self.directory.read("token", purpose)
            if key is None:
                raise errors.Unavailable(Reason.STORE_UNAVAILABLE, f"no {purpose} key")
            self._tokens[purpose] = key
        return key

    def create_token_keys(self) -> None:
        """Make every token key that is not there; they stay for good, since hashes under them do.

        Only who sets a store up calls this: a process that made its own would find nothing that others hashed.
        """
        for purpose in get_args(Purpose):
            self.directory.create("token", purpose, ids.secret(SECRET_BYTES))

    def missing_token_keys(self) -> list[Purpose]:
        """Return the purposes that have no key."""
        have = self.directory.names("token")
        return [purpose for purpose in get_args(Purpose) if purpose not in have]

    def lookup_mark(self) -> bytes:
        """Return what tells whether it is the same lookup key elsewhere, and nothing else of it."""
        return hmac.digest(self.token_key("lookup"), _LOOKUP_MARK, "sha256")

    def disown(self) -> None:
        """Give out no token key any more: they turned out to be another store's."""
        self._disowned = True

    # --- the key that signs the log

    def signing_seed(self) -> bytes | None:
        """Return the seed of the log's signing key, None where there is none; for the publisher alone."""
        return self.directory.read("signing", _LOG) if _LOG in self.directory.names("signing") else None

    def create_signing_key(self) -> bool:
        """Make the log's signing key; False if there is one, which is kept."""
        return self.directory.create("signing", _LOG, ids.secret(SECRET_BYTES))

    def _secret(self, role: Role, name: str) -> bytes:
        secret = self._read(role, name)
        if secret is None:
            raise errors.Corrupt(Reason.KEY_LOST)
        return secret

    def _read(self, role: Role, name: str) -> bytes | None:
        remembered = self._remembered[role]
        secret = remembered.get(name)
        if secret is None:
            secret = self.directory.read(role, name)
            if secret is not None:
                remembered.put(name, secret)
        return secret

    def _relist(self) -> None:
        if self._clock() - self._listed_at < _RELIST_S:
            return
        # Sorted, so that where two duties made a key for one hour every process uses the same one.
        names = sorted(filter(_INTAKE_NAME.fullmatch, self.directory.names("intake")), reverse=True)
        self._hours = {_hour_of(_start(name)): name for name in names}
        self._intake_names = {_intake_id(name): name for name in names}
        self._listed_at = self._clock()


def bucket_name(scope: UUID, bucket: UUID) -> str:
    """Return what a bucket's key is called in the key directory."""
    return f"{scope.hex}.{bucket.hex}"


def _hour_of(instant: datetime) -> int:
    return int(instant.timestamp()) // _HOUR_S


def intake_name(start: datetime, key_id: bytes) -> str:
    """Return what an hour's intake key is called there."""
    return f"{start.astimezone(UTC).strftime(_HOUR)}-{key_id.hex()}"


def _start(name: str) -> datetime:
    return datetime.strptime(name.partition("-")[0], _HOUR).replace(tzinfo=UTC)


def _intake_id(name: str) -> bytes:
    return bytes.fromhex(name.partition("-")[2])
