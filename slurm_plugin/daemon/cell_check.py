"""Refuses to start a controller whose virtual clusters own cells that the nodes do not have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Nodes
from tiresias.slurm_plugin.backends.interface import Backend
from tiresias.slurm_plugin.cluster import islands, topology
from tiresias.slurm_plugin.cluster.part_types import selected_types
from tiresias.slurm_plugin.cluster.tenant_pools import check_cells
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.allocations import scheduler_nodes


def refuse_impossible_cells(config: Config, backend: Backend) -> None:
    """Compare the cells of the virtual clusters with the nodes of Slurm; without virtual clusters Slurm is not asked.

    Raises:
        UsageError: Cells do not exist, or more are owned than there are.
        SlurmUnavailable: Slurm does not answer.
    """
    if config.virtual_clusters:
        check_cells(config, _idle_nodes(config, backend))


def _idle_nodes(config: Config, backend: Backend) -> Nodes:
    """Return the managed nodes as if they were idle."""
    nodes = [node for node in backend.snapshot().nodes if set(node.partitions) & set(config.partitions)]
    placement = config.placement
    switches = topology.from_slurm(backend.topology(placement.topology))
    near = switches or topology.from_features(nodes, placement.levels)
    found = scheduler_nodes(nodes, np.zeros((len(nodes), 3)), topology.groups(nodes, near))
    types = placement.part_types and selected_types(placement.part_types, backend.version())
    return replace(found, topology=islands.with_parts(found.topology, nodes, placement.islands, types))
