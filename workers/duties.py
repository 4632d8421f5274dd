"""The duties' process: `arq workers.duties.Settings`. arq keeps the clock; what is done is in store.services.standing.

Jobs carry a duty's name and nothing else. Several such processes may run: each duty is done under its lease. A lost
connection to Redis ends the process, which its supervisor starts again.
"""

from contextlib import AsyncExitStack
from datetime import UTC, timedelta
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from arq import cron, func
from arq.connections import RedisSettings
from arq.cron import CronJob
from arq.typing import WorkerCoroutine
from arq.worker import Function

from store import logging
from store.config import Settings as Config
from store.config import from_environment
from store.errors import ConfigFaults, CustodyError
from store.forms import Secret
from store.logging import logger
from store.services.standing import DAY_S, EVERY_S, HOUR_S, MINUTE_S, Duties
from store.wiring import duties_of, open_services

Context = dict[str, Any]

_QUEUE: Final = "custody:duties"
# Longer than any duty's own budget: whoever is over it hangs, and its lease is for somebody else.
_TIMEOUT_S: Final = 300
# A job that could not be begun in its minute is not worth beginning: the next one does the same.
_EXPIRES_MS: Final = 60_000
_CONNECT_TRIES: Final = 60


async def start(context: Context) -> None:
    """Open the services that duties work with."""
    settings: Config = context["settings"]
    logging.configure(settings.log_level)
    stack = AsyncExitStack()
    services = await stack.enter_async_context(open_services(settings, duties=True))
    context["stack"], context["duties"] = stack, duties_of(services)
    logger().info("started", process="duties")


async def stop(context: Context) -> None:
    """Close them."""
    if "stack" in context:
        await context["stack"].aclose()


async def look(context: Context) -> None:
    """Have those duties done that cannot wait: an erasure was asked for, a scope is new, a span ended."""
    duties: Duties = context["duties"]
    try:
        names = await duties.due()
    except CustodyError as fault:
        logger().warning("cannot_look", reason=fault.reason.value)
        return
    for name in names:
        # While one of this id waits or runs, another is not taken.
        await context["redis"].enqueue_job(name, _job_id=f"duty:{name}", _queue_name=_QUEUE)


async def perform(name: str, context: Context) -> None:
    """Do one duty; how it ended is in its lease and in the log."""
    duties: Duties = context["duties"]
    await duties.perform(name)


def redis_settings(url: Secret) -> RedisSettings:
    """Say to arq where Redis is; its own reader of addresses takes neither escapes nor a path beside a password."""
    parts = urlsplit(url.reveal())
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    local = parts.scheme == "unix"
    database = query.get("db") or ("" if local else parts.path.strip("/")) or "0"
    return RedisSettings(
        host=parts.hostname or "localhost",
        port=parts.port or 6379,
        unix_socket_path=unquote(parts.path) if local else None,
        database=int(database),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        ssl=parts.scheme == "rediss",
        ssl_ca_certs=query.get("ssl_ca_certs"),
        ssl_check_hostname=parts.scheme == "rediss",
        conn_timeout=5,
        conn_retries=_CONNECT_TRIES,
        retry_on_timeout=True,
    )


def _functions(names: list[str]) -> list[Function]:
    return [func(_named(name), name=name, timeout=_TIMEOUT_S, keep_result=0, max_tries=1) for name in names]


def _crons(names: list[str]) -> list[CronJob]:
    every_second = cron(
        cast("WorkerCoroutine", look),
        name="look",
        second=set(range(60)),
        timeout=30,
        keep_result=0,
        max_tries=1,
    )
    return [every_second, *(_cron(name, EVERY_S[name]) for name in names)]


def _cron(name: str, every_s: int) -> CronJob:
    """Make a job for each `every_s` seconds, and one at the start; spread over the minute by name."""
    second = sum(name.encode()) % 50
    minutes = set(range(0, 60, max(1, every_s // MINUTE_S))) if every_s < HOUR_S else {second}
    return cron(
        _named(name), name=f"cron:{name}", second=second, minute=minutes, hour=3 if every_s >= DAY_S else None,
        run_at_startup=True, timeout=_TIMEOUT_S, keep_result=0, max_tries=1,
    )  # fmt: skip


def _named(name: str) -> WorkerCoroutine:
    async def run(context: Context) -> None:
        await perform(name, context)

    # arq's type allows for arguments, of which our jobs have none.
    return cast("WorkerCoroutine", run)


def worker_settings(settings: Config) -> dict[str, Any]:
    """Return what arq's Worker is made from."""
    url = settings.arq_redis_url
    if url is None:
        raise ConfigFaults(["CUSTODY_ARQ_REDIS_URL is not set, nor is CUSTODY_REDIS_URL"])
    names = [name for name in EVERY_S if name != "canary" or settings.canary]
    return {
        "functions": _functions(names),
        "cron_jobs": _crons(names),
        "redis_settings": redis_settings(url),
        "queue_name": _QUEUE,
        "on_startup": start,
        "on_shutdown": stop,
        "ctx": {"settings": settings},
        # pickle would run whatever somebody with access to Redis writes.
        "job_serializer": msgspec.msgpack.Encoder(enc_hook=_class_name).encode,
        "job_deserializer": msgspec.msgpack.decode,
        "keep_result": 0,
        "log_results": False,
        "max_tries": 1,
        "max_jobs": len(names) + 2,
        "job_timeout": _TIMEOUT_S,
        "expires_extra_ms": _EXPIRES_MS,
        "poll_delay": timedelta(milliseconds=200),
        "timezone": UTC,
        "health_check_interval": 15,
        "allow_abort_jobs": False,
    }


def _class_name(fault: object) -> str:
    """Write of an exception, which arq tries to keep as a result, its class and nothing that it quotes."""
    return type(fault).__name__


def __getattr__(name: str) -> dict[str, Any]:
    """Give arq its `Settings` when it asks, so that importing this module reads no environment."""
    if name == "Settings":
        return worker_settings(from_environment())
    raise AttributeError(name)
