import platform

from bench.figures import TARGETS, Figure
from bench.report import WHAT, machine, write


def test_every_figure_is_explained():
    assert WHAT.keys() == TARGETS.keys()


def test_figures_that_were_not_measured_again_stay(tmp_path):
    page = tmp_path / "performance.md"
    write([Figure("durable", 0.4, "first"), Figure("memory", 2.0, "first")], page)
    write([Figure("durable", 0.2, "second"), Figure("single_accept", 0.5, "second")], page)
    rows = {line.split("`")[1]: line for line in page.read_text().splitlines() if line.startswith("| `")}
    assert list(rows) == ["single_accept", "durable", "memory"]
    assert "| **0.2** | >=0.35 |" in rows["durable"]
    assert "second" in rows["durable"]
    assert "| 2 | <=3 |" in rows["memory"]
    assert "first" in rows["memory"]


def test_of_the_machine_no_more_is_told_than_says_something(monkeypatch):
    monkeypatch.setattr(platform, "release", lambda: "6.18.44-of-somebody")
    assert "Linux 6, Python" in machine().replace(platform.system(), "Linux")
