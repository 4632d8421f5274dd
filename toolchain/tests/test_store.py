"""An observer that posts: through the client, in nobody's way, and only where the client is installed."""

import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from custody_client import Custody
from custody_toolchain.facts import DeliveryFact, ItemKind, ItemState, encode, now
from custody_toolchain.observing import Reporter
from custody_toolchain.store import to_store
from tests.support.scripted import KEY, Scripted, hanging, scripted


@pytest.fixture
def service() -> Iterator[Scripted]:
    with scripted() as found:
        yield found


FACTS = tuple(
    DeliveryFact(fact=f"delivery.{n}", at=now(), item=f"item-{n}", kind=ItemKind.FILE, state=ItemState.MET)
    for n in range(6)
)


def test_facts_arrive_in_order_as_the_json_of_format_1(service: Scripted) -> None:
    client = Custody(service.url, KEY)
    with Reporter(to_store(client.run("r-1", wait=2))) as reporter:
        for fact in FACTS:
            reporter.report(fact)
    assert client.flush(5)
    client.close()
    assert [msgspec.json.encode(each) for each in service.facts()] == [encode(each) for each in FACTS]


def test_a_store_that_hangs_is_in_nobody_s_way(service: Scripted) -> None:
    service.answers["facts"] = hanging
    client = Custody(service.url, KEY)
    reporter = Reporter(to_store(client.run("r-1", wait=2)))
    for fact in FACTS:
        reporter.report(fact)
    assert reporter.flush(2)
    assert (reporter.failed, reporter.dropped) == (0, 0)
    client.close(timeout=0.5)
    service.released.set()


def test_something_else_than_a_run_is_refused_when_it_is_put_together_and_not_amid_a_run() -> None:
    with pytest.raises(TypeError, match="a run of custody_client"):
        to_store("r-1")  # type: ignore[arg-type] # what is tested


def test_without_the_client_it_says_what_to_install_and_importing_it_needs_nothing() -> None:
    program = (
        "import sys; sys.modules['custody_client'] = None\n"
        "from custody_toolchain.store import to_store\n"
        "try:\n    to_store(object())\n"
        "except ImportError as fault:\n    print(fault)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == (
        "posting facts to a store needs custody-client: pip install 'custody-toolchain[store]'"
    )
