"""The whole way on real programs: recorded by the library, read, judged. The hundred runs are trials.py's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.profiler import trials
from tests.profiler.tensors import tensors
from tiresias.simulator.models import MODELS

pytestmark = pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="no make, or no C compiler")
PLAIN = {
    "workers": 2, "servers": 2, "iterations": 25, "compute": 0.03, "evaluate_every": 0, "checkpoint_every": 0,
    "background": False, "shuffle": False, "busy": False, "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_tensors_are_those_of_table_6(name: str) -> None:
    """The count is one less: the step counter. Inception3's auxiliary head is not built in, nor are its small tensors."""
    assert sum(tensors(name)) / 2**20 == pytest.approx(MODELS[name].size, abs=0.1)
    assert max(tensors(name)) / 2**20 == pytest.approx(MODELS[name].largest, abs=0.1)
    assert name == "inception3" or len(tensors(name)) == MODELS[name].tensors - 1


def right(result: dict[str, Any]) -> bool:
    """Time is left out: other load on the machine changes it."""
    return (
        result["architecture"] == "parameter servers"
        and (result["found_workers"], result["found_servers"]) == (result["workers"], result["servers"])
        and result["size_error"] < 0.01
        and result["skew_error"] < 0.02
        and result["right_verdict"]
        and abs(result["found_iterations"] - result["iterations"]) <= 1
    )


@pytest.mark.parametrize("name", ["vgg11", "resnet50"])
def test_a_skewed_model_and_an_even_one(name: str) -> None:
    result = trials.trial({**PLAIN, "model": name})
    assert right(result), result
    assert result["period_error"] < 0.5, result


SHORT = ("vgg16", "googlenet")  # one that is slow on many nodes, one that is not


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in MODELS]
)
def test_ten_models_with_all_that_may_disturb(name: str) -> None:
    disturbed = {"workers": 4, "evaluate_every": 10, "checkpoint_every": 8, "background": True, "iterations": 30}
    result = trials.trial({**PLAIN, **disturbed, "model": name})
    assert right(result), result


def test_the_command_on_a_real_recording(tmp_path: Path) -> None:
    trials.record({**PLAIN, "model": "alexnet"}, tmp_path)
    command = [sys.executable, "-m", "tiresias", "profile", str(tmp_path), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    assert found["decision"] == "consolidate"
    assert found["skew"] == pytest.approx(0.61, abs=0.02)
    assert len(found["processes"]) == 4
