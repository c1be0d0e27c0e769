"""The text of a waiting job's comment: its rank, its reason and its estimated start. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.admit.quotas import free_only, obstacle
from tiresias.scheduler.model import Effect, JobState, Plan, Snapshot
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.reasons import CONFINED, DRAINS, NEVER, NO_NODES, unavailable
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.arrays import together
from tiresias.slurm_plugin.comments import rounding

PREFIX = "Tiresias: "  # only comments of the controller begin with it
LONGEST = 120  # characters; Slurm itself has no limit
SPECIAL = {
    NEVER: "cannot run: no managed nodes fit the request",
    NO_NODES: "no nodes fit the request now",
    DRAINS: "GPUs are kept free for it",
    CONFINED: "may not use the GPUs of virtual clusters",
}


class WaitingComment(NamedTuple):
    """The requested comment of one of Slurm's records.

    Attributes:
        name: of the job, or of the array tasks that share the record
        record: its number
        text: the comment
    """

    name: str
    record: int
    text: str


def is_own_comment(comment: str) -> bool:
    """Return whether the controller wrote the comment."""
    return comment.startswith(PREFIX)


def waiting_comments(
    snapshot: Snapshot, plan: Plan, records: Sequence[SlurmJob], starts: dict[str, float], cluster: str = ""
) -> Iterator[WaitingComment]:
    """Yield the comments of the waiting jobs that the controller holds, in rank order. O(jobs + nodes).

    Args:
        snapshot: the jobs and nodes
        plan: the decisions on them
        records: of Slurm's jobs
        starts: seconds until each job is estimated to start, by job id
        cluster: the virtual cluster to which these jobs and nodes belong; "": none
    """
    queue = _Queue(snapshot, plan, cluster)
    held = [job for job in records if job.id in queue.place and job.held_by_admin and not job.completing]
    held.sort(key=lambda job: queue.place[job.id])
    for name, jobs in together(held).items():
        first = jobs[0]
        parts = queue.parts(first.id, starts.get(first.id, math.inf))
        if len(jobs) > 1:
            parts.insert(1, f"first of {rounding.count(len(jobs))} tasks")
        yield WaitingComment(name, first.raw_id, _printable(PREFIX + "; ".join(parts)))


def waiting_rows(snapshot: Snapshot, plan: Plan) -> list[int]:
    """Return the rows of the jobs that wait for GPUs, in rank order."""
    waits = (snapshot.jobs.state == JobState.WAITING) & (plan.effect == Effect.WAIT)
    rows = np.flatnonzero(waits)
    found: list[int] = rows[np.argsort(plan.rank[rows], kind="stable")].tolist()
    return found


class _Queue:
    """The waiting jobs; place: of each job, from 1."""

    def __init__(self, snapshot: Snapshot, plan: Plan, cluster: str) -> None:
        self._snapshot, self._plan, self._cluster = snapshot, plan, cluster
        jobs, rows = snapshot.jobs, waiting_rows(snapshot, plan)
        self.place = {jobs.id[row]: at for at, row in enumerate(rows, 1)}
        self._row = {jobs.id[row]: row for row in rows}
        self._gpus, self._eligible, self._refused = jobs.gpus.tolist(), jobs.eligible.tolist(), free_only(jobs).tolist()
        self._total = int(snapshot.nodes.gpus.sum())
        self._promised = {start.job for start in plan.reserved}

    def parts(self, job_id: str, start: float) -> list[str]:
        row, gpus = self._row[job_id], self._gpus[self._row[job_id]]
        line = f"{rounding.ordinal(self.place[job_id])} of {rounding.count(len(self.place))}"
        line += f" in virtual cluster {self._cluster}" if self._cluster else ""
        needs = self._needs(row)
        reason = obstacle(self._snapshot.jobs, row)
        if gpus > self._total and self._cluster:
            return [line, f"{needs}, its virtual cluster owns {self._total}: only opportunistically"]
        if gpus > self._total:
            return [f"cannot run: requests {gpus} GPUs, the managed nodes have {self._total}"]
        special = _special(self._plan.why[row]) if row in self._plan.why else ""
        if not self._eligible[row]:
            own = special or "the last start failed, it is retried soon"
            return [line, f"blocked by Slurm: {reason}" if reason else own, needs]
        if self._refused[row]:
            return [line, f"Slurm refused its start: {reason}; retried on free GPUs", needs]
        if missing := unavailable(self._snapshot, row):
            return [line, f"requested node{'s' if len(missing) > 1 else ''} {', '.join(missing)} not available", needs]
        if job_id in self._promised:
            return ["starts next", f"{needs}, preempted jobs release them"]
        about = rounding.estimate(start)
        return [line, needs, *filter(None, [special, about and f"about {about} (estimate)"])]

    def _needs(self, row: int) -> str:
        jobs, gpus = self._snapshot.jobs, self._gpus[row]
        if jobs.gpu_step is not None and jobs.min_gpus is not None and jobs.max_gpus is not None and jobs.gpu_step[row]:
            return f"needs {jobs.min_gpus[row]} to {jobs.max_gpus[row]} GPUs"
        return f"needs {gpus} GPU{'s' if gpus > 1 else ''}"


def _special(reason: Reason) -> str:
    """Return the reason of a waiting job in a few words; "": its place is the reason."""
    if reason.code == ReasonCode.UNBOUND:
        return "the free GPUs there are on no nodes that fit"
    return SPECIAL.get(reason, "")


def _printable(text: str) -> str:
    """Return one line of at most LONGEST ASCII characters."""
    clean = "".join(one if one.isascii() and one.isprintable() else "?" for one in text)
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 3] + "..."
