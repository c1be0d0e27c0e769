"""The GPUs of preempted jobs reach the job that they were preempted for, whatever else is pending on the nodes. Real Slurm."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
Centre = Any  # conftest.py

FOREIGN = {
    "other partition": ("--partition=other", "--gpus=4"),
    "exclusive": ("--exclusive", "--nodes=1"),
    "several partitions": ("--partition=gpu,other", "--gpus=4"),
    "heterogeneous": ("--gpus=4", ":", "--ntasks=1", "--cpus-per-task=1"),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_gpus_of_a_preempted_job_reach_the_job_that_needs_them(centre: Centre, foreign: str) -> None:
    trainings = full_of_trainings(centre)
    thieves = [centre.submit(*FOREIGN[foreign], gpus=0) for _ in range(3)]
    centre.until(lambda: all(centre.state(job) == "PENDING" for job in thieves), "a foreign job does not wait")
    small = centre.submit(gpus=4, user="bob")
    centre.reaches(small, "RUNNING")
    centre.cycles(3)
    assert sum(len(centre.said(job, "preempt")) for job in trainings) == 1
    assert [centre.state(job) for job in thieves] == ["PENDING"] * 3
    assert centre.show(small)["Priority"] != "0"


def full_of_trainings(centre: Centre) -> list[str]:
    """Four jobs on a node each, in the second queue."""
    trainings = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in trainings:
        centre.trains(job)
    centre.until(lambda: all(centre.published(job)["queue"] == 1 for job in trainings), "not demoted", *trainings)
    return trainings
