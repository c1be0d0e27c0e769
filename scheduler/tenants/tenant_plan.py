"""One plan of what the virtual clusters and the opportunistic jobs have decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from tiresias.scheduler.idle_pools import unchanged
from tiresias.scheduler.model import Effect, Ints, Jobs, JobState, Plan, Preempt, Resize, Snapshot
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.pool_decisions import JoinedStanding, PoolDecisions
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.reasons import CONFINED
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.tenant_rules import JobTenants


def joined_plan(
    snapshot: Snapshot,
    of_jobs: JobTenants,
    row_of: Mapping[str, int],
    guaranteed: GuaranteedStarts,
    owners: PoolDecisions,
    rest: PoolDecisions,
) -> Plan:
    """Return the plan of all jobs. A job of a virtual cluster has its rank there.

    Args:
        snapshot: Jobs and nodes.
        of_jobs: The tenant of each job.
        row_of: The row of each job.
        guaranteed: What happens in the cells of the virtual clusters.
        owners: The decisions of the virtual clusters.
        rest: The decision on the opportunistic jobs.
    """
    jobs = snapshot.jobs
    beyond = [part.plan for part in rest.busy]
    starts = (*guaranteed.starts, *(start for plan in beyond for start in plan.starts))
    preemptions = {one.job: one.beneficiary for plan in beyond for one in plan.preemptions} | guaranteed.preempted
    started, victims = ([row_of[job] for job in ids] for ids in ((start.job for start in starts), preemptions))
    effect = unchanged(jobs)
    effect[[row for row in victims if jobs.state[row] == JobState.RUNNING]] = Effect.PREEMPT
    effect[started] = Effect.START
    return Plan(
        effect,
        *_order(owners, rest),
        actions=(
            *starts,
            *(Preempt(job, other) for job, other in preemptions.items()),
            *(each for each in guaranteed.rebindings if each.job not in preemptions),
            *_resizes(jobs, row_of, guaranteed, owners, rest, preemptions),
        ),
        promoted=tuple(dict.fromkeys([*owners.promoted(jobs.id), *_promoted_outside(rest, jobs, of_jobs, row_of)])),
        reserved=(*guaranteed.reserved, *(start for plan in beyond for start in plan.reserved)),
        why=_reasons(snapshot, of_jobs, row_of, guaranteed, owners, rest),
        standing=JoinedStanding((*owners.parts, *rest.parts)),
    )


def _resizes(
    jobs: Jobs,
    row_of: Mapping[str, int],
    guaranteed: GuaranteedStarts,
    owners: PoolDecisions,
    rest: PoolDecisions,
    preempted: Collection[str],
) -> Iterator[Resize]:
    """Yield the changes of size within the cells of a virtual cluster, and those of opportunistic jobs on what is left.

    A job whose cells change, or for which cells are kept free, keeps its size: the next decision sees what it has then. In cells
    a job gets fewer GPUs only for one of its virtual cluster that waits: others run opportunistically, without cells.
    """
    settled = {*preempted, *guaranteed.cells, *guaranteed.covered}
    beyond = [part.plan for part in rest.busy]
    placed = guaranteed.placed | {start.job for plan in beyond for start in (*plan.starts, *plan.reserved)}
    waits = (jobs.state == JobState.WAITING) & jobs.eligible
    waits[[row_of[job] for job in placed]] = False
    for part in owners.busy:
        lacks = bool(waits[part.pool.jobs].any())
        for one in part.plan.resizes:
            if not one.beneficiary and one.job not in settled and (lacks or one.gpus >= jobs.gpus[row_of[one.job]]):
                yield one
    for plan in beyond:
        yield from (one for one in plan.resizes if not one.beneficiary and one.job not in settled)


def _order(owners: PoolDecisions, rest: PoolDecisions) -> tuple[Ints, Ints]:
    """Return queue and rank of each job, in its virtual cluster if it has one; ranks count through, part by part."""
    queue, rank = owners.order()
    beyond = ~owners.ranks.pooled.inside & rest.ranks.pooled.inside
    if beyond.any():
        other_queue, other_rank = rest.order()
        queue[beyond], rank[beyond] = other_queue[beyond], other_rank[beyond] + int(owners.ranks.first[-1])
    return queue, rank


def _promoted_outside(rest: PoolDecisions, jobs: Jobs, of_jobs: JobTenants, row_of: Mapping[str, int]) -> Iterator[str]:
    """Yield the promoted jobs of no virtual cluster. Those of a virtual cluster are promoted there."""
    if (rest.ranks.pooled.inside & ~(of_jobs.of_owner >= 0)).any():
        yield from (job for job in rest.promoted(jobs.id) if of_jobs.name(row_of[job]) == OUTSIDE)


def _reasons(
    snapshot: Snapshot,
    of_jobs: JobTenants,
    row_of: Mapping[str, int],
    guaranteed: GuaranteedStarts,
    owners: PoolDecisions,
    rest: PoolDecisions,
) -> dict[int, Reason]:
    """Return the reasons of the first part that has one, and why running jobs have no guarantee."""
    found = _confined(snapshot.jobs, rest) | rest.why() | owners.why() | _unfit(snapshot, of_jobs, owners)
    found |= {row_of[job]: Reason(ReasonCode.UNBOUND, of_jobs.name(row_of[job])) for job in guaranteed.unbound}
    placed = guaranteed.placed | {start.job for part in rest.busy for start in part.plan.starts}
    for job in placed:
        found.pop(row_of[job], None)
    runs = rest.ranks.pooled.inside & (snapshot.jobs.state == JobState.RUNNING)
    for row in np.flatnonzero(runs).tolist():
        found[row] = _why_opportunistic(snapshot.jobs.id[row], of_jobs.name(row), guaranteed)
    for job in guaranteed.preempted:
        found.pop(row_of[job], None)
    return found


def _confined(jobs: Jobs, rest: PoolDecisions) -> dict[int, Reason]:
    """Return the reason of the waiting jobs of no virtual cluster that may not run opportunistically."""
    if jobs.opportunistic is None:
        return {}
    waits = rest.ranks.pooled.inside & (jobs.state == JobState.WAITING) & ~jobs.opportunistic
    return dict.fromkeys(np.flatnonzero(waits).tolist(), CONFINED)


def _unfit(snapshot: Snapshot, of_jobs: JobTenants, owners: PoolDecisions) -> dict[int, Reason]:
    """Return the reason of the waiting jobs that fit no cells as these are bound now, and fit other nodes if all are free."""
    parts = ((part.pool.jobs, part.plan.why.items()) for part in owners.busy)
    never = [int(rows[at]) for rows, whys in parts for at, why in whys if why.code == ReasonCode.NEVER_FITS]
    if not never:
        return {}
    placer, jobs = Placer(snapshot), snapshot.jobs
    fit = [row for row in never if placer.possible(placer.kind(jobs.request[row]), int(jobs.gpus[row]))]
    return {row: Reason(ReasonCode.UNFIT_CELLS, of_jobs.name(row)) for row in fit}


def _why_opportunistic(job: str, cluster: str, guaranteed: GuaranteedStarts) -> Reason:
    if cluster == OUTSIDE:
        return Reason(ReasonCode.OUTSIDE)
    code = ReasonCode.COVERED if job in guaranteed.covered else ReasonCode.OPPORTUNISTIC
    return Reason(code, cluster)
