"""Commands of `python -m store` in processes of their own, with the settings of a service that a test runs."""

import asyncio
import os
import sys

from store.config import Settings
from tests.support.sources import ROOT

Ran = tuple[int, str]
"""How it ended, and all that it said."""


async def ran(settings: Settings, *arguments: str) -> Ran:
    """Run one to its end."""
    assert settings.database_url is not None
    assert settings.redis_url is not None
    written = {
        "CUSTODY_DATABASE_URL": settings.database_url.reveal(),
        "CUSTODY_REDIS_URL": settings.redis_url.reveal(),
        "CUSTODY_KEYS_DIR": str(settings.keys_dir),
        "CUSTODY_DATA_DIR": str(settings.data_dir),
        "CUSTODY_MIRROR_DIR": str(settings.mirror_dir),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "store", *arguments, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **written},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()
