"""Fixtures of the client's tests: a bundle that is right, and a client before a service that does as it is told."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest

from custody_client import Custody
from custody_client.verify import Policy, Report, verify_bundle
from tests.support import bundles
from tests.support.bundles import Bundle
from tests.support.scripted import KEY, Scripted, scripted

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


@pytest.fixture
def service() -> Iterator[Scripted]:
    """Run a service on a real socket, which answers as a test says."""
    with scripted() as found:
        yield found


@pytest.fixture
def custody(service: Scripted) -> Iterator[Custody]:
    """Make a client of it; whatever hangs is let go before it is closed."""
    client = Custody(service.url, KEY)
    yield client
    service.released.set()
    client.close(timeout=1.0)
