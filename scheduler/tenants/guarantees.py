"""Measures the guarantee of virtual clusters (VCs): a job that fits into free cells of its VC starts within a limit.

The time counts from the first decision that gives the job cells, or that finds enough free GPUs in its VC and no hardware for it,
until the job runs; a start that Slurm does not carry out and that is tried again does not end it. It ends without a result where a
later decision gives the cells to another job of the VC, or where the job ends. Jobs that name or exclude nodes, or that request
features or the type of the GPUs of a part of a node, are promised no start: hardware of this kind may be in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field, replace

import numpy as np

from tiresias.scheduler.admit.quotas import obstacle
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.reason_codes import ReasonCode
from tiresias.scheduler.tenants.virtual_nodes import part_types

MAX_NAMED = 3  # late jobs that are named


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of one VC.

    Attributes:
        waiting: Jobs that fit into its free cells and do not run yet.
        longest_s: The longest time since one of them fitted; 0: none waits.
        late: Of these jobs, those beyond the limit, by name.
        kept, broken: Jobs that ran within the limit, and jobs that did not, since the beginning.
    """

    waiting: int = 0
    longest_s: float = 0.0
    late: tuple[str, ...] = ()
    kept: int = 0
    broken: int = 0


@dataclass
class GuaranteeTracker:
    """Follows the decisions of one controller.

    Attributes:
        by_cluster: The guarantee of each VC that has had such a job.
    """

    by_cluster: dict[str, Guarantee] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)  # epoch second at which a job first fitted, by id
    _late: set[str] = field(default_factory=set)

    def follow(self, snapshot: Snapshot, plan: Plan, limit_s: float) -> None:
        """Count the jobs of a decision. O(jobs that start or wait in cells)."""
        for row in _rows(snapshot, self._since, JobState.RUNNING):
            self._ran(snapshot, row, limit_s)
        rows = [*_fitting(snapshot, plan), *_rows(snapshot, self._since, JobState.STARTING)]
        begun = {start.job for start in plan.starts}  # also on GPUs beyond the cells
        waits = _rows(snapshot, self._since, JobState.WAITING)
        rows += [row for row in waits if _is_retried(snapshot, row) or snapshot.jobs.id[row] in begun]
        row_of = {snapshot.jobs.id[row]: row for row in rows}
        self._since = {job: self._since.get(job, snapshot.time) for job in row_of}
        for job, since in self._since.items():
            if snapshot.time - since > limit_s and job not in self._late:
                self._late.add(job)
                self._count(_cluster(snapshot, row_of[job]), broken=1)
        self._late &= self._since.keys()
        self._show_waiting({job: _cluster(snapshot, row) for job, row in row_of.items()}, snapshot.time)

    def _ran(self, snapshot: Snapshot, row: int, limit_s: float) -> None:
        """Count a job that runs; a late one has been counted already."""
        job, began = snapshot.jobs.id[row], float(snapshot.jobs.last_start[row])
        since = self._since.pop(job)
        wait = (began if began >= since else snapshot.time) - since
        if job not in self._late:
            self._count(_cluster(snapshot, row), kept=int(wait <= limit_s), broken=int(wait > limit_s))

    def _count(self, cluster: str, kept: int = 0, broken: int = 0) -> None:
        before = self.by_cluster.get(cluster, Guarantee())
        self.by_cluster[cluster] = replace(before, kept=before.kept + kept, broken=before.broken + broken)

    def _show_waiting(self, cluster_of: Mapping[str, str], now: float) -> None:
        jobs: defaultdict[str, list[str]] = defaultdict(list)
        for job, cluster in cluster_of.items():
            jobs[cluster].append(job)
        for cluster in {*self.by_cluster, *jobs}:
            since = [self._since[job] for job in jobs[cluster]]
            self.by_cluster[cluster] = replace(
                self.by_cluster.get(cluster, Guarantee()),
                waiting=len(since),
                longest_s=now - min(since) if since else 0.0,
                late=tuple(job for job in jobs[cluster] if job in self._late),
            )

    def alarms(self, limit_s: float) -> list[str]:
        """Return a line for each VC of which jobs are late now."""
        return [
            f"virtual cluster {name}: {_named(each.late)} {'has' if len(each.late) == 1 else 'have'} not started within "
            f"{limit_s:.0f} s in free cells; tiresias explain {each.late[0]} prints the reason"
            for name, each in self.by_cluster.items()
            if each.late
        ]


def _named(jobs: tuple[str, ...]) -> str:
    more = f" and {len(jobs) - MAX_NAMED} more" if len(jobs) > MAX_NAMED else ""
    return f"job{'' if len(jobs) == 1 else 's'} {', '.join(jobs[:MAX_NAMED])}{more}"


def _fitting(snapshot: Snapshot, plan: Plan) -> list[int]:
    """Return the rows of the waiting jobs that fit into free cells of their VC."""
    given = {start.job for start in (*plan.starts, *plan.reserved) if start.owned_cells}
    unbound = {row for row, reason in plan.why.items() if reason.code == ReasonCode.UNBOUND}
    jobs = snapshot.jobs
    fit = _rows(snapshot, given, JobState.WAITING)
    fit += [row for row in sorted(unbound) if jobs.id[row] not in given and jobs.state[row] == JobState.WAITING]
    types = part_types(snapshot.nodes) if fit else frozenset[str]()
    return [row for row in fit if _is_promised(jobs.request[row], types)]


def _is_promised(request: Request, types: Set[str]) -> bool:
    """Return whether any hardware suits a request. `types`: GPU types that name parts of nodes."""
    named = request.nodes or request.excluded or request.closed or request.features
    return not named and request.gpu_type not in types


def _is_retried(snapshot: Snapshot, row: int) -> bool:
    """Return whether Slurm has not carried out the start of a job, which is tried again after a while."""
    return not snapshot.jobs.eligible[row] and not obstacle(snapshot.jobs, row)


def _rows(snapshot: Snapshot, names: Collection[str], state: JobState) -> list[int]:
    """Return the rows of those of the jobs that are in a state."""
    if not names:
        return []
    jobs = snapshot.jobs
    return [row for row in np.flatnonzero(jobs.state == state).tolist() if jobs.id[row] in names]


def _cluster(snapshot: Snapshot, row: int) -> str:
    clusters = snapshot.jobs.virtual_cluster
    return clusters[row] if clusters else ""
