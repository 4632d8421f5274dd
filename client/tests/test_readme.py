"""What the client's README lists is what there is."""

import re
from pathlib import Path

import msgspec
import pytest

from custody_client import Bounds, Counters, words
from custody_client.cli import _parser
from custody_client.diagnostics import CHECKS

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SOURCE = Path(__file__).parents[1] / "src/custody_client"


def names_in_rows(heading):
    """Name what stands in backticks in the first cells of the tables of one section."""
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return {
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(.*?)`", row)
    }


def test_every_reason_of_this_side_has_a_row():
    ours = {word for word in words.SAYABLE if word.startswith("client_")} | {words.NOT_OBSERVED}
    assert names_in_rows("Counters, gaps and reasons") == ours


def test_every_bound_has_a_row():
    assert names_in_rows("Settings") == set(Bounds.__struct_fields__)


def test_the_bounds_are_as_they_are():
    usual = msgspec.to_builtins(Bounds())
    assert (usual["run_parts"], usual["run_bytes"], usual["parts"], usual["bytes"]) == (
        128,
        8 << 20,
        1024,
        32 << 20,
    )
    assert (usual["runs"], usual["serialise_s"], usual["mask_s"]) == (4096, 0.25, 0.5)


def test_every_counter_is_named():
    assert {name for name in Counters.__struct_fields__ if f"`{name}`" not in README} <= {"waiting_bytes"}


def test_every_adapter_that_is_named_exists():
    named = {name for name in names_in_rows("Without capturing by hand") if name.startswith("adapters.")}
    assert len(named) == 5
    for name in named:
        assert (SOURCE / f"{name.replace('.', '/')}.py").exists(), name


@pytest.mark.parametrize("variable", ["CUSTODY_RUN", "CUSTODY_CLOSE", "CUSTODY_LOCAL"])
def test_the_hooks_settings_are_read(variable):
    assert f'"{variable}"' in (SOURCE / "adapters/otel.py").read_text("utf-8")
    assert any(name.startswith(variable) for name in names_in_rows("Without capturing by hand"))


def test_the_doctor_says_what_it_is_said_to():
    shown = re.findall(r"^(\w+) +ok ", README, re.MULTILINE)
    assert tuple(shown) == CHECKS
    assert _parser().parse_args(["check"]).command == "check"
