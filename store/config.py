"""The settings of a process: the one place where the environment is read, once, and never written."""

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from policies.capacity import BODY_SHARE
from policies.limits import RunLimits, ScopeLimits, ShardLimits
from policies.scope_policy import ScopePolicy
from store.errors import ConfigFaults
from store.forms import Secret
from store.settings import PREFIX, SETTINGS, Setting

__all__ = [
    "SETTINGS",
    "Secret",
    "Settings",
    "describe_markdown",
    "environment_of_child",
    "from_environment",
    "in_environment",
]

# Read by the tests alone, so not ours to judge.
_TESTS: Final = PREFIX + "TEST_"
# What the client reads: whoever tries it out beside the service has them in the same environment.
_CLIENTS: Final = tuple(PREFIX + name for name in ("URL", "KEY", "KEY_FILE", "RUN", "CLOSE", "LOCAL"))
_FILE: Final = "_FILE"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, checked. What each means stands in store/settings.py and docs/settings.md."""

    database_url: Secret | None
    owner_database_url: Secret | None
    duties_database_url: Secret | None
    redis_url: Secret | None
    arq_redis_url: Secret | None
    data_dir: Path
    keys_dir: Path
    keys_copy_dir: Path | None
    token_keys_dir: Path
    signing_keys_dir: Path
    log_origin: str
    mirror_dir: Path
    reads_lease: timedelta
    host: str
    port: int
    public_url: str | None
    header_bytes: int
    body_budget: int
    body_deadline: timedelta
    flush_bytes: int
    flush_frames: int
    waiters: int
    wait_max: timedelta
    page_examined: int
    console_host: str
    console_port: int
    console_public_url: str | None
    console_idle: timedelta
    console_session: timedelta
    console_forwarded: bool
    console_proxy_secret: Secret | None
    queue_shards: int
    shard_parts: int
    shard_bytes: int
    shard_notes: int
    disk_limit: int | None
    part_bytes: int
    run_parts: int
    run_bytes: int
    run_waiting_parts: int
    run_waiting_bytes: int
    run_waiting_notes: int
    scope_waiting_parts: int
    scope_waiting_bytes: int
    scope_share: float
    retention_default: timedelta
    retention_max: timedelta
    metadata_retention: timedelta
    destroy_after: timedelta
    hold_grace: timedelta
    bucket_span: timedelta
    ticket_lifetime: timedelta
    key_refresh: timedelta
    key_grace: timedelta
    run_view_age: timedelta
    closing: timedelta
    never_closed: timedelta
    overdue_after: timedelta
    writer_batch: int
    reclaim_idle: timedelta
    max_deliveries: int
    run_facts: int
    db_pool: int
    canary: bool
    build_commit: str
    log_level: str

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings of an environment; ConfigFaults names every fault at once, and no value."""
        faults = list(_unknown(environ))
        values = {setting.field: _read(setting, environ, faults) for setting in SETTINGS}
        if not faults:
            settings = cls(**_completed(values))
            faults = [fault for holds, fault in _RULES if not holds(settings)]
        if faults:
            raise ConfigFaults(faults)
        return settings

    def describe(self) -> str:
        """Return the effective settings as one would write them, a line each, with secrets masked."""
        lines = []
        for setting in SETTINGS:
            value = getattr(self, setting.field)
            lines.append(f"{setting.env}={'' if value is None else setting.form.write(value)}")
        return "\n".join(lines)

    def shard_limits(self) -> ShardLimits:
        """Return what may wait in one shard."""
        return ShardLimits(parts=self.shard_parts, bytes=self.shard_bytes, notes=self.shard_notes)

    def scope_policy(self) -> ScopePolicy:
        """Return the policy that a new scope gets."""
        return ScopePolicy(
            retention_default_s=_seconds(self.retention_default),
            retention_max_s=_seconds(self.retention_max),
            metadata_retention_s=_seconds(self.metadata_retention),
            destroy_after_s=_seconds(self.destroy_after),
            run_limits=RunLimits(
                part_bytes=self.part_bytes,
                run_parts=self.run_parts,
                run_bytes=self.run_bytes,
                run_waiting_parts=self.run_waiting_parts,
                run_waiting_bytes=self.run_waiting_bytes,
                run_waiting_notes=self.run_waiting_notes,
            ),
            scope_limits=ScopeLimits(
                waiting_parts=self.scope_waiting_parts,
                waiting_bytes=self.scope_waiting_bytes,
                share=self.scope_share,
            ),
        )


# A sealed part: its bytes where they do not compress, with frame header, padding, salt and tag.
_SEALING: Final = 256

# What must hold between settings; each alone is checked by its form.
_RULES: Final[tuple[tuple[Callable[[Settings], bool], str], ...]] = (
    (
        lambda s: s.retention_default <= s.retention_max,
        "CUSTODY_RETENTION_DEFAULT is longer than CUSTODY_RETENTION_MAX",
    ),
    (
        lambda s: s.retention_max <= s.metadata_retention,
        "CUSTODY_METADATA_RETENTION is shorter than CUSTODY_RETENTION_MAX: metadata must outlive content",
    ),
    (lambda s: s.part_bytes <= s.run_bytes, "CUSTODY_PART_BYTES is more than CUSTODY_RUN_BYTES"),
    (lambda s: s.part_bytes <= s.flush_bytes, "CUSTODY_PART_BYTES is more than CUSTODY_FLUSH_BYTES"),
    (
        lambda s: s.part_bytes + _SEALING <= s.run_waiting_bytes,
        "CUSTODY_RUN_WAITING_BYTES cannot hold one sealed part of CUSTODY_PART_BYTES",
    ),
    (
        lambda s: s.run_waiting_bytes <= s.scope_waiting_bytes,
        "CUSTODY_RUN_WAITING_BYTES is more than CUSTODY_SCOPE_WAITING_BYTES",
    ),
    (
        lambda s: s.scope_waiting_bytes <= s.shard_bytes,
        "CUSTODY_SCOPE_WAITING_BYTES is more than CUSTODY_SHARD_BYTES",
    ),
    (
        lambda s: s.run_waiting_parts <= s.scope_waiting_parts <= s.shard_parts,
        "CUSTODY_RUN_WAITING_PARTS, CUSTODY_SCOPE_WAITING_PARTS and CUSTODY_SHARD_PARTS do not grow in this order",
    ),
    (
        lambda s: s.flush_bytes <= BODY_SHARE * s.body_budget,
        "CUSTODY_FLUSH_BYTES is more than four fifths of CUSTODY_BODY_BUDGET: no flush of that size would be let in",
    ),
    (
        lambda s: s.console_idle <= s.console_session,
        "CUSTODY_CONSOLE_IDLE is longer than CUSTODY_CONSOLE_SESSION",
    ),
    (lambda s: s.key_refresh <= s.key_grace, "CUSTODY_KEY_GRACE is shorter than CUSTODY_KEY_REFRESH"),
    (
        lambda s: s.keys_copy_dir not in {s.keys_dir, s.token_keys_dir.parent, s.signing_keys_dir.parent},
        "CUSTODY_KEYS_COPY_DIR is where the keys already are",
    ),
)


def from_environment(changes: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process; `changes` are what was said in another place than the environment."""
    return Settings.load({**os.environ, **(changes or {})})


def environment_of_child(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process of ours: this one's, with what is to be said otherwise."""
    return {**os.environ, **changes}


def in_environment(name: str) -> bool:
    """Say whether a setting is given to this process, itself or by its file."""
    return name in os.environ or name + _FILE in os.environ


def describe_markdown() -> str:
    """Return docs/settings.md, which a test holds to this."""
    rows = "\n".join(f"| `{s.env}` | {s.default_text} | {s.help} |" for s in SETTINGS)
    return _MARKDOWN.format(rows=rows, clients=" ".join(f"`{name}`" for name in _CLIENTS))


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    known = {setting.env for setting in SETTINGS} | {s.env + _FILE for s in SETTINGS if s.form.secret}
    for name in sorted(environ):
        if name.startswith(PREFIX) and not name.startswith(_TESTS) and name not in known.union(_CLIENTS):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            yield f"{name} is no setting" + (f"; is {near[0]} meant?" if near else "")


def _read(setting: Setting, environ: Mapping[str, str], faults: list[str]) -> Any:
    try:
        text = _text(setting, environ)
        return None if text is None else setting.form.read(text)
    except ValueError as fault:
        faults.append(f"{setting.env} {fault}")
        return None


def _text(setting: Setting, environ: Mapping[str, str]) -> str | None:
    text = environ.get(setting.env, setting.default)
    file = environ.get(setting.env + _FILE) if setting.form.secret else None
    if file is not None:
        if setting.env in environ:
            raise ValueError(f"is set, and {setting.env}{_FILE} too: leave one out")
        text = _content(file)
    if text == "":
        raise ValueError("is empty: leave it out instead")
    return text


def _content(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot be read from the file that is named for it ({type(error).__name__})"
        ) from None


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    """Fill in what is taken from another setting where it is not set."""
    database, redis = values["database_url"], values["redis_url"]
    keys = values["keys_dir"] or values["data_dir"] / "keys"
    return values | {
        "owner_database_url": values["owner_database_url"] or database,
        "duties_database_url": values["duties_database_url"] or database,
        "arq_redis_url": values["arq_redis_url"] or redis,
        "keys_dir": keys,
        "token_keys_dir": values["token_keys_dir"] or keys / "token",
        "signing_keys_dir": values["signing_keys_dir"] or keys / "signing",
        "mirror_dir": values["mirror_dir"] or values["data_dir"] / "mirror",
    }


def _seconds(value: timedelta) -> int:
    return max(1, value // timedelta(seconds=1))


_MARKDOWN: Final = """\
# Settings

All settings are environment variables. They are read once, at start; a process refuses to start on any that it
does not know or cannot work with, and names all faults at once. `python -m store check-config` does only that, and
prints the settings that are in force with secrets masked. This page is made from the table in `store/settings.py`.

- Durations and sizes have a unit: `500ms` `30s` `10m` `1h` `7d`, `512B` `256KiB` `4MiB` `1GiB`.
  A bare number is refused.
- Addresses of Postgres and Redis are secrets, and so is what a proxy says to be believed:
  each may instead be put into a file, named by the same variable with
  `_FILE` behind it. Write `@ / ? #` in a password as `%40 %2F %3F %23`. TLS is part of the address:
  `rediss://…`, `?sslmode=verify-full`.
- *New scopes* take these as their policy; each scope's policy can say otherwise afterwards.
- Names that begin with `CUSTODY_TEST_` are for the tests and ignored, and so are those that the client reads:
  {clients}.

| name | default | meaning |
|---|---|---|
{rows}

The key directory is what makes expiry and erasure final: keep it outside every backup and snapshot, on a disk of
its own if you can, open to nobody but the user that the service runs as (one that is open to others is refused). A copy
that is set later is begun with `python -m store keys-at-rest check --repair`; until then no key is made.
"""
