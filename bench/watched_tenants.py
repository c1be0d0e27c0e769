"""Tenants of a simulation whose decisions are recorded: what guaranteed jobs use, and what of their guarantees tenants miss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.tenants.tenant_decision import preempted_for
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.simulator.simulated_tenants import SimulatedTenants


class Used(NamedTuple):
    """What guaranteed jobs use, and what tenants miss of their guarantees; numbers, or means over time.

    Attributes:
        nodes: Nodes on which guaranteed jobs use GPUs.
        partly: Of these, those of which they do not use all GPUs.
        guaranteed: GPUs that they use.
        withheld: GPUs that tenants own, do not use, and have waiting jobs for that fit.
    """

    nodes: float
    partly: float
    guaranteed: float
    withheld: float


@dataclass(frozen=True)
class WatchedTenants(SimulatedTenants):
    """Tenants whose decisions are recorded.

    Attributes:
        owned: The GPUs of each tenant.
        seen: The moment of each decision, and what is used from then on.
    """

    owned: dict[str, int] = field(default_factory=dict)
    seen: list[tuple[float, Used]] = field(default_factory=list)

    def decision(self, config: PolicyConfig) -> Callable[[Snapshot, Policy], Plan]:
        """Return the decision, which records what it decides."""
        rule = TENANT_RULES[self.rule](self.declared)
        names = (*(tenant.name for tenant in self.declared), OUTSIDE)

        def watched(snapshot: Snapshot, policy: Policy) -> Plan:
            plan, parts = rule.decide(snapshot, [TenantPolicy(name, config, policy) for name in names])
            guaranteed = _with_cells(snapshot, plan) if self.rule == "virtual_clusters" else _within_quotas(parts[:-1])
            used, nodes = _used(snapshot, plan, guaranteed), snapshot.nodes
            gpus = dict(zip(nodes.name, nodes.gpus.tolist(), strict=True))
            partly = sum(used[name] < gpus[name] for name in used)
            now = Used(len(used), partly, used.total(), _withheld(snapshot, plan, self.owned))
            self.seen.append((snapshot.time, now))
            return plan

        return watched

    def means(self, until: float) -> Used:
        """Return the means until a moment."""
        begin = np.array([moment for moment, _ in self.seen])
        lasts = np.diff(np.minimum([*begin, until], until))
        return Used(*(lasts @ np.array([used for _, used in self.seen]) / lasts.sum()).tolist())


def _with_cells(snapshot: Snapshot, plan: Plan) -> set[str]:
    """Return the jobs that hold cells once the plan is carried out."""
    held, ids = snapshot.allocations, snapshot.jobs.id
    found = {ids[row] for row, cell in zip(held.job.tolist(), held.owned_cell or (), strict=False) if cell}
    for each in plan.rebindings:
        (found.add if any(each.owned_cells) else found.discard)(each.job)
    return found | {start.job for start in plan.starts if any(start.owned_cells)}


def _within_quotas(parts: Sequence[PoolDecision]) -> set[str]:
    """Return the jobs that hold what their tenants own, or are to hold it."""
    found = set[str]()
    for part in parts:
        found |= {part.snapshot.jobs.id[row] for row in part.snapshot.allocations.job.tolist()}
        found |= {start.job for start in (*part.plan.starts, *part.plan.reserved)}
        found -= preempted_for(part).keys()
    return found


def _used(snapshot: Snapshot, plan: Plan, jobs: Collection[str]) -> Counter[str]:
    """Return the GPUs that some jobs use on each node once the plan is carried out, by the node's name."""
    held, stay = snapshot.allocations, set(jobs) - {each.job for each in plan.preemptions}
    found, held_gpus = Counter[str](), held.resources["gpus"].astype(np.int64).tolist()
    for row, node, gpus in zip(held.job.tolist(), held.node.tolist(), held_gpus, strict=True):
        found[snapshot.nodes.name[node]] += gpus if snapshot.jobs.id[row] in stay else 0
    for start in plan.starts:
        found.update(dict(start.nodes) if start.job in jobs else {})
    return +found


def _withheld(snapshot: Snapshot, plan: Plan, owned: Mapping[str, int]) -> int:
    """Return the GPUs of waiting jobs, the largest ones first, that fit into what their tenants own and do not use."""
    jobs, ends = snapshot.jobs, {each.job for each in plan.preemptions}
    starts = {start.job for start in (*plan.starts, *plan.reserved)}
    left, waiting = dict(owned), list[tuple[int, str]]()
    tenants = jobs.virtual_cluster or ()
    for name, tenant, state, gpus in zip(jobs.id, tenants, jobs.state.tolist(), jobs.gpus.tolist(), strict=True):
        if name in starts or (state != JobState.WAITING and name not in ends):
            left[tenant] -= gpus
        else:
            waiting.append((gpus, tenant))
    free = sum(max(each, 0) for each in left.values())
    for gpus, tenant in sorted(waiting, reverse=True):
        left[tenant] -= gpus if gpus <= left[tenant] else 0
    return free - sum(max(each, 0) for each in left.values())
