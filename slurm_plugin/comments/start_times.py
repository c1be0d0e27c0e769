"""Estimated starts from Slurm's records: time limits and run times of the jobs that hold GPUs of the managed nodes."""

from __future__ import annotations

import math

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.protection import remaining
from tiresias.scheduler.forecast.start_estimate import Holder, Waiter, estimated_starts
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.reasons import unavailable, usable_nodes
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.comments.waiting_text import waiting_rows


def starts_of(slurm: SlurmSnapshot, snapshot: Snapshot, plan: Plan, config: PolicyConfig) -> dict[str, float]:
    """Return the seconds until each waiting job is estimated to start, by job id; inf where nothing is known.

    Jobs that Slurm excludes, or that request more GPUs than exist, have no estimate.
    """
    jobs, total = snapshot.jobs, int(snapshot.nodes.gpus.sum())
    gpus, rank, eligible = jobs.gpus.tolist(), plan.rank.tolist(), jobs.eligible.tolist()
    rows = [
        row
        for row in waiting_rows(snapshot, plan)
        if eligible[row] and gpus[row] <= total and not unavailable(snapshot, row)
    ]
    limits = {job.id: job.time_limit for job in slurm.jobs}
    queue = [Waiter(gpus[row], rank[row], limits.get(jobs.id[row], 0) or math.inf) for row in rows]
    free = max(int(snapshot.nodes.free["gpus"][snapshot.nodes.usable].sum()), 0)
    starts = estimated_starts(free, _holders(slurm, snapshot, plan, config), queue)
    return {jobs.id[row]: start for row, start in zip(rows, starts, strict=True)}


def _holders(slurm: SlurmSnapshot, snapshot: Snapshot, plan: Plan, config: PolicyConfig) -> list[Holder]:
    jobs, protected, usable = snapshot.jobs, remaining(snapshot, config), usable_nodes(snapshot)
    row_of = {job_id: row for row, job_id in enumerate(jobs.id)}
    found = []
    for job in slurm.jobs:
        if not job.shares:
            continue
        gpus = sum(share.gpus for share in job.shares if share.node in usable)
        row = row_of.get(job.id)
        if gpus and row is None:
            found.append(Holder(gpus, _ends(job, slurm.time)))
        elif gpus and jobs.state[row] == JobState.RELEASING:
            found.append(Holder(gpus, 0.0))
        elif gpus:
            preemptable = float(protected[row]) if jobs.movable[row] else math.inf
            found.append(Holder(gpus, _ends(job, slurm.time), int(plan.rank[row]), preemptable))
    return found


def _ends(job: SlurmJob, now: float) -> float:
    """Return the seconds until the time limit; a run beyond it is about to end."""
    return max(job.start_time + job.time_limit - now, 0.0) if job.time_limit and job.start_time else math.inf


def notes(job: SlurmJob) -> list[str]:
    """Return the options of the job's owner that have no effect, as text."""
    return [f"--nice={job.nice} has no effect on the order of jobs that Tiresias schedules"] if job.nice else []
