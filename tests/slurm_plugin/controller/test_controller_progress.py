"""A large job makes progress although smaller jobs are submitted all the time. Real Slurm, a stream of jobs of 1 and 2 GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]

TRAIN = "/opt/tiresias/tests/slurm_plugin/controller/train.py"  # the checkout, as the cluster sees it
SMALL_RUN_S = 2
ROUNDING_S = 1.0  # Slurm's times are whole seconds
START_S = 12.0  # to preempt, start and poll, on a busy machine


@contextmanager
def stream(centre: Centre) -> Iterator[None]:
    """Another user submits two jobs, of one and of two GPUs, every second."""
    flag = centre.cluster.shared / "stream"
    flag.touch()
    each = f"--gpus-per-task=1 --output=/dev/null --chdir=/tmp --wrap 'sleep {SMALL_RUN_S}'"
    submit = "; ".join(f"sbatch --gpus={gpus} --ntasks={gpus} {each}" for gpus in (1, 2))
    loop = f"for at in $(seq 60); do [ -e /shared/stream ] || break; {submit}; sleep 1; done"
    with (centre.cluster.log / "stream.log").open("ab") as log:
        process = centre.cluster.popen(["bash", "-c", loop], user="bob", stdout=log, stderr=log)
    try:
        yield
    finally:
        flag.unlink()
        process.wait(30)


def runs(centre: Centre, job: str) -> list[dict[str, Any]]:
    return list(centre.explain(job).get("runs", ()))


def test_a_large_job_makes_progress_for_its_minimum_run_time_before_it_is_preempted(centre: Centre) -> None:
    minimum = 5.0
    centre.restart(policy={"min_run": minimum})
    large = centre.submit(command=f"sleep 3; exec python3 {TRAIN} 300", gpus=16, by="tsbatch")
    centre.wait_for_state(large, "RUNNING")
    with stream(centre):
        centre.wait_until(lambda: len(found := runs(centre, large)) and found[0]["end"], "it is not preempted", large)
    first = runs(centre, large)[0]
    assert first["restore"] is not None, "preempted at its first step"
    assert first["end"] - (first["start"] + first["restore"]) >= minimum - ROUNDING_S
    assert first["restore"] >= 3.0 - ROUNDING_S


def test_a_large_job_starts_again_after_the_limit_although_small_jobs_are_submitted(centre: Centre) -> None:
    limit = 10.0
    centre.restart(policy={"starve_limit": limit, "starve_factor": 1e9})  # a small job costs less than half
    large = centre.train(gpus=16, seconds=300)
    centre.wait_until_preemptable(large)
    with stream(centre):
        centre.wait_until(lambda: runs(centre, large)[0]["end"], "it is not preempted", large)
        bound = limit + SMALL_RUN_S + START_S
        centre.wait_until(
            lambda: len(runs(centre, large)) > 1, "small jobs keep it waiting", large, seconds=bound + START_S
        )
        waiting = centre.cluster.run(["squeue", "-h", "--user=bob", "--states=PENDING", "-o", "%i"]).stdout.split()
        first, second = runs(centre, large)[:2]
    assert limit - ROUNDING_S <= second["start"] - first["end"] <= bound
    assert waiting, "the stream had ended"
