"""The tables [[virtual_cluster]]: what each virtual cluster (VC) owns, and which jobs belong to it.

    [[virtual_cluster]]
    name = "vision"
    cells = [{ level = "leaf", count = 1 }, { level = "node", count = 2, gpu_type = "h100" }]
    # a cell may name its hardware: { level = "node", nodes = "gpu07" }
    accounts = ["vision"]      # and qos, partitions: a job belongs to the VC if each given list has the job's
    opportunistic = true       # its jobs may use idle GPUs beyond its cells
    policy = "las"             # the order of its jobs; default: policy.name

A job belongs to the first table, in their order, to which it can belong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tiresias.errors import UsageError
from tiresias.scheduler.stages import POLICIES, TENANT_RULES
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_members import MEMBER_KEYS, TenantMembers, check_members, tenant_members
from tiresias.scheduler.tenants.tenant_tables import POLICY, declared_tenant, policy_name
from tiresias.slurm_plugin.config.values import RawValue

if TYPE_CHECKING:
    from tiresias.scheduler.config import PolicyConfig

VIRTUAL_CLUSTERS = "virtual_cluster"  # the key of the tables


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualClusterConfig(TenantMembers):
    """The jobs of one virtual cluster, with what it owns and their order.

    Attributes:
        tenant: Its name and what it owns.
        policy: The order of its jobs.
    """

    tenant: DeclaredTenant
    policy: PolicyConfig

    def __str__(self) -> str:
        lists = ((key, getattr(self, key)) for key in MEMBER_KEYS)
        members = "; ".join(f"{key} {' '.join(names)}" for key, names in lists if names)
        kind = "" if self.tenant.opportunistic else ", not opportunistic"
        return f"{self.tenant.name} ({' + '.join(map(str, self.tenant.cells))}; {members}; {self.policy.name}{kind})"


def virtual_clusters(raw: RawValue | None, policy: PolicyConfig) -> tuple[VirtualClusterConfig, ...]:
    """Return the checked tables.

    Args:
        raw: As the file has them; None: there are none.
        policy: [policy], whose other keys hold in each VC.

    Raises:
        UsageError: A table is not possible, two of them claim the same jobs, or policy.admission has no use for them.
    """
    source = f"{raw.source}: " if raw else ""
    tables = raw.value if raw else []
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(
            f"{source}{VIRTUAL_CLUSTERS} must be tables: write [[{VIRTUAL_CLUSTERS}]] and their keys below"
        )
    try:
        found = tuple(_virtual_cluster(table, policy) for table in tables)
        _check_rule(policy.admission, found)
        _check_names([each.tenant.name for each in found])
        check_members({each.tenant.name: each for each in found})
    except UsageError as error:
        raise UsageError(f"{source}{error}") from None
    return found


def _virtual_cluster(table: Mapping[str, Any], policy: PolicyConfig) -> VirtualClusterConfig:
    tenant = declared_tenant(table, (*MEMBER_KEYS, POLICY))
    members = tenant_members(tenant.name, table)
    if not members:
        keys = ", ".join(MEMBER_KEYS)
        raise UsageError(f"virtual cluster {tenant.name}: no job can belong to it; give {keys} or some of them")
    own = replace(policy, name=policy_name(tenant.name, table, policy.name, POLICIES))
    return VirtualClusterConfig(tenant=tenant, policy=own, **asdict(members))


def _check_rule(admission: str, found: Sequence[VirtualClusterConfig]) -> None:
    rules = ", ".join(TENANT_RULES)
    if found and admission not in TENANT_RULES:
        raise UsageError(
            f"policy.admission = {admission!r} has no virtual clusters, and they are declared; allowed: {rules}"
        )
    if not found and admission in TENANT_RULES:
        raise UsageError(
            f"policy.admission = {admission!r}: no virtual clusters are declared; give [[{VIRTUAL_CLUSTERS}]] tables"
        )


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"virtual cluster {name}: it is declared twice")
