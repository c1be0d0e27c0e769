"""The tenants of a replay: what each owns, its account of Slurm, and the nodes that a static partition gives it. Pure.

A tenant is a virtual cluster of a file of `[[virtual_cluster]]` tables, as `tiresias simulate` reads it. A job belongs to the one
that the trace's column `vc` names. Slurm has an account for each, with both users of the cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.sandbox.replay.replay_policies import GROUP_LIMITS, is_private
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.private_clusters import partition
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.tenant_file import read_tenants
from tiresias.simulator.trace import TraceJob

ACCOUNT = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True)
class ReplayTenants:
    """The tenants.

    Attributes:
        declared: What each owns.
        cluster: Of the replay.
        nodes: By name of the tenant, the numbers of its nodes in a static partition, from 0.
    """

    declared: tuple[DeclaredTenant, ...]
    cluster: ClusterSize
    nodes: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, declared: Sequence[DeclaredTenant], cluster: ClusterSize) -> ReplayTenants:
        """Return the tenants of a cluster.

        Raises:
            UsageError: Their cells do not fit into it, or a name is no name of an account.
        """
        _check_accounts([tenant.name for tenant in declared])
        rows = partition(Occupancy(cluster).nodes(), declared)
        return cls(tuple(declared), cluster, {tenant.name: tuple(rows[tenant.name].tolist()) for tenant in declared})

    @classmethod
    def read(cls, file: Path, cluster: ClusterSize) -> ReplayTenants:
        """Return the tenants of a file. Pinned cells name nodes of another cluster, and are ordinary ones here.

        Raises:
            UsageError: The file cannot be read, or as `of`.
        """
        declared = [tenant.unpinned() for tenant in read_tenants(file)]
        try:
            return cls.of(declared, cluster)
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None

    def gpus(self, tenant: str) -> int:
        """Return the GPUs that a tenant owns."""
        return len(self.nodes[tenant]) * self.cluster.gpus_per_node

    @property
    def accounts(self) -> dict[str, str]:
        """The account of each tenant."""
        return {tenant.name: account(tenant.name) for tenant in self.declared}

    def check(self, policies: Sequence[str], jobs: Sequence[TraceJob]) -> None:
        """Check the jobs of a replay.

        Raises:
            UsageError: A job belongs to none of the tenants, or is larger than what its tenant can ever use.
        """
        bounded = next((name for name in policies if name == GROUP_LIMITS or is_private(name)), "")
        for job in jobs:
            if job.vc not in self.nodes:
                raise UsageError(
                    f"job {job.job_id}: its vc {job.vc!r} is none of the virtual clusters that are declared"
                )
            if bounded and job.num_gpus > self.gpus(job.vc):
                raise UsageError(
                    f"job {job.job_id} requests {job.num_gpus} GPUs and its virtual cluster {job.vc} owns {self.gpus(job.vc)}: "
                    f"it can never start under {bounded}"
                )

    def simulated(self, rule: str) -> SimulatedTenants:
        """Return the tenants of a simulation under a rule."""
        return SimulatedTenants(rule, self.declared)

    def tables(self) -> str:
        """Return the tables of the controller's configuration."""
        return "".join(map(_table, self.declared))


def account(tenant: str) -> str:
    """Return the name of a tenant's account; Slurm's names are in lower case."""
    return tenant.lower()


def _check_accounts(tenants: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for tenant in tenants:
        name = account(tenant)
        if not ACCOUNT.fullmatch(name):
            raise UsageError(
                f"virtual cluster {tenant!r:.60}: its name becomes an account of Slurm; use at most 40 letters, digits, '_' and '-'"
            )
        if other := seen.get(name):
            raise UsageError(f"virtual clusters {other} and {tenant} would be one account of Slurm, {name}; rename one")
        seen[name] = tenant


def _table(tenant: DeclaredTenant) -> str:
    cells = ", ".join(
        f"{{ level = {json.dumps(each.level)}, count = {each.count}, gpu_type = {json.dumps(each.gpu_type)} }}"
        for each in tenant.cells
    )
    return f"""
[[virtual_cluster]]
name = {json.dumps(tenant.name)}
cells = [{cells}]
opportunistic = {json.dumps(tenant.opportunistic)}
accounts = [{json.dumps(account(tenant.name))}]
"""
