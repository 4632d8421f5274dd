"""What docs/operations.md says that can be asked of the code, is so."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from store.api.health import _Gathered
from store.services.metrics import Metrics
from store.services.readiness import Gauges
from store.services.standing import EVERY_S
from store.settings import SETTINGS
from tests.support.sources import ROOT, python_files, tracked

TEXT = (ROOT / "docs" / "operations.md").read_text()
WORDS = set(re.findall(r"`([a-z_]+)`", TEXT))

# Tables that grow with captures: an index on one of them is worth making before `migrate` does.
LARGE = r"CREATE INDEX IF NOT EXISTS \w+ ON (parts|runs|gaps)\b"
# Names of ours that are no metrics.
ROLES = {f"custody_{name}" for name in ("owner", "service", "duties", "service_login", "duties_login")}


def test_the_indexes_that_can_be_made_before_an_upgrade_are_all_named():
    told = re.search(r"`parts`, `runs` or `gaps` \(([\d, ]+)\)", TEXT)
    assert told is not None
    large = [path.name[:4] for path in tracked("migrations/*.sql") if re.search(LARGE, path.read_text())]
    assert told[1].split(", ") == sorted(large)


def events(source: str) -> Iterator[str]:
    """Find what is logged as a warning or an error; where a function is given the name, what it is called with."""
    tree = ast.parse(source)
    given: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and re.fullmatch(
                    r"logger\(\)\.(warning|error|critical|exception)", ast.unparse(call.func)
                ):
                    yield from texts(call.args[0])
                    if isinstance(call.args[0], ast.Name):
                        given |= {function.name, call.args[0].id}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("self.") in given:
            yield from texts(node.args[0])
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in given:
            yield from texts(node.value)


def texts(node: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    if isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def logged() -> dict[str, Path]:
    return {
        event: path
        for path in python_files("store", "workers", "console")
        for event in events(path.read_text())
    }


def test_every_warning_and_error_is_explained_to_whoever_reads_the_log():
    found = logged()
    assert {"corrupt", "bucket_key_lost", "key_confirmed", "store_away", "uncaught"} <= found.keys()
    assert {event: path.name for event, path in found.items() if event not in WORDS} == {}


def test_the_check_sees_an_event_whichever_way_it_is_named():
    source = """
def one(): logger().error("plain" if x else "other")
def two(event, n): logger().warning(event, n=n)
def three(self): self.two("given", 1)
def four():
    event = "assigned" if x else "or_so"
    logger().warning(event)
def five(): logger().info("not_this")
"""
    assert set(events(source)) == {"plain", "other", "given", "assigned", "or_so"}


def test_every_metric_is_explained_and_none_that_is_not_there():
    families = [*Metrics().registry.collect(), *_Gathered(Gauges()).collect()]
    kinds = {family.name: family.type for family in families}
    names = {f"{name}_total" if kind == "counter" else name for name, kind in kinds.items()}
    samples = {
        f"{name}_{end}" for name, kind in kinds.items() if kind == "histogram" for end in ("count", "sum")
    }
    told = set(re.findall(r"\bcustody_[a-z_]+", TEXT)) - ROLES
    assert told - names - samples == set()
    assert names - told == set()


def test_the_rules_for_prometheus_know_the_duties_and_the_bounds():
    (text,) = re.findall(r"```yaml\n(.+?)```", TEXT, re.DOTALL)
    (group,) = yaml.safe_load(text)["groups"]
    rules = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    assert len(rules) == len(group["rules"])
    late = re.findall(r'duty=~?"([a-z_|]+)"\}\) > (\d+)', rules["CustodyDutyLate"])
    within = {duty: int(seconds) for duties, seconds in late for duty in duties.split("|")}
    assert within.keys() == EVERY_S.keys()
    # No rule that a duty meets which is merely not due again yet.
    assert all(2 * EVERY_S[duty] < seconds for duty, seconds in within.items())
    usual = {setting.field: setting.default for setting in SETTINGS}
    assert f"> 0.8 * {usual['shard_parts']}" in rules["CustodyQueueFills"]
    assert f"> 0.8 * {usual['shard_notes']}" in rules["CustodyNotesFill"]


def test_servers_of_ones_own_are_told_what_the_containers_are():
    flags = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["postgres"]["command"][1:]
    asked = [flag.removeprefix("-c") for flag in flags]
    conf = (ROOT / "deploy" / "valkey.conf").read_text().splitlines()
    # Where its data are, and who may reach it, is everybody's own.
    asked += [
        line for line in conf if line and not line.startswith(("#", "dir ", "maxmemory ", "protected-mode "))
    ]
    assert "max_locks_per_transaction=256" in asked
    assert "stream-node-max-entries 1" in asked
    assert [setting for setting in asked if f"`{setting}" not in TEXT] == []
