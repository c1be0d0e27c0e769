"""Random clusters, virtual clusters and workloads with node failures and restarts, for the property tests and for long campaigns.

    python -m tests.scheduler.tenants.random_workloads --decisions 100000 --seed 1

prints what it ran, and fails at the first broken property with the seed of the workload.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np

from tests.scheduler.conftest import Builder
from tests.scheduler.tenants.cluster_replay import ClusterReplay, ReplayedJob
from tests.scheduler.tenants.shared_cluster import CONFIG, tenants_of
from tiresias.scheduler.model import Plan, Request, Snapshot
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.private_clusters import PrivateClusters
from tiresias.scheduler.tenants.tenant_decision import preempted_for
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

POLICIES = ("fifo", "las", "best_effort", "sf")
FEATURES = ("ib", "ssd")
UNFIT = (ReasonCode.NEVER_FITS, ReasonCode.UNFIT_CELLS)


@dataclass
class RandomWorkload:
    """A cluster, virtual clusters and jobs that follow from a seed.

    Attributes:
        leaves: The leaf switch of each node.
        gpus: GPUs of each node.
        declared: The virtual clusters.
        owned: Their GPUs.
        jobs: The jobs.
        down: Failures of nodes, as of `ClusterReplay`.
        failing: Nodes that are a last resort, as of `ClusterReplay`.
        features: Of each node, where `different_nodes`.
        owner_of: The virtual cluster of each node in a pinned cell, where `pinned`.
    """

    seed: int
    faults: bool = True
    whole_nodes: bool = False
    pinned: bool = False
    different_nodes: bool = False
    leaves: list[int] = field(default_factory=list)
    down: list[tuple[float, float, int]] = field(default_factory=list)
    failing: list[tuple[float, float, int]] = field(default_factory=list)
    features: list[frozenset[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        racks, self.size = rng.randint(1, 4), rng.choice((1, 2, 2, 3))
        self.leaves = [rack for rack in range(racks) for _ in range(self.size)]
        self.gpus = rng.choice((2, 4, 8))
        self.declared = self._declared(racks)
        self.owned = {tenant.name: self._owned(tenant) for tenant in self.declared}
        self.jobs = [self._job(at) for at in range(rng.randint(3, 18))]
        self.owner_of = dict[str, str]()
        if self.pinned:
            self.declared = self._pinned()
        if self.faults:
            self.down = [self._failure() for _ in range(rng.randint(1, 3))]
        self.failing = [self._failure() for _ in range(rng.randint(0, len(self.leaves)))]
        if self.different_nodes:
            self.features = [self._some_features() for _ in self.leaves]
            for job in self.jobs:
                job.request = self._with_condition(job.request)

    def _declared(self, racks: int) -> tuple[DeclaredTenant, ...]:
        rng, free, found = self.rng, racks, list[DeclaredTenant]()
        whole = {f"vc{at}": rng.randint(0, 1) for at in range(rng.randint(1, 3))}
        whole = {name: count if (free := free - count) >= 0 else 0 for name, count in whole.items()}
        nodes = (racks - sum(whole.values())) * self.size
        for name, count in whole.items():
            single = rng.randint(0 if count else 1, max(nodes, 1))
            single, nodes = min(single, nodes), nodes - min(single, nodes)
            cells = [DeclaredCells("leaf", count)] * bool(count) + [DeclaredCells("node", single)] * bool(single)
            if cells:
                found.append(DeclaredTenant(name, tuple(cells), rng.random() < 0.8))
        return tuple(found)

    def _pinned(self) -> tuple[DeclaredTenant, ...]:
        """Return the virtual clusters with about half of their cells pinned: each one to a place of its own, so that all fit."""
        free = [f"n{at}" for at in range(len(self.leaves))]
        places = [
            (tenant, cells, at) for tenant in self.declared for cells in tenant.cells for at in range(cells.count)
        ]
        found: dict[str, list[DeclaredCells]] = {tenant.name: [] for tenant in self.declared}
        for tenant, cells, _ in sorted(places, key=lambda place: place[1].level):  # leaves before nodes
            size = self.size if cells.level == "leaf" else 1
            nodes, free = tuple(free[:size]), free[size:]
            is_pinned = self.rng.random() < 0.5
            found[tenant.name].append(replace(cells, count=1, nodes=nodes if is_pinned else ()))
            self.owner_of |= dict.fromkeys(nodes, tenant.name) if is_pinned else {}
        return tuple(replace(tenant, cells=tuple(found[tenant.name])) for tenant in self.declared)

    def _owned(self, tenant: DeclaredTenant) -> int:
        return sum(cells.count * (self.size if cells.level == "leaf" else 1) for cells in tenant.cells) * self.gpus

    def _job(self, at: int) -> ReplayedJob:
        rng = self.rng
        name = rng.choice([*self.owned, *self.owned, *([] if self.whole_nodes else [OUTSIDE])])
        most = self.owned.get(name, min(self.gpus * 2, len(self.leaves) * self.gpus))
        unit = self.gpus if self.whole_nodes else 1
        gpus = unit * rng.randint(1, max(1, min(most, rng.choice((self.gpus, most))) // unit))
        packed = not self.whole_nodes and rng.random() < 0.5
        request = Request(max_nodes=-(-gpus // self.gpus)) if packed else Request()
        return ReplayedJob(
            f"{at:02}", name, gpus, rng.randint(0, 40) + at / 100, float(rng.randint(1, 25)), request=request
        )

    def _some_features(self) -> frozenset[str]:
        return frozenset(name for name in FEATURES if self.rng.random() < 0.5)

    def _with_condition(self, request: Request) -> Request:
        """Return a request that demands a feature or two, excludes nodes, or names some; about half of them demand nothing."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.3:
            return replace(request, features=frozenset(rng.choices(FEATURES, k=2)))
        some = frozenset(
            f"n{row}" for row in rng.sample(range(len(self.leaves)), rng.randint(1, (len(self.leaves) + 2) // 3))
        )
        return (
            replace(request, excluded=some) if kind < 0.45 else replace(request, nodes=some) if kind < 0.5 else request
        )

    def _failure(self) -> tuple[float, float, int]:
        begin = float(self.rng.randint(0, 40))
        return begin, begin + self.rng.randint(1, 30), self.rng.randrange(len(self.leaves))

    def tenants(self, policy: str) -> list[TenantPolicy]:
        """Return all tenants with a policy."""
        return tenants_of(dict.fromkeys((*self.owned, OUTSIDE), replace(CONFIG, name=policy)))


class Checks:
    """What holds of each decision.

    Attributes:
        counts: Numbers of decisions and of what they do.
        left: The reasons of the jobs in the newest decision.
    """

    def __init__(self, work: RandomWorkload, policy: str, rule: VirtualClusterRule) -> None:
        self._work, self._tenants, self._rule = work, work.tenants(policy), rule
        self.counts = Counter[str]()
        self.left = dict[str, Reason]()

    def __call__(self, snapshot: Snapshot, plan: Plan) -> None:
        """Check one decision."""
        healthy = bool(snapshot.nodes.usable.all())
        self.counts.update(
            decisions=1,
            healthy=healthy,
            starts=len(plan.starts),
            preemptions=len(plan.preemptions),
            rebindings=len(plan.rebindings),
        )
        where = (self._work.seed, snapshot.time)
        assert self._rule._cells is not None
        chains = self._rule._cells.occupancy.clusters.cells.chains.values()
        assert all(chain.is_safe for chain in chains), where  # num_splittable >= 0
        self._check_gpus(snapshot, plan)
        for row in np.flatnonzero(~snapshot.nodes.usable).tolist():
            assert all(snapshot.nodes.name[row] != node for start in plan.starts for node, _ in start.nodes), where
        if healthy and not self._work.features:
            assert all(reason.code != ReasonCode.UNBOUND for reason in plan.why.values()), where
        fresh, _ = VirtualClusterRule(self._work.declared).decide(snapshot, self._tenants)
        owners = (
            self._rule._of_owners.newest
        )  # a new rule may bind other unused cells to bad nodes, and demote other jobs
        assert owners is not None
        demoted = {job for part in owners.parts for job in preempted_for(part)}
        self._check_victims(snapshot, plan, holds_cells(snapshot) - demoted)
        self._check_restart(snapshot, plan, fresh, healthy)
        self.left = {snapshot.jobs.id[row]: why for row, why in plan.why.items()}

    def code(self, job: str) -> ReasonCode | None:
        """Return why a job waits; None: it has no reason but that others have the GPUs."""
        reason = self.left.get(job)
        return None if reason is None else reason.code

    def _check_gpus(self, snapshot: Snapshot, plan: Plan) -> None:
        """No GPU is used twice, no virtual cluster holds more than it owns, and none holds pinned cells of another one."""
        free = dict(zip(snapshot.nodes.name, snapshot.nodes.free["gpus"].tolist(), strict=True))
        held, cluster = Counter[str](), dict(zip(snapshot.jobs.id, snapshot.jobs.virtual_cluster or (), strict=True))
        for start in plan.starts:
            for node, gpus in start.nodes:
                free[node] -= gpus
                owner = self._work.owner_of.get(node, cluster[start.job])
                assert not start.owned_cells or owner == cluster[start.job], (self._work.seed, start)
                held[cluster[start.job]] += gpus if start.owned_cells else 0
        assert min(free.values()) >= 0, self._work.seed
        keeps = keeps_cells(snapshot, plan)
        for job, gpus in zip(
            snapshot.allocations.job.tolist(), snapshot.allocations.resources["gpus"].tolist(), strict=True
        ):
            held[cluster[snapshot.jobs.id[job]]] += gpus if snapshot.jobs.id[job] in keeps else 0
        assert all(held[name] <= self._work.owned.get(name, 0) for name in held), (self._work.seed, held)

    def _check_victims(self, snapshot: Snapshot, plan: Plan, guaranteed: Set[str]) -> None:
        """A job that holds cells, and keeps its place in its virtual cluster, is not preempted while it has hardware."""
        lost = {each.job for each in plan.preemptions} & guaranteed
        assert not lost, (self._work.seed, snapshot.time, lost)

    def _check_restart(self, snapshot: Snapshot, plan: Plan, fresh: Plan, healthy: bool) -> None:
        """A rule that begins with this snapshot decides the same; with a bad node no running job loses cells by it. A job that gets
        cells now may not get them, as unused cells may be bound to other bad nodes."""
        same = decided(plan) == decided(fresh)
        self.counts.update(differs=not same)
        assert same or not healthy, (self._work.seed, snapshot.time)
        lost = holds_cells(snapshot) & keeps_cells(snapshot, plan) - keeps_cells(snapshot, fresh)
        assert not lost, (self._work.seed, snapshot.time, lost)


def decided(plan: Plan) -> tuple[object, ...]:
    """Return what a plan does. How many GPUs of each of its nodes a job uses depends on the names of equal virtual nodes."""
    starts = {start.job: sorted(node for node, _ in start.nodes) for start in (*plan.starts, *plan.reserved)}
    return plan.effect.tolist(), starts, plan.preemptions, plan.rebindings


def holds_cells(snapshot: Snapshot) -> set[str]:
    """Return the jobs that hold cells in a snapshot."""
    held = snapshot.allocations
    return {snapshot.jobs.id[job] for job, cell in zip(held.job.tolist(), held.owned_cell or (), strict=True) if cell}


def keeps_cells(snapshot: Snapshot, plan: Plan) -> set[str]:
    """Return the jobs that hold cells once a plan is carried out, without those that it starts."""
    changed = {each.job: bool(each.owned_cells) for each in plan.rebindings}
    found = (holds_cells(snapshot) | {job for job, owned in changed.items() if owned}) - {
        job for job, owned in changed.items() if not owned
    }
    return found - {each.job for each in plan.preemptions}


def replay(work: RandomWorkload, policy: str) -> Counter[str]:
    """Replay a workload under the rule, and check each decision. Returns what was counted."""
    rule = VirtualClusterRule(work.declared)
    checks = Checks(work, policy, rule)
    run = ClusterReplay(
        Builder(),
        rule,
        work.tenants(policy),
        deepcopy(work.jobs),
        checks,
        work.down,
        work.leaves,
        work.gpus,
        failing=work.failing,
        features=work.features,
        may_wait=bool(work.features),
    )
    left = [job for job, end in run.run().items() if math.isnan(end)]
    unbound = [job for job in work.jobs if job.name in left and checks.code(job.name) == ReasonCode.UNBOUND]
    assert work.pinned or not any(can_be_bound(work, job) for job in unbound), (work.seed, unbound)
    fit = [job for job in left if checks.code(job) not in (*UNFIT, ReasonCode.UNBOUND)]
    assert not fit or (unbound and policy == "fifo"), (work.seed, fit)  # others overtake a job that cannot be bound
    checks.counts.update(left=len(left), unbound=len(unbound))
    return checks.counts


def can_be_bound(work: RandomWorkload, job: ReplayedJob) -> bool:
    """Return whether an idle cluster has nodes for a job in cells of its virtual cluster, without a cell that the others need.

    All sets of as few nodes as possible are tried that have those which the job names, with all choices of the racks that are cells
    of the virtual cluster.
    """
    count = max(-(-job.gpus // work.gpus), len(job.request.nodes))
    if count > min(job.gpus, job.request.max_nodes or job.gpus):
        return False
    own, others = Counter[str](), Counter[str]()
    for tenant in work.declared:
        counts = own if tenant.name == job.cluster else others
        for each in tenant.cells:
            counts[each.level] += each.count
    suits = [row for row in range(len(work.leaves)) if _suits(work, job.request, row)]
    racks = set(work.leaves)
    names = {row for row in range(len(work.leaves)) if f"n{row}" in job.request.nodes}
    for nodes in combinations(suits, count):
        if not names <= set(nodes):
            continue
        touched = {work.leaves[row] for row in nodes}
        for bound in chain.from_iterable(combinations(touched, racks_bound) for racks_bound in range(own["leaf"] + 1)):
            single = [row for row in nodes if work.leaves[row] not in bound]
            whole = len(racks) - len(touched | set(bound)) - (own["leaf"] - len(bound) + others["leaf"])
            rest = len(work.leaves) - (own["leaf"] + others["leaf"]) * work.size - len(single)
            if len(single) <= own["node"] and whole >= 0 and rest >= own["node"] - len(single) + others["node"]:
                return True
    return False


def _suits(work: RandomWorkload, request: Request, row: int) -> bool:
    name = f"n{row}"
    return request.features <= work.features[row] and name not in request.excluded


def not_later_than_private(work: RandomWorkload) -> None:
    """Jobs of whole nodes in the order of submission start and end no later than in private clusters, on healthy nodes."""
    ran = list[Sequence[ReplayedJob]]()
    for rule in (PrivateClusters(work.declared), VirtualClusterRule(work.declared)):
        jobs = deepcopy(work.jobs)
        tenants, failing = work.tenants("fifo"), work.failing
        ClusterReplay(Builder(), rule, tenants, jobs, leaves=work.leaves, gpus=work.gpus, failing=failing).run()
        ran.append(jobs)
    for private, shared in zip(*ran, strict=True):
        assert shared.first_start <= private.first_start + 1e-6, (work.seed, shared.name)
        assert shared.end <= private.end + 1e-6, (work.seed, shared.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total, seed = Counter[str](), options.seed
    while total["decisions"] < options.decisions:
        total += replay(RandomWorkload(seed, faults=seed % 3 != 0), POLICIES[seed % len(POLICIES)])
        not_later_than_private(RandomWorkload(seed, faults=False, whole_nodes=True))
        total += replay(RandomWorkload(seed, faults=seed % 3 != 0, pinned=True), POLICIES[seed % len(POLICIES)])
        not_later_than_private(RandomWorkload(seed, faults=False, whole_nodes=True, pinned=True))
        total += replay(
            RandomWorkload(seed, faults=seed % 3 != 0, different_nodes=True), POLICIES[seed % len(POLICIES)]
        )
        seed += 1
    print(f"seeds {options.seed} to {seed - 1}: no property broken. {dict(total.most_common())}")


if __name__ == "__main__":
    main()
