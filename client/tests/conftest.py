"""Fixtures of the client's tests: nothing but files, and a bundle that is right."""

from collections.abc import Callable, Mapping
from pathlib import Path

import hypothesis
import pytest

from custody_client.verify import Policy, Report, verify_bundle
from tests.support import bundles
from tests.support.bundles import Bundle

hypothesis.settings.register_profile("custody", deadline=None, print_blob=True)
hypothesis.settings.load_profile("custody")

Verify = Callable[..., Report]


@pytest.fixture(scope="session")
def small() -> Bundle:
    """Some of everything; tests take its files and change those, never the bundle."""
    return bundles.small()


@pytest.fixture
def verify(tmp_path: Path, small: Bundle) -> Verify:
    """Verify an archive's bytes, or files that become one, under the keys of the small bundle."""

    def verified(
        what: bytes | Mapping[str, bytes],
        *,
        bundle: Bundle = small,
        anchors: tuple[bytes, ...] | None = None,
    ) -> Report:
        path = tmp_path / "bundle.zip"
        path.write_bytes(what if isinstance(what, bytes) else bundle.zipped(what))
        held = (bundle.log.checkpoint(3),) if anchors is None else anchors
        return verify_bundle(path, Policy.parse(bundle.policy()), held)

    return verified
