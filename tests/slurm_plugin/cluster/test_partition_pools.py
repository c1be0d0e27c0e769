"""The pools of jobs and nodes with a common order, by the configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiresias.scheduler.config import PolicyConfig
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.partition_pools import PartitionPools, conflict
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
FIFO = PolicyConfig(name="fifo")
CONFIG = replace(
    Config(), policy=PolicyConfig(name="las"), partitions=("gpu", "debug", "big"), partition_policies=(("debug", FIFO),)
)


def node(name: str, *partitions: str) -> SlurmNode:
    return SlurmNode(
        name=name, state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
        cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=partitions,
    )  # fmt: skip


def pools(
    journal: Journal, jobs: list[SlurmJob], *nodes: SlurmNode, config: Config = CONFIG
) -> tuple[PartitionPools, list]:  # type: ignore[type-arg]
    ledger = Ledger(journal, Scope.of(config))
    slurm = SlurmSnapshot(2000.0, tuple(jobs), nodes)
    snapshot = Observer(config, ledger).observe(slurm, ledger.apply(slurm), {})
    found = PartitionPools(config)
    return found, found.of(snapshot, slurm)


def test_partitions_of_equal_policy_are_one_pool(journal: Journal, pending: Make) -> None:
    jobs = [
        pending(id=str(number), partition=name, priority=1, reason="Priority")
        for number, name in enumerate(("big", "debug", "gpu", "gpu,debug"))
    ]
    nodes = node("n1", "gpu"), node("n2", "big", "gpu"), node("n3", "debug", "unmanaged")
    _, (base, own) = pools(journal, jobs, *nodes)
    assert (base.config, own.config) == (CONFIG.policy, FIFO)
    assert (base.jobs.tolist(), base.nodes.tolist()) == ([0, 2, 3], [0, 1])
    assert (own.jobs.tolist(), own.nodes.tolist()) == ([1], [2])
    assert (base.queues_before, own.queues_before) == (0, len(CONFIG.policy.limits) + 1)


def test_without_tables_there_is_one(journal: Journal, pending: Make) -> None:
    config = replace(CONFIG, partition_policies=())
    found, (one,) = pools(journal, [pending(partition="debug", priority=1)], node("n1", "gpu", "debug"), config=config)
    assert (one.config, one.jobs.tolist(), one.nodes.tolist(), found.alarms) == (config.policy, [0], [0], [])


def test_nodes_that_two_policies_share_are_refused_and_meanwhile_one_holds(journal: Journal, pending: Make) -> None:
    words = conflict(CONFIG, [("n1", {"gpu", "big"}), ("n2", {"gpu", "debug"})])
    assert words.startswith("partitions gpu and debug share n2 and have two policies")
    assert conflict(CONFIG, [("n1", {"gpu", "big", "unmanaged"}), ("n2", {"debug", "unmanaged"})]) == ""
    assert conflict(replace(CONFIG, partition_policies=()), [("n2", {"gpu", "debug"})]) == ""
    found, (one,) = pools(journal, [pending(partition="debug", priority=1)], node("n2", "gpu", "debug"))
    assert one.config == CONFIG.policy
    assert found.alarms == [f"{words}; until then [policy] holds for all partitions"]
