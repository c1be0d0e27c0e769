"""`tiresias simulate --sensitivity`: Figures 14 and 15 of the paper on any trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiresias.__main__ import main

TRACE = "job_id,submit_time,num_gpus,duration\na,0,4,5000\nb,10,4,2000\nc,12,1,500\nd,5000,4,900\n"
CLUSTER = ("--nodes", "1", "--gpus-per-node", "4")


@pytest.fixture
def simulate(tmp_path: Path) -> Any:
    trace, numbers = tmp_path / "trace.csv", tmp_path / "out.json"
    trace.write_text(TRACE)

    def run(*options: str) -> Any:
        assert main(["simulate", str(trace), *CLUSTER, "--json", str(numbers), *options]) == 0
        return json.loads(numbers.read_text())

    return run


@pytest.mark.parametrize(
    ("knob", "labels"),
    [
        ("threshold", ["(2, 0.5h)", "(2, 1h)", "(2, 2h)", "(2, 4h)", "(2, 8h)", "(2, 16h)"]),
        ("queues", ["(2, 1h)", "(3, 1h, 2h)", "(4, 1h, 2h, 4h)"]),
        ("promote-knob", ["1", "2", "4", "8", "16", "32", "inf"]),
    ],
)
def test_the_papers_settings_and_policies(
    simulate: Any, capsys: pytest.CaptureFixture[str], knob: str, labels: Any
) -> None:
    found = simulate("--sensitivity", knob)
    assert found["sensitivity"] == knob
    assert list(found["policies"]) == ["las", "gittins_known"]
    assert [list(each) for each in found["policies"].values()] == [labels, labels]
    shown = capsys.readouterr().out
    assert all(f" {label} " in shown for label in labels)


def test_each_setting_is_the_named_one(simulate: Any) -> None:
    """The same as simulated alone."""
    swept = simulate("--sensitivity", "queues", "--policy", "las", "--threshold", "900", "--preemption-cost", "7")
    assert swept["settings"]["(3, 900s, 0.5h)"] == {"thresholds": [900.0, 1800.0], "promote_knob": None}
    alone = simulate("--policy", "las", "--threshold", "900,1800", "--preemption-cost", "7")["policies"]["las"]
    there = swept["policies"]["las"]["(3, 900s, 0.5h)"]
    assert {**there, "wall_seconds": 0} == {**alone, "wall_seconds": 0}
    knob = simulate("--sensitivity", "promote-knob", "--policy", "las")
    assert knob["settings"]["4"] == {"thresholds": [3600.0], "promote_knob": 4.0}
    assert knob["policies"]["las"]["1"]["mean_jct"] != knob["policies"]["las"]["inf"]["mean_jct"]


def test_plot(simulate: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    simulate("--sensitivity", "threshold", "--plot", str(tmp_path / "plots"))
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "sensitivity-threshold.png",
        "sensitivity-threshold.svg",
    ]
    assert "<!-- (2, 0.5h) -->" in (tmp_path / "plots" / "sensitivity-threshold.svg").read_text()


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    assert main(["simulate", str(trace), *CLUSTER, "--sensitivity", "order"]) == 2
    assert "--sensitivity 'order' is not possible; there are threshold, queues, promote-knob" in capsys.readouterr().err
    jobs = str(tmp_path / "jobs.csv")
    assert main(["simulate", str(trace), *CLUSTER, "--sensitivity", "queues", "--jobs-out", jobs]) == 2
    assert "--sensitivity: --jobs-out has no meaning with it" in capsys.readouterr().err
