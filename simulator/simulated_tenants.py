"""The tenants of a simulated cluster: the rule by which they share it, and what each owns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.protocol import site_configuration
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Nodes, Plan, Snapshot
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.scheduler.tenants.tenant_tables import declared_tenant
from tiresias.scheduler.virtual_clusters.cell_state import CellState

TABLE = "virtual_cluster"


@dataclass(frozen=True, slots=True)
class SimulatedTenants:
    """How tenants share a simulated cluster. All of them have the policy of the simulation.

    Attributes:
        rule: One of TENANT_RULES.
        declared: The virtual clusters. Jobs of other ones, or of none, belong to no tenant.
    """

    rule: str
    declared: tuple[DeclaredTenant, ...]

    def check(self, nodes: Nodes) -> None:
        """Check that the cells exist and fit into the nodes.

        Raises:
            UsageError: They do not.
        """
        CellState(cell_specification(nodes, self.declared))

    def decision(self, config: PolicyConfig) -> Callable[[Snapshot, Policy], Plan]:
        """Return the decision on a snapshot under a policy. It keeps cells between calls: each simulation has its own."""
        rule = TENANT_RULES[self.rule](self.declared)
        names = (*(tenant.name for tenant in self.declared), OUTSIDE)
        return lambda snapshot, policy: rule.decide(snapshot, [TenantPolicy(name, config, policy) for name in names])[0]


def read_tenants(file: Path) -> tuple[DeclaredTenant, ...]:
    """Return the virtual clusters of a TOML file, its tables `[[virtual_cluster]]`.

    Raises:
        UsageError: The file cannot be read, or a table is not possible.
    """
    try:
        document = site_configuration.parse(file)
    except (ImportError, OSError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    tables = document.get(TABLE)
    if set(document) != {TABLE} or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"{file}: the file must consist of [[{TABLE}]] tables, with the keys name and cells")
    try:
        return tuple(map(declared_tenant, tables))
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
