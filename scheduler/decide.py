"""`decide` makes a plan from a snapshot. It is pure: the same snapshot and configuration give the same plan.

1. Rank: the policy orders the jobs (rank/).
2. Admit: jobs that Slurm would not start, or that the admission rule does not admit, take no part (admit/).
3. Size: each waiting job gets a number of GPUs (size/). An elastic job without nodes gets its fewest, in a further walk.
4. The walk of pseudocode 2 selects, in the order of the ranks and by GPUs, the jobs that hold GPUs once all changes are done.
   Jobs that cannot be preempted keep their GPUs; the GPUs of jobs that are being preempted count as free. The eviction stage takes
   preemptions back, such as those that cost more than they gain (evict/).
5. Place: each selected waiting job is assigned nodes (place/): free nodes, else nodes that preempted and unselected jobs will free
   (they are reserved for it, so no lower-ranked job takes them), else nodes of the lowest-ranked running jobs. A job without such
   nodes is skipped as one that does not fit, and the walk is repeated without it.
6. Running jobs that were not selected are preempted only where a reservation needs their nodes. Where that is configured and its
   gain exceeds its cost, running jobs that may run on any nodes are preempted to defragment nodes for the first skipped job.
   An elastic one for which GPUs are left beside the reservations is not preempted but resized: it goes on with them at once.
7. Running elastic jobs that keep their GPUs change their size where that pays and nodes have room for the new size.

For jobs that may run on any nodes the outcome is that of the paper's walk. The next snapshot yields the same reservation, as its
victims are being preempted there; no other victims are chosen meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.admit.quotas import free_only
from tiresias.scheduler.admit.rules import not_admitted
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Bools, Effect, Ints, Plan, Snapshot
from tiresias.scheduler.place.selected_parts import with_parts
from tiresias.scheduler.placeable_sizes import placeable
from tiresias.scheduler.plan_builder import PlanBuilder
from tiresias.scheduler.rank.idle_gpus import ranking_of
from tiresias.scheduler.rank.policies import policy_of
from tiresias.scheduler.rank.policy import Policy, Ranking
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.reasons import reason as reason
from tiresias.scheduler.size.elastic_jobs import at_least_size, resizes
from tiresias.scheduler.size.server_choice import with_counts
from tiresias.scheduler.size.sizing import sized, weighs_cost, with_servers


def decide(
    snapshot: Snapshot, config: PolicyConfig, policy: Policy | None = None, ranking: Ranking | None = None
) -> Plan:
    """Return what to do with each job.

    Args:
        snapshot: Jobs, nodes and allocations.
        config: The configuration of the stages.
        policy: In place of the one that the configuration names.
        ranking: The order of the jobs where it is known already, as the policy returns it.

    A job that may start on free GPUs only never causes a preemption: where such a job starts and jobs are preempted for other
    jobs, the decision is repeated without it, as its GPUs may suffice for those.

    O(jobs log jobs + started jobs x nodes); each job that is skipped, as no nodes fit it, costs up to one more walk. For jobs
    with equal requests for one GPU these walks mostly place no job (`unplaceable_requests.py`).
    """
    policy = policy or policy_of(config)
    ranking = ranking or ranking_of(policy, snapshot, config)
    barred = not_admitted(snapshot, config.admission, ranking.order)
    requested = snapshot.jobs.gpus
    snapshot, found = sized(snapshot, config, ranking.order)
    is_sized = found.sizes is not requested
    sizes = found.sizes if is_sized else None
    plan = _decided(snapshot, config, policy, ranking, barred, sizes)
    if is_sized and (smaller := at_least_size(snapshot, plan)) is not None:
        snapshot, plan = smaller, _decided(smaller, config, policy, ranking, barred, sizes)
    on_trial = free_only(snapshot.jobs)
    if plan.preemptions and (on_trial & (plan.effect == Effect.START)).any():
        plan = _decided(snapshot, config, policy, ranking, on_trial | barred, sizes)
    for row in np.flatnonzero(barred).tolist():
        plan.why[row] = Reason(ReasonCode.NOT_ADMITTED, config.admission)
    if is_sized:
        changes = resizes(snapshot, found.sizes, plan, config, weighs_cost(config.sizing), found.sampled)
        plan = replace(plan, actions=(*plan.actions, *placeable(snapshot, changes)))
    plan = with_counts(with_servers(plan, snapshot.jobs, config.sizing, found), snapshot.jobs)
    return with_parts(plan, snapshot)


def _decided(
    snapshot: Snapshot, config: PolicyConfig, policy: Policy, ranking: Ranking, left_out: Bools, sizes: Ints | None
) -> Plan:
    """Return the plan without the waiting jobs `left_out`, shape (jobs,). sizes: as for PlanBuilder.

    Where a starving job does not fit, the decision is made again: for the jobs ahead of it as before, and lower-ranked jobs start
    only on free GPUs that are not kept free for it.
    """
    builder = PlanBuilder(snapshot, config, policy, ranking, left_out, sizes=sizes)
    assignment = builder.assign()
    for row in builder.starving(assignment):
        drained = PlanBuilder(snapshot, config, policy, ranking, left_out, row, sizes)
        if (kept := drained.keeping_free(row)) is not None:
            return drained.plan(kept)
    return builder.plan(assignment)
