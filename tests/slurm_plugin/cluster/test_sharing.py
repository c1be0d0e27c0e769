"""Which nodes are unprotected: another partition comes first there."""

from __future__ import annotations

from tiresias.slurm_plugin.backends.slurm_rules import Partition
from tiresias.slurm_plugin.cluster.sharing import alarms, unprotected

NODES = tuple(f"gpu{number:02}" for number in range(1, 7))


def partition(name: str, tier: int, nodes: tuple[str, ...] = NODES) -> Partition:
    return Partition(name, nodes=nodes, priority_tier=tier)


def test_only_a_higher_tier_on_the_same_nodes_comes_first() -> None:
    gpu = partition("gpu", 5, NODES[:4])
    assert unprotected([gpu, partition("other", 5), partition("low", 1)], {"gpu"}) == {}
    assert unprotected([gpu, partition("high", 6, NODES[3:])], {"gpu"}) == {"gpu04": "high"}
    assert unprotected([gpu, partition("high", 6, NODES[4:])], {"gpu"}) == {}


def test_managed_partitions_do_not_count_against_each_other_but_the_lowest_counts() -> None:
    managed = [partition("gpu", 5), partition("slow", 1)]
    assert unprotected(managed, {"gpu", "slow"}) == {}
    assert set(unprotected([*managed, partition("other", 3, NODES[:1])], {"gpu", "slow"})) == {"gpu01"}


def test_the_alarm_names_the_partition_and_a_few_nodes() -> None:
    (alarm,) = alarms(unprotected([partition("gpu", 1), partition("high", 2)], {"gpu"}))
    assert alarm.startswith(
        "partition high has a higher PriorityTier than a managed one on gpu01, gpu02, gpu03 and 3 more nodes"
    )
    assert "no job is preempted there" in alarm
    assert alarms({}) == []
