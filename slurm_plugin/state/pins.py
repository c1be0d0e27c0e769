"""How a job is pinned to nodes: which changes of its request do that, and whether they change anything else.

Slurm's own update changes more than it is asked to (slurmctld/job_mgr.c). A number of nodes sets the number of tasks of a job with
--ntasks-per-gpu or --ntasks-per-node anew; required nodes make a total of GPUs with --ntasks-per-node impossible (24.11, 26.05).
From 23.02 to 24.11 any update, a hold or a release too, sets the tasks of such a job to those of its least number of nodes, unless
its least and most nodes differ (own_tasks.py). So there are these ways, and after each the job is read again before it is released:

    number    -N k-k and -w: exactly these nodes. Only for requests of which it changes nothing
    only      -x with all other nodes: as many of these as Slurm needs, all where the request's minimum is that number
    tasks     as `only`, with the tasks and CPUs of the request, and least and most nodes that differ
    size      as `number`, with the tasks and CPUs of another size than the owner's (own_size.py)

Each of them may select parts of the nodes, by the types of the GPUs (part_pins.py): then its name ends with TYPED.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tiresias.slurm_plugin.backends.interface import RequestChange, SlurmJob, StatedGpus
from tiresias.slurm_plugin.state import own_size, own_tasks
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.own_tasks import KEPT

NUMBER, ONLY, TASKS, SIZE = "number", "only", "tasks", "size"
TYPED = " typed"


def ways(job: SlurmJob, count: int, tasks: int, is_limit_hidden: bool = False) -> tuple[str, ...]:
    """Return the ways to try for so many nodes, in order.

    `job`: as it was before any pin; tasks: that its record shows now; is_limit_hidden: its record may lack the limit of its nodes.
    """
    if own_tasks.is_at_risk(job):
        return (ONLY, TASKS) if tasks == job.tasks else (TASKS,)
    return (NUMBER, ONLY) if _is_plain(job, count) and not is_limit_hidden else (ONLY,)


def pin(
    job: SlurmJob, way: str, nodes: Sequence[str], typed: Sequence[StatedGpus] = (), has_servers: bool = False
) -> RequestChange:
    """`job`: as it was before any pin; `typed`: its GPUs with the types of the selected parts, () for any parts; `has_servers`: of
    an elastic job with parameter servers."""
    gpus = tuple(typed) or None
    if way == SIZE:
        return _sized((len(nodes), len(nodes)), nodes, {name: getattr(job, name) for name in KEPT}, gpus, has_servers)
    if way == NUMBER:
        return RequestChange(nodes=(len(nodes), len(nodes)), required=tuple(nodes), gpus=gpus)
    if way == ONLY:
        return RequestChange(only=tuple(nodes), gpus=gpus)
    unequal = _unequal(job, len(nodes))
    return RequestChange(nodes=unequal, only=tuple(nodes), tasks=job.tasks, cpus=job.cpus, gpus=gpus)


def unpin(row: JobRow) -> RequestChange:
    """Back to the owner's request, by the way in which it was pinned."""
    own, required, excluded = (row.min_nodes, row.max_nodes), _names(row.required), _names(row.excluded)
    gpus = own_tasks.stated_gpus(row) if is_typed(row) else None
    if way(row) == SIZE:
        return _sized(own, required, own_tasks.read(row), gpus, own_size.server_counts(row) is not None)
    if way(row) == ONLY:
        return RequestChange(excluded=excluded, gpus=gpus)
    if way(row) == NUMBER:
        return RequestChange(nodes=own, required=required, gpus=gpus)
    if way(row) == TASKS:
        return RequestChange(nodes=own, excluded=excluded, gpus=gpus)
    # of a leader that could not write it down
    return RequestChange(nodes=own, required=required, excluded=excluded, gpus=gpus)


def _sized(
    nodes: tuple[int, int],
    required: Sequence[str],
    size: Mapping[str, Any],
    gpus: tuple[StatedGpus, ...] | None,
    has_servers: bool,
) -> RequestChange:
    """Return the change to a size.

    Args:
        nodes: Least and most nodes.
        required: The nodes that it requires.
        size: The fields KEPT of a job of that size.
        gpus: Its GPUs by option, where their types change, too.
        has_servers: Whether the CPUs of a task change.
    """
    total = own_size.total_gpus(size["gpus"], size["gpu_type"], bool(size["gpus_per_node"] or size["tasks_per_node"]))
    return RequestChange(
        nodes,
        tuple(required),
        tasks=size["tasks"],
        cpus=size["cpus"],
        cpus_per_task=size["cpus"] // max(size["tasks"], 1) if has_servers else None,
        gpus=gpus,
        total_gpus=total,
    )


def way(row: JobRow) -> str:
    """Return the way of the newest pin to nodes."""
    return row.pin.removesuffix(TYPED)


def is_typed(row: JobRow) -> bool:
    """Return whether the newest pin selects parts of the nodes."""
    return row.pin.endswith(TYPED)


def is_of_pending_job(row: JobRow) -> bool:
    """Return whether the newest pin is changed without a hold: Slurm refuses to change the excluded nodes of a running job."""
    return row.pin == ONLY


def own_gpu_type(row: JobRow, job: SlurmJob) -> str:
    """Return the GPU type that the owner requests: the record shows that of a pin that is not removed yet."""
    return str(own_tasks.read(row).get("gpu_type", "")) if row.pinned and is_typed(row) else job.gpu_type


def is_on(row: JobRow, job: SlurmJob, nodes: Sequence[str]) -> bool:
    """Whether the record shows the pin to these nodes by the row's way."""
    if way(row) in (ONLY, TASKS):
        others = set(job.excluded_nodes)
        return bool(others) and others != set(_names(row.excluded)) and others.isdisjoint(nodes)
    return bool(job.required_nodes) and set(job.required_nodes) == set(nodes)


def shown(row: JobRow, job: SlurmJob, nodes: Sequence[str], cluster: Collection[str]) -> str | None:
    """Return which pin to these nodes the record shows, as in JobRow.pin; None: none.

    An earlier start may have pinned in another way than the newest one. Its pin is found where it is a whole one: it excludes all
    other nodes of the cluster, or requires these nodes and their number. It may have selected parts where the newest one has not.
    """
    found = _shown_way(row, job, nodes, cluster)
    return found if found is None else found + (TYPED if _shows_types(row, job) else "")


def _shown_way(row: JobRow, job: SlurmJob, nodes: Sequence[str], cluster: Collection[str]) -> str | None:
    if is_on(row, job, nodes):
        return way(row)
    here, required, excluded = set(nodes), set(job.required_nodes), set(job.excluded_nodes)
    if way(row) in (ONLY, TASKS):
        is_number = required == here and job.min_nodes == job.max_nodes == len(here)
        return NUMBER if is_number and required != set(_names(row.required)) else None
    is_only = bool(excluded) and excluded == set(cluster) - here
    return ONLY if is_only and excluded != set(_names(row.excluded)) else None


def _shows_types(row: JobRow, job: SlurmJob) -> bool:
    """Return whether the record states GPU types that its owner's request lacks."""
    return bool(row.asked and job.gpu_type) and job.gpu_type != own_tasks.read(row).get("gpu_type", "")


def shows_any(row: JobRow, job: SlurmJob) -> bool:
    """Whether the record shows other nodes than its owner asked for."""
    if way(row) in (ONLY, TASKS):
        return set(job.excluded_nodes) != set(_names(row.excluded))
    return bool(row.required) or bool(job.required_nodes)


def note(job: SlurmJob, intent: Intent) -> str:
    """What a start of this job must keep: JobRow.asked. `job`: with its `stated_gpus`, where the start selects parts."""
    return own_tasks.write(job, intent.seq)


def noted(row: JobRow, intent: Intent) -> dict[str, Any] | None:
    """As `note` wrote it for this very start: it is gone on with."""
    kept = own_tasks.read(row)
    return kept if kept.pop("start", None) == intent.seq else None


def changes(kept: dict[str, Any], job: SlurmJob, typed: bool = False) -> str:
    """What a pin has changed, in words; "" for nothing. A `typed` pin changes the type of the GPUs."""
    left_out = {"gpu_type"} if typed else set[str]()
    if _shows_nodes_of_last_run(kept, job):
        left_out.add("gpus")
    found = {name: getattr(job, name) for name in KEPT if name in kept and name not in left_out}
    return ", ".join(
        f"{name.replace('_', ' ')} {kept[name]} to {value}" for name, value in found.items() if kept[name] != value
    )


def _shows_nodes_of_last_run(kept: dict[str, Any], job: SlurmJob) -> bool:
    """Return whether the record of a requeued job counts GPUs on the nodes of its last run, which were more.

    22.05.8 does (measured), whatever its number of nodes is set to. The tasks of the record are those of the nodes that it gets.
    """
    each = kept.get("gpus_per_node") and kept.get("tasks_per_node")
    is_same = all(kept.get(name) == getattr(job, name) for name in ("gpus_per_node", "tasks_per_node", "tasks"))
    return bool(each and is_same and job.restarts and job.gpus > kept.get("gpus", job.gpus))


def _is_plain(job: SlurmJob, count: int) -> bool:
    """Whether a number of nodes changes neither tasks nor CPUs: slurmctld computes both anew from tasks on each node, socket or
    GPU, and raises them to one task and the CPUs of a node on each node. With --gpus-per-socket it also selects other sockets, and
    required nodes get other CPUs with --cpus-per-gpu."""
    stated = job.tasks_per_node or job.tasks_per_socket or job.tasks_per_gpu or job.gpus_per_socket
    stated = stated or (job.has_cpus_per_gpu and count > 1)
    each = job.cpus_per_task or job.cpus_each_node or 1  # 22.05 shows the latter only, which is no less
    cpus = max(max(job.tasks, count) * each, count * job.cpus_each_node)
    return not stated and count <= job.tasks and cpus <= job.cpus


def _unequal(job: SlurmJob, count: int) -> tuple[int, int]:
    """Least and most nodes that differ, where the job is kept to `count` nodes by other means."""
    return job.min_nodes, max(job.max_nodes, count, job.min_nodes) + 1


def _names(nodes: str) -> tuple[str, ...]:
    return tuple(one for one in nodes.split(",") if one)
