"""Nodes on which preempted GPUs would not reach their beneficiary: a partition of a higher priority tier has them, too.

Slurm tries jobs of a higher PriorityTier first, whatever the priority of the others. So on such nodes no job is preempted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tiresias.slurm_plugin.backends.slurm_rules import Partition

REMEDY = "give the managed partitions the highest PriorityTier on their nodes"
_SHOWN = 3  # nodes of an alarm


def unprotected(partitions: Iterable[Partition], managed: Collection[str]) -> dict[str, str]:
    """The unmanaged partition that comes first, by name of the node."""
    known = list(partitions)
    tiers: dict[str, int] = {}
    for one in known:
        if one.name in managed:
            tiers |= {node: min(one.priority_tier, tiers.get(node, one.priority_tier)) for node in one.nodes}
    return {
        node: one.name
        for one in sorted(known, key=lambda one: one.priority_tier)
        for node in one.nodes
        if one.name not in managed and one.priority_tier > tiers.get(node, one.priority_tier)
    }


def alarms(found: Mapping[str, str]) -> list[str]:
    """`found`: what `unprotected` returned."""
    return [f"{problem}; {REMEDY}" for problem in problems(found)]


def problems(found: Mapping[str, str]) -> list[str]:
    """One for each partition."""
    return [
        f"partition {partition} has a higher PriorityTier than a managed one on {_names(nodes)}: no job is preempted there"
        for partition in sorted(set(found.values()))
        if (nodes := sorted(node for node, other in found.items() if other == partition))
    ]


def _names(nodes: list[str]) -> str:
    more = len(nodes) - _SHOWN
    return ", ".join(nodes[:_SHOWN]) + (f" and {more} more nodes" if more > 0 else "")
