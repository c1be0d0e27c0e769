"""Which aggregators' nodes Slurm requests back: nodes that drain, and nodes for which jobs of higher priority wait. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tiresias.services.parameter_service.manager.fleet_state import QueuedAggregator

_DRAINS = ("drain", "fail", "down")  # draining, drained, failing, fail
_WAITS = ("Resources", "Priority")  # reasons of a job that would run if there were free nodes


class NodeOfPartition(NamedTuple):
    """A node in one of its partitions.

    Attributes:
        node: Its name.
        partition: The partition.
        tier: PriorityTier of the partition.
        state: Its state, as sinfo prints it.
    """

    node: str
    partition: str
    tier: int
    state: str


class PendingJob(NamedTuple):
    """A job that waits for nodes.

    Attributes:
        slurm_job: Its id.
        partitions: Where it may run.
        priority: Its priority in Slurm.
        nodes: The nodes that it needs.
    """

    slurm_job: int
    partitions: tuple[str, ...]
    priority: int
    nodes: int


def parsed_nodes(listed: str) -> list[NodeOfPartition]:
    """Return the rows of `sinfo -N --format=%N|%R|%p|%T`; others are left out."""
    rows = [line.strip().split("|") for line in listed.splitlines()]
    return [
        NodeOfPartition(row[0], row[1], int(row[2]), row[3]) for row in rows if len(row) == 4 and row[2].isdecimal()
    ]


def parsed_pending(listed: str, own: str) -> list[PendingJob]:
    """Return the rows of `squeue --format=%A|%P|%Q|%r|%D|%j` that wait for resources, without jobs whose name begins with `own`."""
    rows = [line.strip().split("|", 5) for line in listed.splitlines()]
    return [
        PendingJob(int(row[0]), tuple(row[1].split(",")), int(row[2]), int(row[4]))
        for row in rows
        if len(row) == 6 and row[3] in _WAITS and not row[5].startswith(own) and _numbers(row[0], row[2], row[4])
    ]


def draining(nodes: Iterable[NodeOfPartition]) -> set[str]:
    """Return the nodes that drain or fail: Slurm starts nothing on them."""
    return {each.node for each in nodes if each.state.lower().startswith(_DRAINS)}


def requested_by_jobs(
    pending: Collection[PendingJob],
    nodes: Iterable[NodeOfPartition],
    running: Collection[QueuedAggregator],
    given: Mapping[int, Collection[str]],
) -> dict[int, set[str]]:
    """Return the nodes that are given back to each waiting job of higher priority, those with the fewest aggregators first.

    A job gets as many nodes as it needs, once: where it waits for something else, the others are not given back, too.

    Args:
        pending: The waiting jobs.
        nodes: The nodes of the aggregators, in each of their partitions.
        running: The running aggregators that do not end.
        given: The nodes that each job was given before.
    """
    tier = {each.partition: each.tier for each in nodes}
    partitions_of: defaultdict[str, set[str]] = defaultdict(set)
    for each in nodes:
        partitions_of[each.node].add(each.partition)
    held: defaultdict[str, list[QueuedAggregator]] = defaultdict(list)
    for aggregator in running:
        held[aggregator.node].append(aggregator)
    found: dict[int, set[str]] = {}
    for job in sorted(pending, key=lambda each: (-_tier(each, tier), -each.priority, each.slurm_job)):
        rank = (_tier(job, tier), job.priority)
        candidates = [
            node
            for node, there in held.items()
            if partitions_of[node] & set(job.partitions)
            and all((tier.get(each.partition, 0), each.priority) < rank for each in there)
        ]
        needed = job.nodes - len(given.get(job.slurm_job, ()))
        for node in sorted(candidates, key=lambda each: (len(held[each]), each))[: max(needed, 0)]:
            found.setdefault(job.slurm_job, set()).add(node)
            del held[node]
    return found


def _tier(job: PendingJob, tier: Mapping[str, int]) -> int:
    return max((tier.get(each, 0) for each in job.partitions), default=0)


def _numbers(*texts: str) -> bool:
    return all(text.isdecimal() for text in texts)
