"""Self-saving programs that fail to save when they are preempted: they lose no more than by a requeue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]

ENV = {"TIRESIAS_CHECKPOINT": "signal:TERM:out", "TIRESIAS_SAVE_DEADLINE": "3"}
PROGRAM = "/opt/tiresias/tests/wrappers/self_saving_program.py"


def submit(centre: Centre, name: str, steps: int) -> tuple[str, Path]:
    """Submit a job on all GPUs; return it and its folder once it trains."""
    folder: Path = centre.cluster.shared / "out" / name
    folder.mkdir()
    folder.chmod(0o777)
    job = centre.submit(
        "--nodes=4",
        "--ntasks-per-node=1",
        "--gpus-per-node=4",
        f"--chdir=/shared/out/{name}",
        gpus=0,
        by="tsbatch",
        command=f"python3 {PROGRAM} {steps} 0.02 {name}",
        env=ENV,
    )
    centre.wait_until_preemptable(job)
    centre.wait_until(lambda: (folder / "losses").exists() and (folder / "losses").read_text(), "no step", job)
    return job, folder


def test_a_program_that_fails_to_save_resumes_from_its_last_checkpoint(centre: Centre) -> None:
    job, folder = submit(centre, "fails", 500)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(job, "COMPLETED")["Restarts"] == "1", centre.output(job)
    assert "ended with exit code 3 after SIGTERM, but out did not change: it goes back" in centre.output(job)
    assert (folder / "result").read_text().startswith("500 ")


def test_a_program_that_ignores_the_signal_runs_on(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 3.0, "start_timeout": 3.0, "backoff": 1.0})
    job, folder = submit(centre, "ignores", 600)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_until(lambda: "did not save within 3 s" in str(centre.explain(job)), "its preemption does not end", job)
    assert centre.wait_for_state(job, "COMPLETED")["Restarts"] == "0", centre.output(job)
    centre.wait_for_state(small, "COMPLETED")
    assert (folder / "result").read_text().startswith("600 ")
    assert "1 processes here have not ended" in centre.output(job)
    assert "the program went on after SIGTERM and has ended with exit code 0: the job ends" in centre.output(job)
