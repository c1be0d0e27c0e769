"""The tables `[[virtual_cluster]]` of a TOML file: what the virtual clusters (VCs) own, their policies and their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.protocol import site_configuration
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_members import MEMBER_KEYS, TenantMembers, check_members, tenant_members
from tiresias.scheduler.tenants.tenant_tables import POLICY, declared_tenant, policy_name
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.trace import Trace

TABLE = "virtual_cluster"


@dataclass(frozen=True, slots=True)
class TenantFile:
    """The VCs of a file.

    Attributes:
        declared: What each one owns, in the order of the file.
        policies: Name of the policy of each VC that has one of its own.
        members: Accounts, QOS and partitions of each VC.
    """

    declared: tuple[DeclaredTenant, ...]
    policies: Mapping[str, str]
    members: Mapping[str, TenantMembers]

    def unpinned(self) -> TenantFile:
        """Return the VCs with cells of the same levels on any hardware."""
        return replace(self, declared=tuple(tenant.unpinned() for tenant in self.declared))

    def shared_by(self, rule: str) -> SimulatedTenants:
        """Return the tenants under one of TENANT_RULES."""
        return SimulatedTenants(rule, self.declared, self.policies)

    def cluster_of(self, account: str, qos: str, partition: str, named: str) -> str:
        """Return the VC of a job. One that is not declared, or "": it belongs to none.

        Args:
            account: Its account.
            qos: Its QOS.
            partition: Its partition.
            named: The VC that its trace names, which counts where the table of that VC has no list.
        """
        for name, members in self.members.items():
            if members.has(account, qos, partition) if members else name == named:
                return name
        return "" if named in self.members else named

    def assigned(self, trace: Trace) -> Trace:
        """Return the trace with the VC of each job in its column `vc`."""
        rows = zip(trace.account, trace.qos, trace.vc, trace.vc, strict=True)
        return trace.with_clusters([self.cluster_of(*row) for row in rows])


def read_tenants(file: Path) -> tuple[DeclaredTenant, ...]:
    """Return what the VCs of a file own. Raises UsageError as `read_tenant_file`."""
    return read_tenant_file(file).declared


def read_tenant_file(file: Path) -> TenantFile:
    """Return the VCs of a TOML file: of its tables `[[virtual_cluster]]`, or of a controller's configuration with such tables.

    Raises:
        UsageError: The file cannot be read, or a table is not possible.
    """
    tables = _tables(file)
    try:
        return _tenant_file(tables)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _tables(file: Path) -> list[Mapping[str, Any]]:
    try:
        document = site_configuration.parse(file)
    except (ImportError, OSError) as error:
        raise UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    tables = document.get(TABLE)
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"{file}: it has no [[{TABLE}]] tables; give some, with the keys name and cells")
    return tables


def _tenant_file(tables: list[Mapping[str, Any]]) -> TenantFile:
    declared = tuple(declared_tenant(table, (*MEMBER_KEYS, POLICY)) for table in tables)
    names = [tenant.name for tenant in declared]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"virtual cluster {twice}: it is declared twice")
    members = {name: tenant_members(name, table) for name, table in zip(names, tables, strict=True)}
    check_members(members)
    policies = {name: policy_name(name, table, "", POLICIES) for name, table in zip(names, tables, strict=True)}
    return TenantFile(declared, {name: policy for name, policy in policies.items() if policy}, members)
