"""Replays of a site's jobs in virtual clusters (VCs), under each of some rules by which these share the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Ints, Nodes
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Experiment, Setup
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.trace import Trace

NO_CLUSTER = "(none)"  # shown for the jobs of no VC
SHORT = {
    "virtual_clusters": "VCs",
    "private_clusters": "private",
    "gpu_quotas": "quotas",
}  # names of rules in names of runs


@dataclass(frozen=True, slots=True)
class SharedCluster:
    """VCs that share a cluster.

    Attributes:
        name: The name of their file.
        rules: The same VCs under each rule.
    """

    name: str
    rules: tuple[SimulatedTenants, ...]

    @property
    def declared(self) -> tuple[DeclaredTenant, ...]:
        """What the VCs own."""
        return self.rules[0].declared

    def experiments(self, setup: Setup, policies: Sequence[str]) -> dict[str, Experiment]:
        """Return the experiments of each policy under each rule, by name. A VC with a policy of its own keeps it."""
        return {
            f"{policy}, {SHORT.get(tenants.rule, tenants.rule)}": replace(
                setup, tenants=tenants, by_node=True
            ).experiment(policy)
            for tenants in self.rules
            for policy in policies
        }

    def rows(self, trace: Trace) -> dict[str, Ints]:
        """Return the rows of the jobs of each VC that has some, and of those of no VC."""
        names, clusters = [tenant.name for tenant in self.declared], np.array(trace.vc, dtype=object)
        found = {name: np.flatnonzero(clusters == name) for name in names}
        found[NO_CLUSTER] = np.flatnonzero(~np.isin(clusters, names))
        return {name: rows for name, rows in found.items() if len(rows)}


def owned_gpus(nodes: Nodes, declared: Sequence[DeclaredTenant]) -> dict[str, int]:
    """Return the GPUs in the cells of each VC. Raises UsageError if the cells do not fit into the nodes."""
    found = dict.fromkeys((tenant.name for tenant in declared), 0)
    for chain in CellState(cell_specification(nodes, declared)).chains.values():
        for name, counts in chain.owned_free.items():
            found[name] += sum(
                count * level.leaves for count, level in zip(counts[1:], chain.chain.levels, strict=True)
            )
    return found


def startable(trace: Trace, cluster: ClusterSize, rules: Sequence[SimulatedTenants]) -> Trace:
    """Return the jobs that can start under each of the rules. The others, which would wait forever, are dropped.

    Raises:
        UsageError: There are none.
    """
    owned = owned_gpus(Occupancy(cluster).nodes(), rules[0].declared)
    for tenants in rules:
        largest = _largest(tenants, owned, cluster.gpus)
        outside = cluster.gpus - sum(owned.values()) if tenants.rule == "private_clusters" else cluster.gpus
        most = np.array([largest.get(name, outside) for name in trace.vc], np.int64)
        trace = trace.without(trace.gpus > most, f"can never start under {tenants.rule}: it is larger than its cells")
    if not len(trace):
        raise UsageError(
            "no job can start: each one is larger than the cells of its virtual cluster; give it more cells"
        )
    return trace


def _largest(tenants: SimulatedTenants, owned: Mapping[str, int], gpus: int) -> dict[str, int]:
    """Return the GPUs of the largest job that can start, by VC."""
    confined = {
        tenant.name for tenant in tenants.declared if tenants.rule == "private_clusters" or not tenant.opportunistic
    }
    return {name: owned[name] if name in confined else gpus for name in owned}
