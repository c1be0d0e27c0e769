"""The size of a waiting job as its owner requested it, where the record shows another one.

Slurm 23.02 to 24.11 set the tasks of a job with --ntasks-per-node or --ntasks-per-gpu anew in every update, a hold too, to those of
its least number of nodes (slurmctld/job_mgr.c). So the request is stored in JobRow.asked as long as the controller has not held the
job, and read from there while the record shows fewer tasks. The request of an elastic job is stored once: the record of a requeued
job may show the nodes of its last run (22.05).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tiresias.slurm_plugin.backends.interface import SlurmJob, StatedGpus
from tiresias.slurm_plugin.state import own_size
from tiresias.slurm_plugin.state.journal_rows import JobRow

# Fields of SlurmJob that a pin must not change. Not the nodes, which it is there to change.
KEPT = (
    "tasks", "cpus", "gpus", "gpu_type", "gpus_per_node", "memory_per_node", "memory_per_cpu", "time_limit", "tasks_per_node",
    "tasks_per_socket", "tasks_per_gpu", "cpus_per_task", "partition", "features", "reservation",
)  # fmt: skip


_STATED = "stated_gpus"


def write(job: SlurmJob, start: int = 0) -> str:
    """JobRow.asked. start: number of the start (Intent.seq) that must keep it, 0 for none."""
    return json.dumps({"start": start, _STATED: job.stated_gpus, **{name: getattr(job, name) for name in KEPT}})


def read(row: JobRow) -> dict[str, Any]:
    """As `write` stored it, without the options of the GPUs; {} for a row of an earlier release."""
    found: dict[str, Any] = json.loads(row.asked) if row.asked else {}
    found.pop(_STATED, None)
    return found


def stated_gpus(row: JobRow) -> tuple[StatedGpus, ...]:
    """Return the GPUs of the owner's request, option by option; () where they were not stored."""
    return tuple(StatedGpus(*one) for one in (json.loads(row.asked) if row.asked else {}).get(_STATED, ()))


def is_at_risk(job: SlurmJob) -> bool:
    """Whether an update may take tasks of this request."""
    return bool(job.tasks_per_node or job.tasks_per_gpu)


def restored(row: JobRow, job: SlurmJob) -> SlurmJob:
    """The job with the tasks, CPUs, GPUs and nodes that it was submitted with, where a hold has taken tasks or its size changed."""
    if is_elastic(row) and job.state == "PENDING" and not row.pinned:
        found = read(row)
        changed = (*own_size.CHANGED, "cpus_per_task") if own_size.server_counts(row) else own_size.CHANGED
        return replace(job, min_nodes=row.min_nodes, **{name: found[name] for name in changed})
    if not (row.held and job.state == "PENDING" and is_at_risk(job)):
        return job
    kept, per_node = read(row), job.tasks_per_node or job.tasks_per_gpu
    is_taken = job.tasks == job.min_nodes * per_node < kept.get("tasks", 0)
    if not is_taken or any(kept[name] != getattr(job, name) for name in ("tasks_per_node", "tasks_per_gpu")):
        return job
    return replace(job, tasks=kept["tasks"], cpus=kept["cpus"], gpus=kept["gpus"], min_nodes=row.min_nodes)


def changed_size(row: JobRow, job: SlurmJob) -> SlurmJob | None:
    """Return a waiting elastic job with the size that its owner gives it now; None where that is the stored one.

    job: as the record shows it, in its own size. The tasks count where they change with the size. Nodes count until the first run:
    22.05 then shows those of the last one.
    """
    kept = read(row)
    if not own_size.per_node(job):
        new, old = job.tasks, kept["tasks"]
    elif job.restarts or not row.min_nodes:
        return None
    else:
        new, old = job.min_nodes, row.min_nodes
    if new == old or kept["gpus"] * new % old:
        return None
    if own_size.server_counts(row):  # the CPUs of a task are the owner's, too
        return replace(job, gpus=kept["gpus"] * new // old, cpus=new * own_size.cpus_of_a_task(job))
    scaled = {name: kept[name] * new // old for name in own_size.CHANGED}
    return replace(job, **scaled)


def is_elastic(row: JobRow) -> bool:
    """Whether the stored request is that of an elastic job, which holds whatever the record shows, also once its size is fixed."""
    return bool(row.asked) and own_size.stated(row) is not None


def is_noted(row: JobRow, job: SlurmJob) -> bool:
    """Whether the stored request is the one that the record shows."""
    kept = read(row)
    return all(kept.get(name) == getattr(job, name) for name in KEPT)
