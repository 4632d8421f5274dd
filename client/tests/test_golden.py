"""Bundles that were made once and stay for ever: every later verifier must answer the same of them."""

import io
import zipfile
from pathlib import Path

import pytest

from custody_client.verify import Policy, verify_bundle
from tests.support import bundles

GOLDEN = Path(__file__).parents[2] / "tests/contract/bundles"
MADE = {"v1": (bundles.small, 0), "v1-unproven": (bundles.mixed, 3)}


@pytest.mark.parametrize("name", MADE)
def test_golden_bundles_are_answered_as_ever(name):
    policy = Policy.parse((GOLDEN / "policy.txt").read_bytes())
    report = verify_bundle(GOLDEN / f"{name}.zip", policy, [(GOLDEN / "anchor").read_bytes()])
    assert report.exit == MADE[name][1]


@pytest.mark.parametrize("name", MADE)
def test_what_tests_make_of_the_formats_is_what_it_was(name):
    made = MADE[name][0]()
    with zipfile.ZipFile(io.BytesIO((GOLDEN / f"{name}.zip").read_bytes())) as archive:
        golden = {entry.partition("/")[2]: archive.read(entry) for entry in archive.namelist()}
    assert golden == made.files()
    assert (GOLDEN / "policy.txt").read_bytes() == made.policy()
    assert (GOLDEN / "anchor").read_bytes() == made.log.checkpoint(3)
