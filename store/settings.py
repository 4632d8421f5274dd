"""Every setting there is: its name, default, form and meaning. docs/settings.md is made from this table.

Nothing here reads the environment; store.config does.
"""

from dataclasses import dataclass
from typing import Final

from store import forms
from store.forms import Form

PREFIX: Final = "CUSTODY_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `field` is its name in Settings; `default` is as one would write it, None if there is none.

    `otherwise` says in words what holds where there is no default.
    """

    field: str
    default: str | None
    form: Form
    help: str
    otherwise: str = "not set"

    @property
    def env(self) -> str:
        """Return its name in the environment."""
        return PREFIX + self.field.upper()

    @property
    def default_text(self) -> str:
        """Return the default as documented."""
        return self.otherwise if self.default is None else f"`{self.default}`"


_EMBEDDED: Final = "an embedded server"

SETTINGS: Final[tuple[Setting, ...]] = (
    # --- where things are
    Setting(
        "database_url", None, forms.POSTGRES_URL, "Postgres, as the service role sees it", otherwise=_EMBEDDED
    ),
    Setting(
        "owner_database_url",
        None,
        forms.POSTGRES_URL,
        "Postgres for the role that owns the schema: migrations only",
        otherwise="`CUSTODY_DATABASE_URL`",
    ),
    Setting(
        "duties_database_url",
        None,
        forms.POSTGRES_URL,
        "Postgres for the role that makes and drops partitions of bodies",
        otherwise="`CUSTODY_DATABASE_URL`",
    ),
    Setting(
        "redis_url",
        None,
        forms.REDIS_URL,
        "Redis or Valkey for the write queue: `noeviction` and persistence are demanded",
        otherwise=_EMBEDDED,
    ),
    Setting(
        "arq_redis_url",
        None,
        forms.REDIS_URL,
        "Redis for the duties' schedule: a single node, since arq knows no cluster",
        otherwise="`CUSTODY_REDIS_URL`",
    ),
    Setting("data_dir", "~/.local/share/custody", forms.PATH, "home of the embedded servers and of the keys"),
    Setting(
        "keys_dir",
        None,
        forms.PATH,
        "bucket and intake keys: in no backup and no snapshot; shared by all processes that seal or open",
        otherwise="`keys` in `CUSTODY_DATA_DIR`",
    ),
    Setting(
        "keys_copy_dir",
        None,
        forms.PATH,
        "a second copy of all keys on another disk; destruction reaches both",
    ),
    Setting(
        "token_keys_dir",
        None,
        forms.PATH,
        "keys of tickets, cursors, receipts, sampling and lookups",
        otherwise="`token` in `CUSTODY_KEYS_DIR`",
    ),
    Setting(
        "signing_keys_dir",
        None,
        forms.PATH,
        "the key that signs the log: for the publisher alone",
        otherwise="`signing` in `CUSTODY_KEYS_DIR`",
    ),
    # --- the proof log
    Setting(
        "log_origin",
        "custody.local/log",
        forms.ORIGIN,
        "name of the log, in every checkpoint; never change while the log lives",
    ),
    Setting(
        "mirror_dir",
        None,
        forms.PATH,
        "where the log is published: outside the database and its backups, and what a restored backup is held against",
        otherwise="`mirror` in `CUSTODY_DATA_DIR`",
    ),
    Setting(
        "reads_lease",
        "15m",
        forms.duration("1s", "7d"),
        "how long reads stay open after the log was last held against its mirror",
    ),
    # --- HTTP
    Setting("host", "127.0.0.1", forms.TEXT, "address that the api listens on"),
    Setting("port", "8750", forms.count(1, 65_535), "port that the api listens on"),
    Setting("public_url", None, forms.HTTP_URL, "address under which callers see the api, behind a proxy"),
    Setting(
        "header_bytes", "16KiB", forms.size("1KiB", "64KiB"), "most that the headers of a request may take"
    ),
    Setting(
        "body_budget",
        "40MiB",
        forms.size("1MiB", "16GiB"),
        "bytes of bodies that one api process holds at once, of which a scope has at most half of what the others leave"
        " free; full means not captured",
    ),
    Setting("body_deadline", "10s", forms.duration("100ms", "5m"), "time in which a body must have arrived"),
    Setting("flush_bytes", "10MiB", forms.size("1KiB", "256MiB"), "most that one flush of frames may take"),
    Setting("flush_frames", "256", forms.count(1, 4096), "most frames of one flush"),
    Setting("waiters", "256", forms.count(0, 100_000), "requests of one process that may wait for `stored`"),
    Setting("wait_max", "5s", forms.duration("100ms", "60s"), "longest that `Prefer: wait` may ask for"),
    Setting(
        "page_examined",
        "2000",
        forms.count(200, 100_000),
        "most rows that one page looks at, whatever it finds",
    ),
    # --- the console
    Setting("console_host", "127.0.0.1", forms.TEXT, "address that the console listens on"),
    Setting("console_port", "8751", forms.count(1, 65_535), "port that the console listens on"),
    Setting(
        "console_public_url",
        None,
        forms.HTTP_URL,
        "address under which browsers see the console; with `https` its cookies are `Secure` and `__Host-`",
    ),
    Setting("console_idle", "30m", forms.duration("1s", "7d"), "how long a session of the console may rest"),
    Setting("console_session", "12h", forms.duration("1s", "30d"), "how long a session lives at most"),
    Setting(
        "console_forwarded",
        "false",
        forms.FLAG,
        "whether a proxy before the console names the caller's address, last in `X-Forwarded-For`",
    ),
    Setting(
        "console_proxy_secret",
        None,
        forms.SHARED_SECRET,
        "what a proxy that signs people in says in `Custody-Proxy-Secret`, to be believed in `Custody-Identity`",
        otherwise="no proxy is believed",
    ),
    # --- bounds of the write queue
    Setting(
        "queue_shards", "1", forms.count(1, 1024), "streams of the write queue; never change while any waits"
    ),
    Setting("shard_parts", "16384", forms.count(1, 10_000_000), "parts that may wait in one shard"),
    Setting("shard_bytes", "256MiB", forms.size("1MiB", "1TiB"), "sealed bytes that may wait in one shard"),
    Setting(
        "shard_notes",
        "65536",
        forms.count(1, 10_000_000),
        "attempt states, gaps and facts that may wait in one shard, 1 KiB each; facts take half of it at most,"
        " and those of a scope its share of that",
    ),
    Setting(
        "disk_limit",
        None,
        forms.size("64MiB", "1024TiB"),
        "size of the database; at 90 % of it new captures are refused and purging goes on",
    ),
    # --- bounds and retention of new scopes; each scope's policy can say otherwise
    Setting("part_bytes", "256KiB", forms.size("1KiB", "16MiB"), "new scopes: bytes of one part"),
    Setting("run_parts", "128", forms.count(1, 1_000_000), "new scopes: parts of one run"),
    Setting("run_bytes", "16MiB", forms.size("1KiB", "1TiB"), "new scopes: bytes of one run"),
    Setting(
        "run_waiting_parts", "32", forms.count(1, 1_000_000), "new scopes: parts of one run that may wait"
    ),
    Setting(
        "run_waiting_bytes",
        "4MiB",
        forms.size("1KiB", "1TiB"),
        "new scopes: sealed bytes of one run that may wait",
    ),
    Setting(
        "run_waiting_notes",
        "128",
        forms.count(1, 1_000_000),
        "new scopes: attempt states, gaps and facts of one run that may wait, 1 KiB each;"
        " facts take half of it at most",
    ),
    Setting("scope_waiting_parts", "4096", forms.count(1, 1_000_000), "new scopes: parts that may wait"),
    Setting(
        "scope_waiting_bytes", "64MiB", forms.size("1KiB", "1TiB"), "new scopes: sealed bytes that may wait"
    ),
    Setting(
        "scope_share",
        "0.5",
        forms.FRACTION,
        "new scopes: most of what is free in its shard that a scope may take",
    ),
    Setting(
        "retention_default",
        "30d",
        forms.duration("1s", "36500d"),
        "new scopes: retention of runs that name none",
    ),
    Setting(
        "retention_max",
        "90d",
        forms.duration("1s", "36500d"),
        "new scopes: longest retention a run may ask for",
    ),
    Setting(
        "metadata_retention",
        "400d",
        forms.duration("1s", "36500d"),
        "new scopes: how long receipts are answered, and access records and metadata kept; then only keyed hashes",
    ),
    Setting(
        "destroy_after",
        "30d",
        forms.duration("1s", "36500d"),
        "new scopes: how long after a revocation what it closed is destroyed; until then it can be restored",
    ),
    Setting(
        "hold_grace",
        "10m",
        forms.duration("1s", "30d"),
        "how long a released hold goes on keeping: time to place another one",
    ),
    Setting(
        "bucket_span",
        "1d",
        forms.duration("1s", "31d"),
        "span of expiry that shares one bucket, one key and one partition; never change while any bucket lives",
    ),
    # --- keys, tickets, runs
    Setting("ticket_lifetime", "15m", forms.duration("1s", "1d"), "how long a ticket is good"),
    Setting(
        "key_refresh", "5s", forms.duration("100ms", "5m"), "how long a revoked api key may still be taken"
    ),
    Setting(
        "key_grace",
        "15m",
        forms.duration("1s", "1d"),
        "how long a runtime key's last good answer serves while Postgres is away",
    ),
    Setting(
        "run_view_age", "1s", forms.duration("10ms", "60s"), "age of the run's state that the guard may use"
    ),
    Setting(
        "closing", "30s", forms.duration("1s", "1h"), "how long a closing run still takes what was on its way"
    ),
    Setting(
        "never_closed",
        "1d",
        forms.duration("1s", "365d"),
        "silence after which a run counts as never closed: no declaration, part, gap, attempt state or fact",
    ),
    Setting(
        "overdue_after",
        "2s",
        forms.duration("100ms", "1h"),
        "age at which a queued part is marked `write_timeout`",
    ),
    # --- writers
    Setting(
        "writer_batch",
        "256",
        forms.count(1, 10_000),
        "entries that a writer commits at once; where much waits and is small, up to four times as many",
    ),
    Setting(
        "reclaim_idle",
        "10s",
        forms.duration("100ms", "1h"),
        "idle time after which another writer takes an entry over",
    ),
    Setting(
        "max_deliveries",
        "5",
        forms.count(1, 1000),
        "deliveries after which a part alone at fault is `write_failed`",
    ),
    Setting(
        "run_facts",
        "4096",
        forms.count(1, 16_384),
        "facts of one run that are kept; beyond them none is taken",
    ),
    Setting("db_pool", "8", forms.count(1, 1000), "connections to Postgres of one process"),
    # --- watching
    Setting("canary", "true", forms.FLAG, "whether a synthetic part is posted and read back each minute"),
    Setting(
        "build_commit",
        "unknown",
        forms.TEXT,
        "the commit that runs, for `/livez`: given to the image's build, found by `up` in a checkout",
    ),
    Setting(
        "log_level", "info", forms.LEVEL, "least level that is logged: `debug`, `info`, `warning` or `error`"
    ),
)
