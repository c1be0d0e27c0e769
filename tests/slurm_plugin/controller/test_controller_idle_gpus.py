"""Jobs that hold GPUs and do not use them, on a real Slurm. A library in place of NVIDIA's is the outermost edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.wrappers.gpu_activity.fake_nvml import compile_into

pytestmark = [pytest.mark.sandbox, pytest.mark.long]
WARN_S, DEMOTE_S = 2.0, 4.0
SITE = {
    "TIRESIAS_IDLE_GPUS_ACTION": "demote",
    "TIRESIAS_IDLE_GPUS_WARN_AFTER": str(WARN_S),
    "TIRESIAS_IDLE_GPUS_INTERVAL": "0.6",
}


def watching(centre: Centre) -> None:
    """Start a controller that demotes, and under which no job is preempted for a later one otherwise."""
    centre.restart(
        idle_gpus={"action": "demote", "warn_after": WARN_S, "demote_after": DEMOTE_S, "interval": 0.6},
        policy={"thresholds": [1e9], "min_run": 0.5, "min_run_cost_factor": 0.0},
        comment={"interval": 1.0},
    )


def use_of(centre: Centre, name: str) -> Path:
    return centre.cluster.shared / f"use-{name}"


def measured(centre: Centre, name: str, percent: int) -> str:
    """Submit a job of four GPUs whose use the file of this name states."""
    use_of(centre, name).write_text(" ".join([str(percent)] * 4))
    env = {**SITE, "LD_LIBRARY_PATH": "/shared/nvml", "FAKE_GPU_USE": f"/shared/use-{name}"}
    return centre.train(gpus=4, seconds=600, env=env)


def stage(centre: Centre, job: str) -> str:
    return str(centre.published(job).get("gpu_use", ""))


def wait_for_stage(centre: Centre, job: str, expected: str) -> None:
    centre.wait_until(lambda: stage(centre, job) == expected, f"job {job} is not {expected}", job)


def test_a_job_that_does_not_use_its_gpus_is_shown_warned_and_demoted(centre: Centre) -> None:
    compile_into(centre.cluster.shared / "nvml")
    watching(centre)
    idle, *busy = [measured(centre, name, percent) for name, percent in (("a", 0), ("b", 70), ("c", 30), ("d", 100))]
    for job in (idle, *busy):
        centre.wait_until_preemptable(job)
    wait_for_stage(centre, idle, "demoted")
    assert centre.published(idle)["gpu_use_source"] == "nvml"
    assert "does not use its 4 GPUs" in "\n".join(centre.status()["alarms"])
    assert "has not used its GPUs for" in centre.why(idle)
    centre.wait_until(lambda: "this job has not used its GPUs" in centre.output(idle), "no line in its output", idle)
    for job in busy:
        wait_for_stage(centre, job, "none")
        assert "has not used its GPUs" not in centre.output(job)
    assert "measured by NVML" in centre.command("explain", idle).stdout
    comment = "Comment=Tiresias: it does not use its GPUs"
    centre.wait_until(lambda: comment in centre.scontrol("show", "job", idle), "it has no comment", idle)

    use_of(centre, "a").write_text("90 90 90 90")
    wait_for_stage(centre, idle, "none")
    assert centre.reasons(idle, "ranked again")
    use_of(centre, "a").write_text("0 0 0 0")
    wait_for_stage(centre, idle, "demoted")

    centre.usual = False
    centre.stop("KILL")
    centre.start(centre.config)
    wait_for_stage(centre, idle, "demoted")
    later = centre.submit(gpus=4, user="bob", command="sleep 3")
    centre.wait_for_state(later, "RUNNING", "COMPLETED")
    assert [centre.show(job)["Restarts"] for job in (idle, *busy)] == ["1", "0", "0", "0"]
    centre.wait_until(lambda: centre.show(idle)["JobState"] == "RUNNING", "it does not run again", idle)


def test_without_nvml_the_processes_are_a_hint(centre: Centre) -> None:
    watching(centre)
    sleeps, works = (
        centre.submit(by="tsbatch", command=command, env=SITE)
        for command in ("sleep 600", "exec nice python3 -c 'while True: pass'")
    )
    wait_for_stage(centre, sleeps, "demoted")
    assert centre.published(sleeps)["gpu_use_source"] == "processes"
    assert "NVML is not available there" in centre.output(sleeps)
    assert "NVML is not available there" in centre.command("explain", sleeps).stdout
    wait_for_stage(centre, works, "none")
    assert not centre.reasons(works, "demoted")
