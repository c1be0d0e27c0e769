"""One plan of what the virtual clusters and the opportunistic jobs have decided."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tiresias.scheduler.model import Effect, Ints, JobState, Plan, Preempt, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.rank.standing import JoinedStanding, Standing
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE


def joined_plan(
    snapshot: Snapshot, cluster_of: Sequence[str], guaranteed: GuaranteedStarts, parts: Sequence[PoolDecision]
) -> Plan:
    """Return the plan of all jobs. A job of a virtual cluster has its rank there.

    Args:
        snapshot: Jobs and nodes.
        cluster_of: The virtual cluster of each job.
        guaranteed: What happens in the cells of the virtual clusters.
        parts: The decisions of the virtual clusters, then that on the opportunistic jobs.
    """
    rest = parts[-1].plan
    starts = (*guaranteed.starts, *rest.starts)
    preemptions = {**{one.job: one.beneficiary for one in rest.preemptions}, **guaranteed.preempted}
    queue, rank = _ranks(len(snapshot.jobs), parts)
    return Plan(
        _effects(snapshot, {start.job for start in starts}, preemptions.keys()),
        queue,
        rank,
        actions=(
            *starts,
            *(Preempt(job, other) for job, other in preemptions.items()),
            *(each for each in guaranteed.rebindings if each.job not in preemptions),
        ),
        promoted=tuple(dict.fromkeys(job for part in parts for job in _promoted(part, cluster_of, part is parts[-1]))),
        reserved=(*guaranteed.reserved, *rest.reserved),
        why=_reasons(snapshot, cluster_of, guaranteed, parts),
        standing=JoinedStanding(tuple(_standings(parts))),
    )


def _ranks(count: int, parts: Sequence[PoolDecision]) -> tuple[Ints, Ints]:
    """Return queue and rank of each job in the first part that has it; ranks count through, part by part."""
    queue, rank, first = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
    known = np.zeros(count, np.bool_)
    for part in parts:
        new = ~known[part.pool.jobs]
        rows = part.pool.jobs[new]
        queue[rows], rank[rows] = part.plan.queue[new], part.plan.rank[new] + first
        known[rows] = True
        first += len(part.pool.jobs)
    return queue, rank


def _effects(snapshot: Snapshot, starts: Collection[str], preempted: Collection[str]) -> Ints:
    jobs = snapshot.jobs
    holds = (jobs.state == JobState.RUNNING) | (jobs.state == JobState.STARTING)
    effect = np.select([holds, jobs.state == JobState.RELEASING], [Effect.KEEP, Effect.RELEASE], Effect.WAIT)
    effect = effect.astype(np.int64)
    for row, job in enumerate(jobs.id):
        if job in starts:
            effect[row] = Effect.START
        elif job in preempted and jobs.state[row] == JobState.RUNNING:
            effect[row] = Effect.PREEMPT
    return effect


def _promoted(part: PoolDecision, cluster_of: Sequence[str], rest: bool) -> list[str]:
    row = dict(zip(part.snapshot.jobs.id, part.pool.jobs.tolist(), strict=True))
    return [job for job in part.plan.promoted if not rest or cluster_of[row[job]] == OUTSIDE]


def _standings(parts: Sequence[PoolDecision]) -> list[tuple[Ints, Standing]]:
    found = []
    for part in parts:
        assert isinstance(part.plan.standing, Standing), "as `pools.numbered` gives it"
        found.append((part.pool.jobs, part.plan.standing))
    return found


def _reasons(
    snapshot: Snapshot, cluster_of: Sequence[str], guaranteed: GuaranteedStarts, parts: Sequence[PoolDecision]
) -> dict[int, Reason]:
    """Return the reasons of the first part that has one, and why running jobs have no guarantee."""
    found: dict[int, Reason] = {}
    placed = guaranteed.placed | {start.job for start in parts[-1].plan.starts}
    for part in parts:
        for row, reason in part.plan.why.items():
            found.setdefault(int(part.pool.jobs[row]), reason)
    for row, job in enumerate(snapshot.jobs.id):
        if job in placed:
            found.pop(row, None)
        elif job in guaranteed.unbound:
            found[row] = Reason(ReasonCode.UNBOUND, cluster_of[row])
    for row in parts[-1].pool.jobs.tolist():
        if snapshot.jobs.state[row] == JobState.RUNNING:
            found[row] = _why_opportunistic(snapshot.jobs.id[row], cluster_of[row], guaranteed)
    return {row: reason for row, reason in found.items() if snapshot.jobs.id[row] not in guaranteed.preempted}


def _why_opportunistic(job: str, cluster: str, guaranteed: GuaranteedStarts) -> Reason:
    if cluster == OUTSIDE:
        return Reason(ReasonCode.OUTSIDE)
    code = ReasonCode.COVERED if job in guaranteed.covered else ReasonCode.OPPORTUNISTIC
    return Reason(code, cluster)
