"""`verify_bundle`: parts a second that `custody verify` checks, of a bundle as an export would be, on one core.

The bundle is made from the formats, by neither the store nor the verifier, and lies among other leaves of a log.
"""

import statistics
from pathlib import Path
from typing import Final

from bench.figures import Figure
from bench.setting import Setting
from custody_client.verify import Exit, Policy, Report, verify_bundle
from store import clock
from tests.support import bundles
from tests.support.bundles import Bundle

PARTS: Final = 5_000
# Others' leaves between: paths of 16 hashes.
LEAVES: Final = 65_536
ROUNDS: Final = 7


async def measure(setting: Setting) -> list[Figure]:
    """Return the median of the rounds."""
    contents = setting.contents.some(PARTS)
    bundle = _bundle(contents)
    archive = setting.stack.directory / "bundle.zip"
    archive.write_bytes(bundle.zipped())
    rates = [_parts_a_second(bundle, archive) for _ in range(setting.rounds(ROUNDS))]
    megabytes = sum(map(len, contents)) / 1e6
    told = f"{PARTS} parts of {megabytes:.0f} MB; {len(rates)} rounds, {min(rates):,.0f} to {max(rates):,.0f}"
    return [Figure("verify_bundle", statistics.median(rates), told)]


def _bundle(contents: list[bytes]) -> Bundle:
    bundle = bundles.empty()
    between = LEAVES // len(contents)
    for number, content in enumerate(contents):
        for other in range(between - 1):
            bundle.log.append(k="close", m="", r=f"{number}-{other}")
        bundle.add_part(content)
    return bundle


def _parts_a_second(bundle: Bundle, archive: Path) -> float:
    policy, anchors = Policy.parse(bundle.policy()), [bundle.log.checkpoint()]
    began = clock.monotonic()
    report = verify_bundle(archive, policy, anchors)
    elapsed_s = clock.monotonic() - began
    return _right_parts(report) / elapsed_s


def _right_parts(report: Report) -> int:
    if report.exit != Exit.OK:
        raise RuntimeError(f"the bundle was found {report.verdict}")
    return report.counts()["part"].total()
