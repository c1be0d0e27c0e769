"""The tables [[virtual_cluster]]: what each virtual cluster (VC) owns, and which jobs belong to it.

    [[virtual_cluster]]
    name = "vision"
    cells = [{ level = "leaf", count = 1 }, { level = "node", count = 2, gpu_type = "h100" }]
    accounts = ["vision"]      # and qos, partitions: a job belongs to the VC if each given list has the job's
    opportunistic = true       # its jobs may use idle GPUs beyond its cells
    policy = "las"             # the order of its jobs; default: policy.name

A job belongs to the first table, in their order, to which it can belong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from tiresias.errors import UsageError
from tiresias.scheduler.stages import TENANT_RULES
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_tables import declared_tenant
from tiresias.slurm_plugin.config.fields import are_names
from tiresias.slurm_plugin.config.values import RawValue, quoted_value

if TYPE_CHECKING:
    from tiresias.scheduler.config import PolicyConfig

VIRTUAL_CLUSTERS = "virtual_cluster"  # the key of the tables
MEMBERS = ("accounts", "qos", "partitions")


@dataclass(frozen=True, slots=True)
class VirtualClusterConfig:
    """One virtual cluster.

    Attributes:
        tenant: Its name and what it owns.
        policy: The order of its jobs.
        accounts, qos, partitions: The jobs that belong to it; (): any.
    """

    tenant: DeclaredTenant
    policy: PolicyConfig
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = (
            f"{each.count} {each.level}{f' of {each.gpu_type}' * bool(each.gpu_type)}" for each in self.tenant.cells
        )
        members = (f"{key} {' '.join(getattr(self, key))}" for key in MEMBERS if getattr(self, key))
        kind = "" if self.tenant.opportunistic else ", not opportunistic"
        return f"{self.tenant.name} ({' + '.join(cells)}; {'; '.join(members)}; {self.policy.name}{kind})"

    def has(self, account: str, qos: str, partition: str) -> bool:
        """Return whether a job can belong to it. `partition`: of a job with several, all of them, separated by commas."""
        return (
            (not self.accounts or account in self.accounts)
            and (not self.qos or qos in self.qos)
            and (not self.partitions or set(self.partitions).issuperset(partition.split(",")))
        )


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
        for one, other in combinations(found, 2):
            _check_pair(one, other)
    except UsageError as error:
        raise UsageError(f"{source}{error}") from None
    return found


def _virtual_cluster(table: Mapping[str, Any], policy: PolicyConfig) -> VirtualClusterConfig:
    tenant = declared_tenant(table, (*MEMBERS, "policy"))
    lists = {key: _names(tenant.name, key, table[key]) for key in MEMBERS if key in table}
    if not lists:
        raise UsageError(
            f"virtual cluster {tenant.name}: no job can belong to it; give {', '.join(MEMBERS)} or some of them"
        )
    return VirtualClusterConfig(tenant, _policy(tenant.name, table.get("policy", policy.name), policy), **lists)


def _names(cluster: str, key: str, value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else []
    if not names or not all(isinstance(each, str) for each in names) or not are_names(tuple(names)):
        raise UsageError(
            f"virtual cluster {cluster}: {key} = {quoted_value(value)} is not possible; give a list of names"
        )
    return tuple(names)


def _policy(cluster: str, name: Any, policy: PolicyConfig) -> PolicyConfig:
    try:
        return replace(policy, name=name)
    except UsageError as error:
        raise UsageError(f"virtual cluster {cluster}: policy: {error}") from None


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


def _check_pair(one: VirtualClusterConfig, other: VirtualClusterConfig) -> None:
    """Refuse two VCs that claim one account, QOS or partition, unless another list of both keeps their jobs apart."""
    names = f"virtual clusters {one.tenant.name} and {other.tenant.name}"
    if one.tenant.name == other.tenant.name:
        raise UsageError(f"virtual cluster {one.tenant.name}: it is declared twice")
    shared = {key: set(getattr(one, key)) & set(getattr(other, key)) for key in MEMBERS}
    apart = any(getattr(one, key) and getattr(other, key) and not shared[key] for key in MEMBERS)
    for key, both in shared.items():
        if both and not apart:
            raise UsageError(
                f"{names} both claim {key} {min(both)}; give it to one of them, or keep them apart by another list"
            )
