"""Jobs whose environments have the training side of another release, under this controller. Real Slurm, real jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.releases import previous, speaking
from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
TRAIN = "/opt/tiresias/tests/slurm_plugin/controller/train.py"  # the checkout, as the cluster sees it
WHICH = "import tiresias; print(tiresias.__file__, flush=True)"


def train_with(centre: Centre, library: str, seconds: float) -> str:
    command = f"export PYTHONPATH={library}; python3 -c '{WHICH}'; exec python3 {TRAIN} {seconds}"
    return str(centre.submit(command=command, gpus=16, by="tsbatch"))


def program_file(centre: Centre, job: str) -> dict[str, Any]:
    (path,) = (centre.cluster.shared / "tiresias/control").glob(f"*/{job}/program.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_previous_release_is_preempted_and_resumed(centre: Centre) -> None:
    previous(centre.cluster.shared / "previous")
    large = train_with(centre, "/shared/previous/src", 4)
    centre.wait_until_preemptable(large)
    assert "protocol" not in program_file(centre, large)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"
    output = centre.output(large)
    assert output.count("/shared/previous/src/tiresias/__init__.py") == 2
    assert "run 1 resumes from step" in output
    assert "done at step 80" in output
    assert "control protocol" not in output


def test_a_release_without_a_common_version_runs_and_explain_reports_why(centre: Centre) -> None:
    speaking(centre.cluster.shared / "newer", 8, 9)
    large = train_with(centre, "/shared/newer", 8)
    words = "slurm-tiresias-checkpoint in the job's environment speaks version 8 to 9 of the control protocol"
    centre.wait_until(lambda: words in centre.why(large), "explain does not report why it is not preempted", large)
    assert "this controller 1 to 2: update this controller" in centre.why(large)
    small = centre.submit(command="sleep 0.2", user="bob")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "0"
    centre.wait_for_state(small, "COMPLETED")
    assert centre.reasons(large, "preempt") == []
    output = centre.output(large)
    assert output.count("This job will not be preempted") == 1
    assert "done at step 160" in output


def test_the_controller_states_its_versions(centre: Centre) -> None:
    stated = centre.cluster.shared / "tiresias/control/controller/protocol.json"
    assert json.loads(stated.read_text()) == {"protocol": [1, 2]}
