"""Slurm's order of the waiting jobs: which one is first on which nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slurm_plugin.conftest import PENDING
from tiresias.slurm_plugin.assist.slurm_ranks import first_jobs, in_order
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode
from tiresias.slurm_plugin.backends.slurm_rules import Partition, SlurmRules

RULES = SlurmRules(partitions={"top": Partition("top", priority_tier=2)})


def waits(name: str, priority: int = 10, reason: str = "Priority", **more: object) -> SlurmJob:
    return replace(PENDING, id=name, priority=priority, reason=reason, **more)  # type: ignore[arg-type]


def node(name: str, *partitions: str) -> SlurmNode:
    return SlurmNode(name, "IDLE", frozenset(), "", 4, 0, "", 16, 0, 1000, 0, (), partitions)


def first(nodes: list[SlurmNode], *jobs: SlurmJob) -> list[str]:
    return [one.job.id for one in first_jobs(jobs, nodes, RULES)]


def test_a_requeued_job_has_a_new_time_of_submission() -> None:
    assert [job.id for job in in_order([waits("1", submit_time=2000), waits("2")], RULES)] == ["2", "1"]


def test_tier_before_priority_before_id() -> None:
    jobs = [waits("9"), waits("10"), waits("2", 11), waits("3_2"), waits("30", 1, partition="top")]
    assert [job.id for job in in_order(jobs, RULES)] == ["30", "2", "3_2", "9", "10"]


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 0, "reason": "JobHeldUser"},
        {"reason": "QOSMaxJobsPerUserLimit"},
        {"reason": "BeginTime"},
        {"dependency": "afterok:1"},
        {"reservation": "maintenance"},
        {"state": "RUNNING", "reason": "None"},
        {"completing": True},
    ],
)
def test_jobs_that_slurm_passes_over_delay_no_job(changes: dict[str, object]) -> None:
    passed = replace(waits("1", 99), **changes)  # type: ignore[arg-type]
    assert first([node("n0", "gpu")], passed, waits("2")) == ["2"]


def test_an_unmanaged_job_may_be_first() -> None:
    (found,) = first_jobs([waits("1", gpus=0), waits("2", 3)], [node("n0", "gpu")], RULES)
    assert (found.job.id, [job.id for job in found.lower_ranked]) == ("1", ["2"])


def test_partitions_that_share_nodes_have_one_order() -> None:
    gpu, cpu = waits("1"), waits("2", 99, partition="cpu")
    assert first([node("n0", "gpu"), node("n1", "cpu")], gpu, cpu) == ["2", "1"]
    assert first([node("n0", "gpu"), node("n1", "cpu"), node("n2", "gpu", "cpu")], gpu, cpu) == ["2"]


def test_a_job_of_two_partitions_is_first_only_where_it_is_in_both() -> None:
    both, other = waits("1", partition="gpu,cpu"), waits("2", 99, partition="cpu")
    nodes = [node("n0", "gpu"), node("n1", "cpu")]
    assert first(nodes, both, other) == ["2"]
    (found,) = first_jobs([both], nodes, RULES)
    assert found.job.id == "1"


def test_a_first_job_that_slurm_has_not_tried_stays_first() -> None:
    """A job that was just released may come before the one for which Slurm reported a lack of resources earlier."""
    (found,) = first_jobs([waits("2", reason="Resources"), waits("1", reason="None")], [node("n0", "gpu")], RULES)
    assert found.job.id == "1"
    assert not found.lacks_resources


names = st.sampled_from(["a", "b", "c", "d"])
any_nodes = st.lists(st.lists(names, min_size=1, max_size=2, unique=True), min_size=1, max_size=6)
any_jobs = st.lists(st.tuples(st.lists(names, min_size=1, max_size=2, unique=True), st.integers(1, 3)), max_size=8)


@given(any_nodes, any_jobs)
def test_no_two_first_jobs_share_a_node_and_none_is_outranked(
    of_nodes: list[list[str]], of_jobs: list[tuple[list[str], int]]
) -> None:
    nodes = [node(f"n{row}", *partitions) for row, partitions in enumerate(of_nodes)]
    jobs = [waits(str(row), priority, partition=",".join(names)) for row, (names, priority) in enumerate(of_jobs)]
    seen: set[str] = set()
    for one in first_jobs(jobs, nodes, RULES):
        own = [each for each in nodes if set(one.job.partition.split(",")) & set(each.partitions)]
        assert seen.isdisjoint(each.name for each in own)
        seen |= {each.name for each in own}
        there = {name for each in own for name in each.partitions}
        rivals = [job for job in jobs if there & set(job.partition.split(","))]
        assert one.job in rivals
        assert max(job.priority for job in rivals) == one.job.priority
