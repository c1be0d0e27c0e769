"""The size of an elastic job, in GPUs: which sizes its request allows, and the request of one of them.

What the owner states for each task or each node stays as it is: with --gpus-per-task the number of tasks changes, with GPUs or
tasks for each node the number of nodes. Measured on Slurm 22.05, 24.11 and 26.05: an update of NumTasks, NumCPUs and NumNodes in
one call changes the request of a requeued job, and the GPUs with it.

The parameter servers of a job hold further CPUs of its tasks (protocol/server_counts.py): there CPUsPerTask changes, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiresias.protocol import elastic_sizes
from tiresias.protocol.elastic_sizes import ElasticSizes
from tiresias.protocol.server_counts import ServerCounts
from tiresias.slurm_plugin.backends.interface import SlurmJob, StatedGpus
from tiresias.slurm_plugin.state.journal_rows import JobRow

NodeGpus = Sequence[tuple[str, int]]
CHANGED = ("gpus", "tasks", "cpus")  # fields of SlurmJob that another size changes; with servers also `cpus_per_task`


def stated(row: JobRow) -> ElasticSizes | None:
    """Return the sizes that the owner of an elastic job states; None for any other job."""
    return elastic_sizes.read(row.elastic)


def sizes(row: JobRow) -> ElasticSizes | None:
    """Return the sizes of an elastic job; None for a job of a fixed size, also one that keeps its size (JobRow.rigid)."""
    return None if row.rigid else stated(row)


def server_counts(row: JobRow) -> ServerCounts | None:
    """Return the numbers of parameter servers that an elastic job can use; None: it has none."""
    found = stated(row)
    return found.servers if found else None


def servers(row: JobRow, job: SlurmJob) -> int:
    """Return the parameter servers of a job by its record, as it waits or runs; 0: it has none."""
    counts = server_counts(row)
    return counts.of_run(job.tasks, cpus_of_a_task(job)) if counts else 0


def cpus_of_a_task(job: SlurmJob) -> int:
    """Return the CPUs of each task of a job with servers. 22.05 shows those of all tasks alone."""
    return job.cpus_per_task or job.cpus // max(job.tasks, 1)


def servers_in_proportion(sizes: ElasticSizes, job: SlurmJob, gpus: int) -> int:
    """Return the parameter servers of a size in the proportion of the most servers to the most GPUs; 0: the job has none.

    Args:
        sizes: The sizes that its owner states.
        job: The job, as it waits or runs.
        gpus: The size.
    """
    if sizes.servers is None:
        return 0
    proportional = sizes.servers.in_proportion(gpus, max(sizes.most, gpus))
    return sizes.servers.reached(workers(job, gpus), proportional)


def workers(job: SlurmJob, gpus: int) -> int:
    """Return the tasks of a size of a job."""
    return max(job.tasks * gpus // job.gpus, 1)


def can_change(job: SlurmJob) -> bool:
    """Return whether the size of a job can change, whatever its owner states.

    Not that of a task of an array, of a component of a heterogeneous job, of whole nodes (--exclusive), nor where tasks or GPUs are
    counted by socket or GPU.
    """
    is_one = job.batch and job.requeue and not (job.array_id or job.het_id or job.exclusive)
    is_counted_otherwise = job.tasks_per_gpu or job.tasks_per_socket or job.gpus_per_socket
    return is_one and not is_counted_otherwise and job.gpus > 0 and job.gpus % unit(job) == 0


def per_node(job: SlurmJob) -> int:
    """Return the GPUs on each node where the number of nodes changes with the size; 0: the number of tasks does."""
    return job.gpus_per_node or job.tasks_per_node * job.gpus // max(job.tasks, 1)


def unit(job: SlurmJob) -> int:
    """Return the GPUs by multiples of which the size can change: those of a node, or of a task."""
    return per_node(job) or job.gpus // math.gcd(job.gpus, max(job.tasks, 1)) or 1


def ranks(job: SlurmJob) -> frozenset[int]:
    """Return the numbers of ranks that a program of this size may have: one for each task, GPU, or node if these change.

    Args:
        job: As it runs.
    """
    found = {max(job.tasks, 1), job.gpus}
    return frozenset(found | {len(job.shares)} if per_node(job) else found)


def step(row: JobRow, job: SlurmJob) -> int:
    """Return the GPUs by multiples of which the size of a job changes; 0: it has a fixed size."""
    found = sizes(row)
    return math.lcm(found.step, unit(job)) if found else 0


def stated_at(stated: Sequence[StatedGpus], gpus: int) -> tuple[StatedGpus, ...]:
    """Return the options of a request that state GPUs, at another size: those of each task or node stay as they are.

    Args:
        stated: The options as the owner's request has them.
        gpus: The size.
    """
    return tuple(one._replace(gpus=gpus) if one.per == "job" else one for one in stated)


def total_gpus(gpus: int, gpu_type: str, counts_nodes: bool) -> StatedGpus | None:
    """Return the GPUs of all tasks of a size, for `RequestChange`; None where the number of nodes changes with the size."""
    return None if counts_nodes else StatedGpus("job", gpus, "" if "," in gpu_type else gpu_type)


def is_other(row: JobRow, job: SlurmJob, nodes: NodeGpus, count: int) -> bool:
    """Return whether a start on these nodes, with so many servers, gives an elastic job another size than its owner requested.

    job: as requested.
    """
    differs = sum(gpus for _, gpus in nodes) != job.gpus or (count > 0 and count != servers(row, job))
    return sizes(row) is not None and differs


def kept_at(job: SlurmJob, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the record of a job must show once it has another size. Its GPUs follow from the rest; 22.05 does not show them.

    Args:
        job: As it was resized.
        kept: What a pin must keep of the owner's request.
    """
    others = {name: value for name, value in kept.items() if name not in CHANGED}
    return others | {"tasks": job.tasks, "cpus": job.cpus, "cpus_per_task": job.cpus_per_task}


def request_of(job: SlurmJob, gpus: int, counts: ServerCounts | None = None, count: int = 0) -> SlurmJob:
    """Return the job with the request of a size, without nodes.

    Args:
        job: As it waits or runs.
        gpus: The size.
        counts: The numbers of servers that it can use; None: it has none.
        count: The servers of the size.
    """
    nodes = gpus // per_node(job) if per_node(job) else 1
    return replace(_with_gpus(job, gpus, counts, count), min_nodes=nodes, shares=())


def resized(job: SlurmJob, nodes: NodeGpus, counts: ServerCounts | None = None, count: int = 0) -> SlurmJob:
    """Return the job with the request of the size that a start gives it.

    Args:
        job: As its owner requested it.
        nodes: Of the start, with their GPUs.
        counts: As in `request_of`.
        count: As in `request_of`.
    """
    return _with_gpus(job, sum(gpus for _, gpus in nodes), counts, count)


def _with_gpus(job: SlurmJob, gpus: int, counts: ServerCounts | None, count: int) -> SlurmJob:
    if counts is None:
        return replace(job, gpus=gpus, tasks=job.tasks * gpus // job.gpus, cpus=job.cpus * gpus // job.gpus)
    tasks = workers(job, gpus)
    each = counts.cpus_per_task(tasks, count)
    return replace(job, gpus=gpus, tasks=tasks, cpus=tasks * each, cpus_per_task=each if job.cpus_per_task else 0)
