"""The experiment of placements.py with a few short jobs: it runs end to end, and no invariant is violated.

No slowdown is asserted: tests beside this one change it.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.co_location.placements import main

SHORT = ("--jobs", "6", "--steps", "30", "--gap", "1.0", "--repeats", "1")
STYLES = ["random", *(["learned"] if find_spec("torch") else ["least_interference"])]


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_few_jobs_run_under_two_styles(tmp_path: Path) -> None:
    code = main([*SHORT, "--styles", ",".join(STYLES), "--out", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    unsure = [line for line in found["broken"] if line.startswith("calibration: ")]
    assert found["broken"] == unsure
    assert code == bool(unsure)
    assert list(found["styles"]) == STYLES
    for style in found["styles"].values():
        assert sum(style["runs_of_nodes"].values()) == style["invariants"]["starts"] == 6
        assert style["timed_by_controller"]["runs"] > 0
    learned = found["styles"][STYLES[-1]]["interference"]
    assert learned["samples"] == found["calibration"]["samples"] >= 10
