"""The tenants of a simulated cluster: the rule by which they share it, and what each owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Nodes, Plan, Snapshot
from tiresias.scheduler.rank.policies import POLICIES, with_owners
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.simulator.tenant_policies import TenantPolicies


@dataclass(frozen=True, slots=True)
class SimulatedTenants:
    """How tenants share a simulated cluster.

    Attributes:
        rule: One of TENANT_RULES.
        declared: The virtual clusters. Jobs of other ones, or of none, belong to no tenant.
        policies: Name of the policy of each virtual cluster that does not have the policy of the simulation.
    """

    rule: str
    declared: tuple[DeclaredTenant, ...]
    policies: Mapping[str, str] = field(default_factory=dict)

    def check(self, nodes: Nodes) -> None:
        """Check that the cells exist and fit into the nodes.

        Raises:
            UsageError: They do not.
        """
        CellState(cell_specification(nodes, self.declared))

    def policy(self, default: Policy, clusters: Sequence[str], config: PolicyConfig) -> Policy:
        """Return the policy of a simulation: `default`, or where a virtual cluster has another one, all of them as one.

        Args:
            default: The policy of the simulation.
            clusters: The virtual cluster of each row of the trace.
            config: Whether owners count.
        """
        if not self.policies:
            return default
        own = {name: with_owners(POLICIES[each], config) for name, each in self.policies.items()}
        return TenantPolicies(default, own, clusters)

    def decision(self, config: PolicyConfig) -> Callable[[Snapshot, Policy], Plan]:
        """Return the decision on a snapshot under a policy. It keeps cells between calls: each simulation has its own."""
        rule = TENANT_RULES[self.rule](self.declared)
        names = (*(tenant.name for tenant in self.declared), OUTSIDE)
        configs = {name: self._config(name, config) for name in names}

        def decide(snapshot: Snapshot, policy: Policy) -> Plan:
            tenants = [TenantPolicy(name, configs[name], _of(policy, name)) for name in names]
            return rule.decide(snapshot, tenants)[0]

        return decide

    def _config(self, name: str, config: PolicyConfig) -> PolicyConfig:
        return replace(config, name=self.policies[name]) if name in self.policies else config


def _of(policy: Policy, name: str) -> Policy:
    return policy.of(name) if isinstance(policy, TenantPolicies) else policy
