"""`tiresias rehearse` while the controller runs: the controller starts the requeued job again."""

from __future__ import annotations

import json

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}


def test_rehearsed_under_the_controller(centre: Centre) -> None:
    options = "#SBATCH --gpus=1 --chdir=/tmp -o /shared/out/%j"
    program = "/opt/tiresias/tests/slurm_plugin/controller/train.py"
    (centre.cluster.shared / "out/job.sh").write_text(f"#!/bin/bash\n{options}\nexec python3 {program} 60\n")
    words = ["tiresias", "rehearse", "--after", "2", "--json", "/shared/out/job.sh"]
    done = centre.cluster.run(words, user="alice", env=ROOTS, cwd="/tmp", check=False, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout)["job"]
    assert len(centre.explain(job)["runs"]) == 2
    assert centre.reasons(job, "preempt") == []
