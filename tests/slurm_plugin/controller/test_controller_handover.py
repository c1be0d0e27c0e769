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


def test_no_job_is_preempted_where_another_partition_comes_first(centre: Centre) -> None:
    centre.scontrol("update", "PartitionName=other", "PriorityTier=10")
    try:
        centre.restart()
        trainings = [centre.train(gpus=4, seconds=300) for _ in range(4)]
        centre.until(
            lambda: all(centre.published(job).get("queue") == 1 for job in trainings), "not demoted", *trainings
        )
        small = centre.submit(gpus=4, user="bob")
        centre.until(lambda: centre.published(small), "not seen", small)
        centre.cycles(3)
        assert [centre.said(job, "preempt") for job in trainings] == [[]] * 4
        assert "partition other comes before its own on gpu0" in centre.why(trainings[0])
        assert any("PriorityTier" in alarm for alarm in centre.status()["alarms"])
        assert "PriorityTier" in centre.command("doctor", "--config", centre.config, "--json").stdout
    finally:
        centre.scontrol("update", "PartitionName=other", "PriorityTier=1")


def test_a_job_that_does_not_save_costs_the_others_nothing(centre: Centre) -> None:
    """Two victims: one has been preempted before, the other one does not save before its deadline."""
    centre.restart(preemption={"deadline": 5.0})
    proven = centre.train("--nodelist=gpu01,gpu02", "--nodes=2", gpus=8, seconds=300)
    centre.trains(proven)
    first = centre.submit("--nodelist=gpu01", gpus=4, command="sleep 1", user="bob")
    centre.reaches(first, "COMPLETED")
    centre.until(
        lambda: centre.show(proven).get("Restarts") == "1" and centre.published(proven)["preemptable"], "not back"
    )
    late = centre.train("--nodelist=gpu03,gpu04", "--nodes=2", gpus=8, seconds=300, habit="ignores")
    centre.trains(late)
    centre.until(
        lambda: all(centre.published(job)["queue"] == 1 for job in (proven, late)), "not demoted", proven, late
    )
    whale = centre.submit(gpus=16, user="bob")
    centre.until(lambda: centre.said(late, "left running"), "the deadline is not kept", late)
    centre.until(lambda: centre.said(proven, "left running"), "it is not let go", proven)
    assert centre.state(proven) == "RUNNING"
    assert centre.show(proven)["Restarts"] == "1"
    assert "saved step" not in centre.output(proven).split("from step")[-1], "it was signalled"
    assert centre.show(proven)["Priority"] != "0"
    centre.cycles(3)
    assert centre.state(whale) == "PENDING"
    assert [len(centre.said(job, "preempt")) for job in (proven, late)] == [2, 1], "planned again without the late one"


def full_of_trainings(centre: Centre) -> list[str]:
    """Four jobs on a node each, in the second queue."""
    trainings = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in trainings:
        centre.trains(job)
    centre.until(lambda: all(centre.published(job)["queue"] == 1 for job in trainings), "not demoted", *trainings)
    return trainings
