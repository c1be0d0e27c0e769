"""The jobs as the control socket publishes them: those that compete in their order, then those that do not compete."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

import numpy as np

from tiresias.protocol import elastic_sizes
from tiresias.protocol.control import JobReport
from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.estimates.predicted_end import NO_END
from tiresias.scheduler.evict.protection import remaining
from tiresias.scheduler.model import Ints, JobState
from tiresias.scheduler.place.placements import style_name
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import id_of
from tiresias.slurm_plugin.sockets import shown_remote_memory
from tiresias.slurm_plugin.sockets.explain_requests import not_competing
from tiresias.slurm_plugin.sockets.shown_gpu_use import shown_gpu_use, unused_words
from tiresias.slurm_plugin.sockets.shown_reasons import ShownReasons
from tiresias.slurm_plugin.state import job_reasons, own_size
from tiresias.slurm_plugin.state.journal_rows import JobRow

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication

STATES = {int(state): state.name for state in JobState} | {int(JobState.RELEASING): "LEAVING"}  # the published name
SILENT = JobReport()


def walk(newest: Publication) -> Ints:
    """Return the rows of the jobs: holders of GPUs first, then those who wait, each in the order of the plan."""
    order: Ints = np.lexsort((newest.plan.rank, newest.snapshot.jobs.state == JobState.WAITING))
    return order


def published_jobs(newest: Publication, order: Ints, record_of: Mapping[str, SlurmJob]) -> list[dict[str, Any]]:
    """Return the jobs of these rows. O(jobs) array operations, and for each of the rows about 30 us.

    Args:
        newest: the publication
        order: rows, in the order of the answer
        record_of: Slurm's records by job id
    """
    jobs, plan = newest.snapshot.jobs, newest.plan
    queue, protected = plan.queue.copy(), np.zeros(len(jobs))
    for rows, config, before in newest.pools():
        queue[rows] += before
        protected[rows] = remaining(newest.snapshot, config)[rows]
    columns = (
        order, jobs.state[order], queue[order], plan.rank[order], jobs.attained[order].round(3),
        jobs.ran[order].round(3), jobs.waited[order].round(3), jobs.submit[order], jobs.movable[order],
        np.full(len(order), np.nan) if jobs.preemption_cost is None else jobs.preemption_cost[order],
        np.zeros(len(order), np.int64) if jobs.style is None else jobs.style[order],
        protected[order],
        np.full(len(order), np.nan) if jobs.claimed_remaining is None else jobs.claimed_remaining[order],
    )  # fmt: skip
    reasons = ShownReasons(newest)
    return [
        _job(newest, reasons, record_of[jobs.id[row[0]]], *row)
        for row in zip(*(one.tolist() for one in columns), strict=True)
    ]


def not_shown(newest: Publication) -> list[SlurmJob]:
    """Return the records of Slurm's jobs that are not among those of the snapshot."""
    jobs, shown = newest.slurm.jobs, set(newest.snapshot.jobs.id)
    return list(compress(jobs, map(not_, map(shown.__contains__, map(id_of, jobs)))))


def blocked_records(newest: Publication, others: Iterable[SlurmJob]) -> list[SlurmJob]:
    """Return the managed jobs that wait and do not compete, by submit time. others: as `not_shown` returns them."""
    waiting = (job for job in others if job.state == "PENDING" and not job.completing)
    return sorted((job for job in waiting if job.id in newest.rows), key=lambda job: newest.rows[job.id].submit)


def published_blocked(newest: Publication, records: list[SlurmJob]) -> Iterator[dict[str, Any]]:
    """Yield jobs that do not compete."""
    for job in records:
        yield not_competing(newest.rows[job.id], job, newest.slurm.time) | {"state": "BLOCKED"}


def _job(
    newest: Publication, reasons: ShownReasons, job: SlurmJob, row: int, state: int, queue: int, rank: int,
    attained: float, ran: float, waited: float, submit: float, movable: bool, cost: float, style: int, protected: float,
    left: float,
) -> dict[str, Any]:  # fmt: skip
    """protected: seconds until its minimum run time is reached. left: claimed seconds of work."""
    known, unmovable = newest.rows.get(job.id), newest.unmovable.get(job.id, "")
    unmovable = unmovable or _protected(newest.slurm.time + protected if protected else 0.0)
    why, report, use = reasons.why(row), newest.reports.get(job.id, SILENT), newest.gpu_use.get(job.id)
    return {
        "id": job.id, "name": job.name, "user": job.user, "partition": job.partition, "gpus": job.gpus,
        "state": STATES[state], "queue": queue, "rank": rank, "attained": attained, "ran": ran, "waited": waited,
        "submit_time": submit, "start_time": job.start_time if job.shares else 0,
        "nodes": [[share.node, share.gpus] for share in job.shares], "restarts": job.restarts,
        **_stated_sizes(known, job), **_sizes(newest, row), **_end(newest, job.id), **owner_of(newest, job.id),
        "slow_nodes": [[node, round(one.ratio, 2)] for node, one in sorted(newest.slow_nodes.get(job.id, {}).items())],
        **shown_gpu_use(use), **shown_remote_memory.of_job(newest, job),
        "rigid": job_reasons.text(known.rigid) if known else "",
        "preemptions": known.preemptions if known else 0, "preemptable": movable, "step": report.step,
        "checkpoint_time": report.saved_at, "placement": style_name(style),
        "phase": newest.phases.get(job.id, ""), "preemption_cost": None if cost != cost else round(cost, 3),
        "progress": known.progress if known else None, "total_steps": known.total_steps if known else None,
        "remaining": None if left != left else round(left, 3), **_cells(newest, row),
        "why": "; ".join(filter(None, [why, unmovable, _confined(newest, job), unused_words(use)])),
        "profile": _profile(newest.profiles.get(job.id)),
    }  # fmt: skip


def owner_of(newest: Publication, job: str) -> dict[str, Any]:
    """What the owner of a job used of its share, where owners share GPUs."""
    owner = newest.owners.get(job)
    if owner is None:
        return {}
    use = round(owner.use, 3) if math.isfinite(owner.use) else None
    share = None if owner.share is None else round(owner.share, 4)
    return {"owner": f"{owner.kind} {owner.name}", "owner_use": use, "owner_share": share}


def _stated_sizes(known: JobRow | None, job: SlurmJob) -> dict[str, Any]:
    """The sizes that the owner of an elastic job states, and its parameter servers."""
    sizes = own_size.sizes(known) if known else None
    if known is None or sizes is None:
        return {"elastic": "", "servers": None, "server_counts": ""}
    counts = sizes.servers
    return {
        "elastic": elastic_sizes.without_servers(known.elastic),
        "servers": own_size.servers(known, job) if counts else None,
        "server_counts": f"{counts.least}-{counts.most}" if counts else "",
    }


def _sizes(newest: Publication, row: int) -> dict[str, Any]:
    """The sizes of an elastic job."""
    jobs = newest.snapshot.jobs
    if jobs.gpu_step is None or jobs.min_gpus is None or jobs.max_gpus is None or not jobs.gpu_step[row]:
        return {"min_gpus": None, "max_gpus": None}
    return {"min_gpus": int(jobs.min_gpus[row]), "max_gpus": int(jobs.max_gpus[row])}


def _end(newest: Publication, job_id: str) -> dict[str, Any]:
    """When a job is expected to end."""
    found = newest.ends.get(job_id, NO_END)
    names = ("end", "end_low", "end_high")
    return {
        name: round(moment, 3) if math.isfinite(moment) else None for name, moment in zip(names, found, strict=True)
    }


def _cells(newest: Publication, row: int) -> dict[str, Any]:
    """The virtual cluster of a job, and whether it holds cells there."""
    clusters, held = newest.snapshot.jobs.virtual_cluster, newest.snapshot.allocations
    if not newest.tenants or clusters is None or held.owned_cell is None:
        return {"virtual_cluster": "", "guaranteed": None}
    owned = [held.owned_cell[place] for place in np.flatnonzero(held.job == row).tolist()]
    return {"virtual_cluster": clusters[row], "guaranteed": bool(owned) and all(owned)}


def _confined(newest: Publication, job: SlurmJob) -> str:
    """Why a waiting job may not run beyond the cells of virtual clusters; "" where it may, or where there are none."""
    reason = newest.confined.get(job.id, "")
    return f"not opportunistically: {reason}" if reason else ""


def _protected(until: float) -> str:
    if not until:
        return ""
    return f"not preempted before {time.strftime('%H:%M:%S', time.localtime(until))}: minimum run time not reached"


def _profile(summary: Summary | None) -> dict[str, Any] | None:
    return summary and {
        "decision": summary.decision, "reasons": list(summary.reasons), "architecture": summary.architecture,
        "skew": summary.skew, "intensity": summary.intensity, "model_bytes": summary.model,
        "largest_bytes": summary.largest, "iteration": summary.iteration, "job": summary.job, "made": summary.made,
    }  # fmt: skip
