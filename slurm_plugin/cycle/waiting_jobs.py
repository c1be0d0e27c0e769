"""The comments of the waiting and the running elastic jobs of one cycle, from the decisions of all pools and virtual clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiresias.scheduler.model import Plan
from tiresias.scheduler.pools import PoolDecision
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.comments.running_text import Ends, running_comments
from tiresias.slurm_plugin.comments.start_times import starts_of
from tiresias.slurm_plugin.comments.waiting_text import WaitingComment, waiting_comments
from tiresias.slurm_plugin.cycle.cycle_context import Decided
from tiresias.slurm_plugin.observation import unused_gpu_texts
from tiresias.slurm_plugin.observation.unused_gpus import GpuUse


def comments_of(
    slurm: SlurmSnapshot, decided: Decided, ends: Ends, unused: Mapping[str, GpuUse]
) -> Iterator[WaitingComment]:
    """Yield the comments of each part; a job of several parts has that of the first, of its virtual cluster.

    Args:
        slurm: The records.
        decided: The decisions on them.
        ends: The predicted ends of running jobs, of which the comments come last.
        unused: The running jobs that do not use their GPUs, whose comments state only that.
    """
    jobs = {job.id: job for job in decided.managed}
    for part in decided.parts:
        plan = _plan_of(decided, part)
        own = [job for name in part.snapshot.jobs.id if (job := jobs.pop(name, None)) is not None]
        starts = starts_of(slurm, part.snapshot, plan, part.pool.config)
        yield from waiting_comments(part.snapshot, plan, own, starts, _cluster_of(part))
    warned = list(unused_gpu_texts.comments(unused, decided.managed))
    yield from warned
    names = {one.name for one in warned}
    yield from (one for one in running_comments(decided.snapshot, decided.managed, ends) if one.name not in names)


def _plan_of(decided: Decided, part: PoolDecision) -> Plan:
    """Return what is decided on the jobs of a part by all parts together."""
    rows, whole = part.pool.jobs, decided.plan
    why = {at: whole.why[row] for at, row in enumerate(rows.tolist()) if row in whole.why}
    return replace(part.plan, effect=whole.effect[rows], reserved=whole.reserved, why=why)


def _cluster_of(part: PoolDecision) -> str:
    """Return the virtual cluster whose jobs a part decides on, in cells in place of nodes; "": it has nodes."""
    clusters = part.snapshot.jobs.virtual_cluster
    return clusters[0] if clusters and not len(part.pool.nodes) else ""
