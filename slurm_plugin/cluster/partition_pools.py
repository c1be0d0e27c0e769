"""Which partitions have an order of their own: those with a table `[policy.partitions.NAME]`, and all of equal policy together.

Partitions that share nodes need the same policy: with two orders, each would preempt and reserve on the nodes of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.admit.rules import ADMISSION
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.evict.eviction import EVICTIONS
from tiresias.scheduler.model import Ints, Jobs, Plan, Snapshot, Style
from tiresias.scheduler.place.placements import PLACEMENTS, PLUGIN_CODES
from tiresias.scheduler.plugin import PluginError, guarded
from tiresias.scheduler.pools import NodePool, PoolDecision, decide_pools
from tiresias.scheduler.rank.policies import POLICIES, policy_of
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.registry import Registry
from tiresias.scheduler.size.elastic_jobs import is_elastic, is_size
from tiresias.scheduler.size.sizing import SIZINGS
from tiresias.scheduler.tenants.cell_report import CellReport
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.cluster.tenant_pools import TenantPools
from tiresias.slurm_plugin.config import PARTITION_POLICIES, Config

DECISION_TIMEOUT_S = 20.0
_KINDS = {
    "tiresias.policies": "policy",
    "tiresias.admission": "admission rule",
    "tiresias.sizing": "sizing",
    "tiresias.placement": "placement",
    "tiresias.eviction": "eviction",
}
_REPLACEMENTS = (
    "admission shared, sizing fixed, and placement consolidate, eviction by_policy in place of a package's own"
)


def conflict(config: Config, partitions_of: Iterable[tuple[str, Collection[str]]]) -> str:
    """In one line, why the policies cannot hold; "" where they can. partitions_of: name and partitions of each node."""
    if not config.partition_policies:
        return ""
    for node, partitions in partitions_of:
        names = [name for name in config.partitions if name in partitions]
        for name in names[1:]:
            if config.policy_of(name) != config.policy_of(names[0]):
                return (
                    f"partitions {names[0]} and {name} share {node} and have two policies: "
                    f"give both the same [{PARTITION_POLICIES}NAME] table, or none"
                )
    return ""


class Fallback(NamedTuple):
    """Why other implementations decide than the configuration names.

    Attributes:
        part: What failed, such as `policy adaptive`.
        words: The alarm, without what decides instead.
        replacement: Returns the configuration that holds instead of the given one.
    """

    part: str
    words: str
    replacement: Callable[[PolicyConfig], PolicyConfig]


class PartitionPools:
    """The pools of a configuration, each with its policy as it has learned.

    Attributes:
        tenants: Names of the virtual clusters of the newest decision, in the order of its parts; (): it had none.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        configs = dict.fromkeys(
            [
                config.policy,
                *(config.policy_of(name) for name in config.partitions),
                *(each.policy for each in config.virtual_clusters),
            ]
        )
        self._tenants, self.tenants = TenantPools(config), tuple[str, ...]()
        self._policies: dict[PolicyConfig, Policy] = {each: policy_of(each) for each in configs}
        self._plugins = check_plugins(config)
        self._failure: Fallback | None = None  # from then on the built-in implementations decide
        self._alarms: list[str] = []

    @property
    def alarms(self) -> list[str]:
        """In one line each."""
        failed = [f"{self._failure.words}; until a restart: policy las, {_REPLACEMENTS}"] if self._failure else []
        return [*failed, *self._alarms]

    def learn(self, over: int, past: Callable[[], Completed], jobs: Jobs, gpus: int) -> None:
        """Fit each policy to all completed jobs, as often as it requests.

        over: their number. past: reads them, which is slow. gpus: of the cluster."""
        for config, policy in self._policies.items():
            if over >= policy.refit_at:
                try:
                    self._policies[config] = policy.fitted(past(), jobs, gpus)
                except PluginError as error:
                    self._replace(_of_package(error))
                    return

    def decide(self, snapshot: Snapshot, slurm: SlurmSnapshot) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """The plan of all pools. Where an implementation of an installed package fails, the built-in ones decide instead, from this
        decision on: `las`, the admission rule `shared` and, in place of a placement of a package, `consolidate`."""
        if self._failure or not self._plugins:
            return self._decided(self._built_in(snapshot), slurm)
        name = ", ".join(self._plugins)
        try:
            return guarded(
                "tiresias.plugins",
                name,
                name,
                DECISION_TIMEOUT_S,
                "a decision",
                lambda: self._with_plugins(snapshot, slurm),
            )
        except PluginError as error:
            self._replace(_of_package(error))
            return self._decided(self._built_in(snapshot), slurm)

    def _decided(self, snapshot: Snapshot, slurm: SlurmSnapshot) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Where the cells of the virtual clusters do not fit the nodes, all jobs share them, with an alarm."""
        if not (self._tenants.names and self._ranking(self._config.policy)[0].admission in TENANT_RULES):
            self.tenants = ()
            return decide_pools(snapshot, self.of(snapshot, slurm))
        try:
            found = self._tenants.decide(snapshot, self._ranking)  # meanwhile others may call `report`
        except UsageError as error:
            self.tenants = ()
            alarm = f"{error}; until then all jobs share all nodes, without any guarantee"
            return decide_pools(snapshot, self.of(snapshot, slurm, alarm))
        self.tenants, self._alarms = self._tenants.names, []
        return found

    def report(self, *, trees: bool) -> CellReport | None:
        """Return the cells of the newest decision; None: it bound none. May be called from another thread."""
        return self._tenants.report(trees=trees) if self.tenants else None

    def _ranking(self, config: PolicyConfig) -> tuple[PolicyConfig, Policy]:
        """Return the configuration that holds in place of the given one, and its policy as it has learned."""
        return (self._failure.replacement(config) if self._failure else config), self._policies[config]

    def fall_back(self, error: Exception) -> bool:
        """After a failure that no single job explains, let `las` with victims by rank decide from now on.

        Returns:
            False where it decides already.
        """
        names = ", ".join(dict.fromkeys(config.name for config in self._policies if _plainest(config) != config))
        if not names or (self._failure and self._failure.replacement is _plainest):
            return False
        what = f"policy {names}: a decision failed with {type(error).__name__}: {error!s:.200}"
        self._replace(Fallback(f"policy {names}", f"{what}; report this as a defect of Tiresias", _plainest))
        return True

    def _with_plugins(self, snapshot: Snapshot, slurm: SlurmSnapshot) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Raises PluginError, also where a job would start with a number of GPUs that it cannot have."""
        plan, parts = self._decided(snapshot, slurm)
        for part in parts:
            _check_sizes(part)
        return plan, parts

    def _replace(self, failure: Fallback) -> None:
        """The virtual clusters begin anew: a call that exceeded its time may still use their cells."""
        self._failure, self._tenants = failure, TenantPools(self._config)
        self._policies = {config: policy_of(failure.replacement(config)) for config in self._policies}

    def _built_in(self, snapshot: Snapshot) -> Snapshot:
        """With built-in placements alone, after a failure."""
        style = snapshot.jobs.style
        if not self._failure or style is None:
            return snapshot
        own = np.where(style >= PLUGIN_CODES, int(Style.CONSOLIDATE), style)
        return replace(snapshot, jobs=replace(snapshot.jobs, style=own))

    def _pool(self, jobs: Ints, nodes: Ints, config: PolicyConfig, before: int = 0) -> NodePool:
        own, policy = self._ranking(config)
        if own.admission in TENANT_RULES:
            own = replace(own, admission="shared")
        if not self._failure:
            return NodePool(jobs, nodes, own, policy, before)
        failed = f"{self._failure.part} failed"
        note = f"{failed}, {own.name} ranks" if own.name != config.name else f"{failed}, the built-in one decides"
        return NodePool(jobs, nodes, own, policy, before, note)

    def of(self, snapshot: Snapshot, slurm: SlurmSnapshot, alarm: str = "") -> list[NodePool]:
        """Where an administrator gave nodes to partitions of two policies, [policy] holds for all of them, with an alarm.

        `alarm`: why no virtual clusters share them; "": there are none.
        """
        self._alarms = [alarm] if alarm else []
        if not self._config.partition_policies:
            return [self._whole(snapshot)]
        partitions = {node.name: node.partitions for node in slurm.nodes}
        if found := conflict(self._config, ((name, partitions[name]) for name in snapshot.nodes.name)):
            self._alarms = [f"{found}; until then [policy] holds for all partitions"]
            return [self._whole(snapshot)]
        partition = {job.id: job.partition for job in slurm.jobs}
        of_jobs = [self._config.policy_of(partition[job]) for job in snapshot.jobs.id]
        of_nodes = [self._of_node(partitions[name]) for name in snapshot.nodes.name]
        pools, before = list[NodePool](), 0
        for each in dict.fromkeys(map(self._config.policy_of, self._config.partitions)):
            pools.append(self._pool(_rows(of_jobs, each), _rows(of_nodes, each), each, before))
            before += len(pools[-1].config.limits) + 1
        return pools

    def _whole(self, snapshot: Snapshot) -> NodePool:
        return self._pool(np.arange(len(snapshot.jobs)), np.arange(len(snapshot.nodes)), self._config.policy)

    def _of_node(self, partitions: Collection[str]) -> PolicyConfig:
        return self._config.policy_of(next(name for name in self._config.partitions if name in partitions))


def check_plugins(config: Config) -> list[str]:
    """The names of installed packages' implementations that the configuration uses.

    Raises:
        PluginError: One of them cannot be used, or a package registers a name that is built in and that the configuration uses.
    """
    tenants = (each.policy for each in config.virtual_clusters)
    policies = dict.fromkeys([config.policy, *(policy for _, policy in config.partition_policies), *tenants])
    used: list[tuple[Registry[Any], str]] = [(POLICIES, policy.name) for policy in policies]
    used += [(ADMISSION, policy.admission) for policy in policies if policy.admission not in TENANT_RULES]
    used += [(SIZINGS, policy.sizing) for policy in policies]
    used += [(EVICTIONS, policy.eviction) for policy in policies]
    if config.placement.style != "skew":
        used.append((PLACEMENTS, config.placement.style))
    for registry, name in used:
        _ = registry[name]
    return [name for registry, name in used if registry.is_plugin(name)]


def _check_sizes(part: PoolDecision) -> None:
    jobs = part.snapshot.jobs
    row_of, elastic = {job: row for row, job in enumerate(jobs.id)}, is_elastic(jobs)
    for start in (*part.plan.starts, *part.plan.reserved):
        gpus, row = sum(share for _, share in start.nodes), row_of[start.job]
        if gpus != jobs.gpus[row] and not (elastic[row] and is_size(jobs, row, gpus)):
            name = part.pool.config.sizing
            problem = f"{gpus} GPUs for job {start.job}, which requests {jobs.gpus[row]}; it cannot have that size"
            raise PluginError(SIZINGS.group, name, SIZINGS.plugins()[name], problem)


def _of_package(error: PluginError) -> Fallback:
    return Fallback(f"{_KINDS.get(error.group, 'plug-in')} {error.name}", str(error), _built_in)


def _plainest(config: PolicyConfig) -> PolicyConfig:
    """The configuration with `las` and the built-in stages that depend on no policy."""
    return replace(config, name="las", admission="shared", sizing="fixed", eviction="by_rank")


def _built_in(config: PolicyConfig) -> PolicyConfig:
    """The configuration with built-in implementations alone."""
    name = "las" if POLICIES.is_plugin(config.name) else config.name
    eviction = "by_policy" if EVICTIONS.is_plugin(config.eviction) else config.eviction
    admission = config.admission if config.admission in TENANT_RULES else "shared"
    return replace(config, name=name, admission=admission, sizing="fixed", eviction=eviction)


def _rows(values: Sequence[PolicyConfig], config: PolicyConfig) -> Ints:
    return np.array([row for row, value in enumerate(values) if value is config or value == config], np.int64)
