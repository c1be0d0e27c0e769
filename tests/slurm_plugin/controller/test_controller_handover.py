"""The GPUs of preempted jobs reach their beneficiary, although other jobs are pending for the nodes. Real Slurm."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = pytest.mark.sandbox

FOREIGN = {
    "other partition": ("--partition=other", "--gpus=4"),
    "exclusive": ("--exclusive", "--nodes=1"),
    "several partitions": ("--partition=gpu,other", "--gpus=4"),
    "heterogeneous": ("--gpus=4", ":", "--ntasks=1", "--cpus-per-task=1"),
}


LONG = ("several partitions", "heterogeneous")


@pytest.mark.parametrize(
    "foreign", [pytest.param(one, marks=[pytest.mark.long] if one in LONG else []) for one in FOREIGN]
)
def test_gpus_of_a_preempted_job_reach_the_job_that_needs_them(centre: Centre, foreign: str) -> None:
    trainings = fill_with_trainings(centre)
    foreign_jobs = [centre.submit(*FOREIGN[foreign], gpus=0) for _ in range(3)]
    centre.wait_until(
        lambda: all(centre.state(job) == "PENDING" for job in foreign_jobs), "a foreign job does not wait"
    )
    small = centre.submit(gpus=4, user="bob")
    centre.wait_for_state(small, "RUNNING")
    centre.wait_for_cycles(3)
    assert sum(len(centre.reasons(job, "preempt")) for job in trainings) == 1
    assert [centre.state(job) for job in foreign_jobs] == ["PENDING"] * 3
    assert centre.show(small)["Priority"] != "0"


def test_no_job_is_preempted_where_another_partition_comes_first(centre: Centre) -> None:
    centre.scontrol("update", "PartitionName=other", "PriorityTier=10")
    try:
        centre.restart()
        trainings = [centre.train(gpus=4, seconds=300) for _ in range(4)]
        centre.wait_until(
            lambda: all(centre.published(job).get("queue") == 1 for job in trainings), "not demoted", *trainings
        )
        small = centre.submit(gpus=4, user="bob")
        centre.wait_until(lambda: centre.published(small), "not seen", small)
        centre.wait_for_cycles(3)
        assert [centre.reasons(job, "preempt") for job in trainings] == [[]] * 4
        assert "partition other comes before its own on gpu0" in centre.why(trainings[0])
        assert any("PriorityTier" in alarm for alarm in centre.status()["alarms"])
        assert "PriorityTier" in centre.command("doctor", "--config", centre.config, "--json").stdout
    finally:
        centre.scontrol("update", "PartitionName=other", "PriorityTier=1")


def test_a_job_that_does_not_save_costs_the_others_nothing(centre: Centre) -> None:
    """Two preempted jobs: one has saved at an earlier preemption, the other does not save before its deadline."""
    centre.restart(preemption={"deadline": 5.0})
    saved_before = centre.train("--nodelist=gpu01,gpu02", "--nodes=2", gpus=8, seconds=300)
    centre.wait_until_preemptable(saved_before)
    first = centre.submit("--nodelist=gpu01", gpus=4, command="sleep 1", user="bob")
    centre.wait_for_state(first, "COMPLETED")
    centre.wait_until(
        lambda: centre.show(saved_before).get("Restarts") == "1" and centre.published(saved_before)["preemptable"],
        "not back",
    )
    late = centre.train("--nodelist=gpu03,gpu04", "--nodes=2", gpus=8, seconds=300, habit="ignores")
    centre.wait_until_preemptable(late)
    centre.wait_until(
        lambda: all(centre.published(job)["queue"] == 1 for job in (saved_before, late)),
        "not demoted",
        saved_before,
        late,
    )
    large = centre.submit(gpus=16, user="bob")
    centre.wait_until(lambda: centre.reasons(late, "left running"), "the preemption does not end at the deadline", late)
    centre.wait_until(lambda: centre.reasons(saved_before, "left running"), "its preemption does not end", saved_before)
    assert centre.state(saved_before) == "RUNNING"
    assert centre.show(saved_before)["Restarts"] == "1"
    assert "saved step" not in centre.output(saved_before).split("from step")[-1], "it was signalled"
    assert centre.show(saved_before)["Priority"] != "0"
    centre.wait_for_cycles(3)
    assert centre.state(large) == "PENDING"
    assert [len(centre.reasons(job, "preempt")) for job in (saved_before, late)] == [2, 1], (
        "planned again without the late one"
    )


def fill_with_trainings(centre: Centre) -> list[str]:
    """Start four training jobs on a node each; return them once they are in the second queue."""
    trainings = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in trainings:
        centre.wait_until_preemptable(job)
    centre.wait_until(lambda: all(centre.published(job)["queue"] == 1 for job in trainings), "not demoted", *trainings)
    return trainings
