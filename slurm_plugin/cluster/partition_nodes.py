"""The managed nodes that are in none of a job's partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tiresias.slurm_plugin.backends.interface import SlurmNode


def nodes_elsewhere(nodes: Sequence[SlurmNode], partitions: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return the nodes outside of each request's partitions. O(nodes x different requests).

    Args:
        nodes: The managed nodes.
        partitions: The partitions of jobs in Slurm's words, "gpu" or "gpu,large".
    """
    return {
        text: frozenset(node.name for node in nodes if set(text.split(",")).isdisjoint(node.partitions))
        for text in set(partitions)
    }
