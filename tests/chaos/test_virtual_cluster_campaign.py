"""The campaign with virtual clusters at a small scale: it runs, finds nothing broken, and judges something."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT

TIMEOUT_S = 900.0


def campaign(folder: Path, *options: str) -> dict[str, Any]:
    """Run a campaign in which nothing may be broken, and return its results."""
    file = folder / "found.json"
    command = [sys.executable, "-m", "tests.chaos.virtual_clusters", *options, "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, "\n".join([*done.stdout.splitlines()[-40:], done.stderr])
    found: dict[str, Any] = json.loads(file.read_text())
    assert found["broken"] == []
    return found


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_twelve_jobs_of_three_virtual_clusters(tmp_path: Path) -> None:
    found = campaign(tmp_path, "--jobs", "12", "--seed", "5")
    assert found["jobs"] == 12
    assert {"late", "kept_out", "elsewhere", "overbooked", "crossed", "redone"} <= found["invariants"].keys()
    assert found["runs_in_cells"] > 0
    assert found["guaranteed_starts"] > 0


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_reloads_while_jobs_run(tmp_path: Path) -> None:
    found = campaign(tmp_path, "--jobs", "30", "--seed", "5", "--reloads")
    names = {"reload_answers", "reload_cells", "reload_took", "reload_ended", "reload_unlogged", "invalid_restarts"}
    assert names <= found["invariants"].keys()
    assert found["reloads_accepted"] > 0
    assert found["reloads_refused"] > 0
    assert found["cells_compared"] > 0


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_jobs_of_many_kinds_which_their_owners_change(tmp_path: Path) -> None:
    found = campaign(tmp_path, "--jobs", "40", "--seed", "67", "--mixed")
    names = {
        "throttled",
        "before_others",
        "sizes",
        "same_sizes",
        "wrong_nodes",
        "node_counts",
        "uncharged",
        "foreign_cells",
        "refused",
    }
    assert names <= found["invariants"].keys()
    assert found["runs_array"] > 0
    assert found["conditions_judged"] > 0
    assert found["elastic_jobs"] > 0
    assert found["moved_that_ran"] > 0
    assert found["holders_judged"] > 0
