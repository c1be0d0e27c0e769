"""How a job is pinned to nodes: which changes of its request do that, and whether they change anything else.

Slurm's own update changes more than it is asked to (slurmctld/job_mgr.c). A number of nodes sets the number of tasks of a job with
--ntasks-per-gpu or --ntasks-per-node anew; required nodes make a total of GPUs with --ntasks-per-node impossible (24.11, 26.05).
From 23.02 to 24.11 any update, a hold or a release too, sets the tasks of a job with --ntasks-per-gpu to those of one GPU on each
node, unless its least and most nodes differ. So there are three ways, and after each the job is read again before it is released:

    number    -N k-k and -w: exactly these nodes. Only for requests of which it changes nothing
    only      -x with all other nodes: as many of these as Slurm needs, all where the request's own least number says so
    tasks     as `only`, and the tasks and CPUs that an update has taken are given back
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tiresias.slurm_plugin.backends.protocol import RequestChange, SlurmJob
from tiresias.slurm_plugin.state.journal import Intent, JobRow

NUMBER, ONLY, TASKS = "number", "only", "tasks"
# Fields of SlurmJob that a pin must not change. Not the nodes, which it is there to change.
KEPT = (
    "tasks", "cpus", "gpus", "gpu_type", "gpus_per_node", "memory_per_node", "memory_per_cpu", "time_limit", "tasks_per_node",
    "tasks_per_socket", "tasks_per_gpu", "cpus_per_task", "partition", "features", "reservation",
)  # fmt: skip


def ways(job: SlurmJob, count: int) -> tuple[str, ...]:
    """Those to try for so many nodes, the first one first."""
    if job.tasks_per_gpu and job.tasks != _tasks(job):
        return (TASKS,)
    return (NUMBER, ONLY) if _is_plain(job, count) else (ONLY,)


def pin(job: SlurmJob, way: str, nodes: Sequence[str]) -> RequestChange:
    """`job`: as it was before any pin."""
    if way == NUMBER:
        return RequestChange(nodes=(len(nodes), len(nodes)), required=tuple(nodes))
    if way == ONLY:
        return RequestChange(only=tuple(nodes))
    tasks = _tasks(job)
    cpus = max(tasks * max(job.cpus_per_task, 1), job.cpus)
    return RequestChange(nodes=_unequal(job, len(nodes)), only=tuple(nodes), tasks=tasks, cpus=cpus)


def unpin(row: JobRow) -> RequestChange:
    """Back to the owner's request, by the way in which it was pinned."""
    own, required, excluded = (row.min_nodes, row.max_nodes), _names(row.required), _names(row.excluded)
    if row.pin == ONLY:
        return RequestChange(excluded=excluded)
    if row.pin == NUMBER:
        return RequestChange(nodes=own, required=required)
    if row.pin == TASKS:
        return RequestChange(nodes=own, excluded=excluded)
    return RequestChange(nodes=own, required=required, excluded=excluded)  # of a leader that could not write it down


def is_on(row: JobRow, job: SlurmJob, nodes: Sequence[str]) -> bool:
    """Whether the record shows the pin to these nodes by the row's way."""
    if row.pin in (ONLY, TASKS):
        others = set(job.excluded_nodes)
        return bool(others) and others != set(_names(row.excluded)) and others.isdisjoint(nodes)
    return bool(job.required_nodes) and set(job.required_nodes) == set(nodes)


def shows_any(row: JobRow, job: SlurmJob) -> bool:
    """Whether the record shows other nodes than its owner asked for."""
    if row.pin in (ONLY, TASKS):
        return set(job.excluded_nodes) != set(_names(row.excluded))
    return bool(row.required) or bool(job.required_nodes)


def note(job: SlurmJob, intent: Intent) -> str:
    """What a start of this job must keep: JobRow.asked."""
    return json.dumps({"start": intent.seq, **{name: getattr(job, name) for name in KEPT}})


def noted(row: JobRow, intent: Intent) -> dict[str, Any] | None:
    """As `note` wrote it for this very start: it is gone on with."""
    kept: dict[str, Any] = json.loads(row.asked) if row.asked else {}
    return kept if kept.pop("start", None) == intent.seq else None


def changes(kept: dict[str, Any], job: SlurmJob, way: str) -> str:
    """What a pin has changed, in words; "" for nothing."""
    expected = dict(kept)
    if way == TASKS:
        expected["tasks"] = _tasks(job)
        expected["cpus"] = max(expected["tasks"] * max(job.cpus_per_task, 1), kept["cpus"])
    found = {name: getattr(job, name) for name in KEPT}
    return ", ".join(
        f"{name.replace('_', ' ')} {expected[name]} to {value}"
        for name, value in found.items()
        if name in expected and expected[name] != value
    )


def _is_plain(job: SlurmJob, count: int) -> bool:
    """Whether a number of nodes changes neither tasks nor CPUs: slurmctld computes both anew from tasks on each node, socket or
    GPU, and raises them to one task and the CPUs of a node on each node."""
    stated = job.tasks_per_node or job.tasks_per_socket or job.tasks_per_gpu
    cpus = max(max(job.tasks, count) * max(job.cpus_per_task, 1), count * job.cpus_each_node)
    return not stated and count <= job.tasks and cpus <= job.cpus


def _tasks(job: SlurmJob) -> int:
    """Of a job with --ntasks-per-gpu."""
    return job.tasks_per_gpu * job.gpus


def _unequal(job: SlurmJob, count: int) -> tuple[int, int]:
    """Least and most nodes that differ, where the job is kept to `count` nodes by other means."""
    return job.min_nodes, max(job.max_nodes, count, job.min_nodes) + 1


def _names(nodes: str) -> tuple[str, ...]:
    return tuple(one for one in nodes.split(",") if one)
