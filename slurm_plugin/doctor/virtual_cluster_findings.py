"""All findings on virtual clusters, from Slurm's nodes, topology and rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Nodes
from tiresias.slurm_plugin.backends.interface import Backend, SlurmNode, SlurmUnavailable
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster import islands, topology
from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.cluster.part_types import selected_types
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.doctor import virtual_cluster_checks as checks
from tiresias.slurm_plugin.doctor.outside_virtual_clusters import outside
from tiresias.slurm_plugin.doctor.virtual_cluster_checks import MappedCluster
from tiresias.slurm_plugin.doctor.virtual_cluster_limits import limits, owned_gpus
from tiresias.slurm_plugin.observation.allocations import scheduler_nodes


def read(clusters: Sequence[MappedCluster], config: Config, backend: Backend) -> Iterator[Finding]:
    """Read nodes, topology and rules, and check the virtual clusters; without any of these nothing is read."""
    if not clusters:
        return
    try:
        nodes, rules = backend.snapshot().nodes, backend.rules()
        switches = topology.from_slurm(backend.topology(config.placement.topology))
    except SlurmUnavailable as error:
        yield Finding(Level.RISK, "virtual clusters", f"not checked: {error}", "repeat the command once Slurm answers")
        return
    types = config.placement.part_types and selected_types(config.placement.part_types, backend.version())
    yield from findings(clusters, nodes, switches, rules, config, types)


def findings(
    clusters: Sequence[MappedCluster],
    nodes: Sequence[SlurmNode],
    switches: Sequence[topology.Level],
    rules: SlurmRules,
    config: Config,
    part_types: Sequence[str] = (),
) -> Iterator[Finding]:
    """Yield the findings.

    Args:
        clusters: The virtual clusters.
        nodes: All nodes.
        switches: Slurm's topology; () where it has none, so that features of nodes are used.
        rules: Slurm's rules.
        config: The configuration.
        part_types: GPU types by which starts select parts of nodes.
    """
    managed = config.partitions
    there = [node for node in nodes if set(node.partitions) & set(managed)]
    state, found = checks.cells(clusters, _model(there, switches, config, part_types))
    yield from found
    yield from checks.reach(clusters, rules, managed)
    yield from outside(clusters, rules, managed)
    yield from checks.nodes_without_cells(nodes, managed)
    yield from checks.nodes_of_partitions(clusters, nodes, managed)
    if state is not None:
        yield from limits(clusters, owned_gpus(state), rules)


def _model(
    nodes: Sequence[SlurmNode], switches: Sequence[topology.Level], config: Config, part_types: Sequence[str]
) -> Nodes:
    """Return the nodes as decisions have them, idle."""
    near = switches or topology.from_features(nodes, config.placement.levels)
    found = scheduler_nodes(nodes, np.zeros((len(nodes), 3)), topology.groups(nodes, near))
    return replace(found, topology=islands.with_parts(found.topology, nodes, config.placement.islands, part_types))
