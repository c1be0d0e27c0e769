"""The resources that jobs hold, or are reserved for starts, on each node, in the model of `scheduler`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from tiresias.scheduler.model import Allocations, Floats, Ints, Nodes
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode
from tiresias.slurm_plugin.cluster.shared_gpus import gpus_in_shares
from tiresias.slurm_plugin.observation.held_rows import KeptHeldRows
from tiresias.slurm_plugin.state.intents import PREEMPTIONS, Intent, IntentKind, IntentStep

_SHARES: Callable[[SlurmJob], Sequence[NodeShare]] = attrgetter("shares")


def promised(intents: Mapping[str, Intent]) -> dict[str, Intent]:
    """Return the starts that open preemptions lead to, by beneficiary, so that these are not planned again."""
    preemptions = [one for one in intents.values() if one.kind in PREEMPTIONS and one.beneficiary]
    return {
        one.beneficiary: Intent(
            "",
            one.beneficiary,
            0,
            IntentKind.START,
            IntentStep.START,
            one.nodes,
            cells=one.cells,
            parts=one.parts,
            servers=one.servers,
        )
        for one in preemptions
        if one.nodes and one.step != IntentStep.SPARE
    }


def selected_parts(intents: Mapping[str, Intent]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the parts that starts select of their nodes, by job and node."""
    starts = {job: one for job, one in intents.items() if one.kind == IntentKind.START and one.parts}
    return {
        job: {node: parts for (node, _), parts in zip(one.nodes, one.parts, strict=True)} for job, one in starts.items()
    }


def _shares(job: SlurmJob, intent: Intent | None) -> Sequence[NodeShare]:
    """Return what the job holds on each node, or what is reserved for its start: fractions of CPUs and MiB there."""
    if job.shares or not intent:
        return job.shares
    per_gpu = job.cpus / job.gpus
    return [
        NodeShare(node, gpus, gpus * per_gpu, job.memory_per_node or gpus * per_gpu * job.memory_per_cpu)  # type: ignore[arg-type]
        for node, gpus in intent.nodes
    ]


def _all_shares(jobs: Sequence[SlurmJob], intents: Mapping[str, Intent]) -> list[Sequence[NodeShare]]:
    """Return what each job holds, or what is reserved for its start."""
    starts = {job: one for job, one in intents.items() if one.kind == IntentKind.START}
    if not starts:
        return list(map(_SHARES, jobs))
    return [_shares(job, starts.get(job.id)) for job in jobs]


def held_by_node(
    jobs: Sequence[SlurmJob],
    shown: Sequence[SlurmJob],
    intents: Mapping[str, Intent],
    row_of: Mapping[str, int],
    kept: KeptHeldRows,
) -> Floats:
    """Return the GPUs, CPUs and MiB that all jobs hold on each node, shape (nodes, 3). A GPU that jobs share counts as one."""
    managed = {job.id for job in shown} if intents else frozenset[str]()
    held = kept.of(_all_shares(jobs, {job: one for job, one in intents.items() if job in managed}), row_of)
    taken = held.by_node(len(row_of))
    for node, gpus in gpus_in_shares(jobs).items():
        if node in row_of:
            taken[row_of[node], 0] += len(gpus)
    return taken


def scheduler_nodes(nodes: Sequence[SlurmNode], taken: Floats, nearest_groups: Sequence[Ints]) -> Nodes:
    """Return the nodes with what is free on them.

    Args:
        nodes: the records, as Slurm has them.
        taken: GPUs, CPUs and memory that are allocated or promised on each node, shape (nodes, 3).
        nearest_groups: the index of each node's leaf switch, then of the group above it, and so on.
    """
    usable = np.array([node.usable and "RESERVED" not in node.flags for node in nodes], dtype=bool)
    total = np.array([(node.gpus, node.cpus, node.memory) for node in nodes], dtype=float).reshape(len(nodes), 3)
    # Below 0 where GPUs that jobs still hold are reserved for a beneficiary: they are not free for others when released.
    free = np.where(usable[:, None], total - taken, 0.0)
    return Nodes(
        name=tuple(node.name for node in nodes),
        gpus=total[:, 0].astype(np.int64),
        free=Resources(free),
        usable=usable,
        topology=Topology.of_groups(total[:, 0], nearest_groups),
        gpu_type=tuple(node.gpu_type for node in nodes),
        features=tuple(frozenset(node.features) for node in nodes),
    )


def allocations(
    shown: Sequence[SlurmJob],
    intents: Mapping[str, Intent],
    row_of: Mapping[str, int],
    kept: KeptHeldRows,
    cells: Sequence[Mapping[str, str]] | None = None,
) -> Allocations:
    """Return the allocations of the competing jobs in the model of `scheduler`.

    Args:
        shown: The jobs.
        intents: The open intents, by job id.
        row_of: The row of each node, by name.
        kept: Of the jobs of earlier calls.
        cells: For each job the type of its virtual cluster's cell on each node (owned_cells.py); None: no virtual clusters.
    """
    held = kept.of(_all_shares(shown, intents), row_of)
    if cells is None:
        return Allocations(held.job, held.node, Resources(held.amounts), None)
    names = list(row_of)
    places = zip(held.job.tolist(), held.node.tolist(), strict=True)
    owned = tuple(cells[row].get(names[place], "") for row, place in places)
    return Allocations(held.job, held.node, Resources(held.amounts), owned)
