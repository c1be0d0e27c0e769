"""The text of a waiting job's comment: its place, its reason and when it is estimated to start. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.admission import free_only, obstacle
from tiresias.scheduler.model import Action, Plan, Snapshot, State
from tiresias.scheduler.reasons import DRAINS, NEVER, NO_NODES
from tiresias.slurm_plugin.backends.protocol import SlurmJob
from tiresias.slurm_plugin.cluster.arrays import together
from tiresias.slurm_plugin.comments import rounding

PREFIX = "Tiresias: "  # a comment that begins with it is the controller's, any other is not
LONGEST = 120  # characters; Slurm itself has no limit
SPECIAL = {
    NEVER: "cannot run: no managed nodes fit the request",
    NO_NODES: "no nodes fit the request now",
    DRAINS: "GPUs are kept free for it",
}


class Wanted(NamedTuple):
    """What the comment of one record of Slurm's is to be. name: of the job, or of the array tasks that share the record."""

    name: str
    record: int
    text: str


def is_ours(comment: str) -> bool:
    return comment.startswith(PREFIX)


def wanted(snapshot: Snapshot, plan: Plan, records: Sequence[SlurmJob], starts: dict[str, float]) -> Iterator[Wanted]:
    """Of the waiting jobs that the controller holds, in rank order.

    Args:
        records: of Slurm's jobs.
        starts: seconds until each job is estimated to start, by job id.
    """
    rows = waiting_rows(snapshot, plan)
    place = {snapshot.jobs.id[row]: at for at, row in enumerate(rows, 1)}
    row_of = {snapshot.jobs.id[row]: row for row in rows}
    held = [job for job in records if job.id in place and job.held_by_admin and not job.completing]
    held.sort(key=lambda job: place[job.id])
    promised = {seat.job for seat in plan.reserved}
    for name, jobs in together(held).items():
        first = jobs[0]
        line = f"{rounding.ordinal(place[first.id])} of {rounding.count(len(rows))}"
        parts = _parts(snapshot, plan, row_of[first.id], line, first.id in promised, starts.get(first.id, np.inf))
        if len(jobs) > 1:
            parts.insert(1, f"first of {rounding.count(len(jobs))} tasks")
        yield Wanted(name, first.raw_id, _printable(PREFIX + "; ".join(parts)))


def waiting_rows(snapshot: Snapshot, plan: Plan) -> list[int]:
    """The rows of the jobs that wait for GPUs, in rank order."""
    waits = (snapshot.jobs.state == State.WAITING) & (plan.action == Action.WAIT)
    rows = np.flatnonzero(waits)
    found: list[int] = rows[np.argsort(plan.rank[rows], kind="stable")].tolist()
    return found


def unavailable(snapshot: Snapshot, row: int) -> list[str]:
    """The nodes that the job requests by name and that are down, drained or not managed."""
    usable = {name for name, is_usable in zip(snapshot.nodes.name, snapshot.nodes.usable, strict=True) if is_usable}
    return sorted(snapshot.jobs.request[row].nodes - usable) if snapshot.jobs.request[row].nodes else []


def _parts(snapshot: Snapshot, plan: Plan, row: int, line: str, is_promised: bool, start: float) -> list[str]:
    jobs, gpus = snapshot.jobs, int(snapshot.jobs.gpus[row])
    needs = f"needs {gpus} GPU{'s' if gpus > 1 else ''}"
    total, reason = int(snapshot.nodes.gpus.sum()), obstacle(jobs, row)
    if gpus > total:
        return [f"cannot run: requests {gpus} GPUs, the managed nodes have {total}"]
    if not jobs.eligible[row]:
        return [line, f"blocked by Slurm: {reason}" if reason else "the last start failed, it is retried soon", needs]
    if free_only(jobs)[row]:
        return [line, f"Slurm refused its start: {reason}; retried on free GPUs", needs]
    if missing := unavailable(snapshot, row):
        return [line, f"requested node{'s' if len(missing) > 1 else ''} {', '.join(missing)} not available", needs]
    if is_promised:
        return ["starts next", f"{needs}, preempted jobs release them"]
    about = rounding.estimate(start)
    special = SPECIAL.get(plan.why.get(row, ""), "")
    return [line, needs, *filter(None, [special, about and f"about {about} (estimate)"])]


def _printable(text: str) -> str:
    """One line of at most LONGEST characters."""
    clean = "".join(one if one.isascii() and one.isprintable() else "?" for one in text)
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 3] + "..."
