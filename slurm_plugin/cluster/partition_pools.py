"""Which partitions have an order of their own: those with a table `[policy.partitions.NAME]`, and all of equal policy together.

Partitions that share nodes need the same policy: with two orders, each would preempt and reserve on the nodes of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.model import Ints, Jobs, Snapshot
from tiresias.scheduler.pools import NodePool
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import Policy
from tiresias.slurm_plugin.backends.protocol import SlurmSnapshot
from tiresias.slurm_plugin.config import PARTITION_POLICIES, Config


def conflict(config: Config, partitions_of: Iterable[tuple[str, Collection[str]]]) -> str:
    """In one line, why the policies cannot hold; "" where they can. partitions_of: name and partitions of each node."""
    if not config.partition_policies:
        return ""
    for node, partitions in partitions_of:
        names = [name for name in config.partitions if name in partitions]
        for name in names[1:]:
            if config.policy_of(name) != config.policy_of(names[0]):
                return (
                    f"partitions {names[0]} and {name} share {node} and have two policies: "
                    f"give both the same [{PARTITION_POLICIES}NAME] table, or none"
                )
    return ""


class PartitionPools:
    """The pools of a configuration, each with its policy as it has learned."""

    def __init__(self, config: Config) -> None:
        self._config = config
        configs = dict.fromkeys([config.policy, *(config.policy_of(name) for name in config.partitions)])
        self._policies: dict[PolicyConfig, Policy] = {each: POLICIES[each.name] for each in configs}
        self.alarms: list[str] = []  # in one line each

    def learn(self, over: int, past: Callable[[], Completed], jobs: Jobs) -> None:
        """From all completed jobs, as often as each policy wants to. over: how many there are. past: reads them, which is slow."""
        for config, policy in self._policies.items():
            if over >= policy.refit_at:
                self._policies[config] = policy.fitted(past(), jobs)

    def of(self, snapshot: Snapshot, slurm: SlurmSnapshot) -> list[NodePool]:
        """Where an administrator gave nodes to partitions of two policies, [policy] holds for all of them, with an alarm."""
        self.alarms = []
        if not self._config.partition_policies:
            return [self._whole(snapshot)]
        partitions = {node.name: node.partitions for node in slurm.nodes}
        if found := conflict(self._config, ((name, partitions[name]) for name in snapshot.nodes.name)):
            self.alarms = [f"{found}; until then [policy] holds for all partitions"]
            return [self._whole(snapshot)]
        partition = {job.id: job.partition for job in slurm.jobs}
        of_jobs = [self._config.policy_of(partition[job]) for job in snapshot.jobs.id]
        of_nodes = [self._of_node(partitions[name]) for name in snapshot.nodes.name]
        pools, before = list[NodePool](), 0
        for each in dict.fromkeys(map(self._config.policy_of, self._config.partitions)):
            pools.append(NodePool(_rows(of_jobs, each), _rows(of_nodes, each), each, self._policies[each], before))
            before += len(each.limits) + 1
        return pools

    def _whole(self, snapshot: Snapshot) -> NodePool:
        config = self._config.policy
        return NodePool(np.arange(len(snapshot.jobs)), np.arange(len(snapshot.nodes)), config, self._policies[config])

    def _of_node(self, partitions: Collection[str]) -> PolicyConfig:
        return self._config.policy_of(next(name for name in self._config.partitions if name in partitions))


def _rows(values: Sequence[PolicyConfig], wanted: PolicyConfig) -> Ints:
    return np.array([row for row, value in enumerate(values) if value is wanted or value == wanted], np.int64)
