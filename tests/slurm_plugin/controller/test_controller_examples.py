"""docs/examples/own_program.sh as a user submits it, preempted by the running controller."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
ENV = {"TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints"}
STEPS = "4000000"


def test_a_self_saving_program_resumes_where_it_was_preempted(centre: Centre, tmp_path: Path) -> None:
    here = centre.cluster.shared / "out" / "own"
    here.mkdir()
    here.chmod(0o777)
    for name in ("own_program", "own_program.sh"):
        shutil.copy(EXAMPLES / name, here)
    submit = ["tsbatch", "--parsable", "--gpus=16", "--ntasks=16", "--output=/shared/out/%j", "own_program.sh", STEPS]
    large = centre.cluster.run(submit, user="alice", env=ENV, cwd="/shared/out/own").stdout.strip()
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED", seconds=180)["Restarts"] == "1", centre.output(large)
    assert "run 1 resumes from step 1" in centre.output(large)
    subprocess.run([EXAMPLES / "own_program", STEPS], cwd=tmp_path, check=True)
    assert (here / "own.result").read_text() == (tmp_path / "own.result").read_text()
