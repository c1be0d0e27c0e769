"""The rule that a configuration names, and which jobs belong to which tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler import stages
from tiresias.scheduler.model import Bools, Ints, Jobs
from tiresias.scheduler.registry import Registry
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, TenantRule

TENANT_RULES: Registry[Callable[[Sequence[DeclaredTenant]], TenantRule]] = stages.TENANT_RULES


def tenant_rule(admission: str, declared: Sequence[DeclaredTenant]) -> TenantRule | None:
    """Return the rule of this name for the declared virtual clusters; None: the name is no rule of tenants, and there are none.

    Raises:
        UsageError: A rule of tenants without virtual clusters, or virtual clusters without such a rule.
    """
    if admission in TENANT_RULES:
        if not declared:
            raise UsageError(
                f"admission {admission}: no virtual clusters are declared; give [[virtual_cluster]] tables"
            )
        return TENANT_RULES[admission](declared)
    if declared:
        rules = ", ".join(TENANT_RULES)
        raise UsageError(f"admission {admission} has no virtual clusters, and they are declared; allowed: {rules}")
    return None


def rows_by_tenant(jobs: Jobs, tenants: Sequence[TenantPolicy]) -> Mapping[str, Ints]:
    """Return the rows of the jobs of each tenant, rising. A job of an unknown virtual cluster belongs to `OUTSIDE`."""
    place = {tenant.name: at for at, tenant in enumerate(tenants)}
    names = jobs.virtual_cluster or (OUTSIDE,) * len(jobs)
    of = np.fromiter((place.get(name, place[OUTSIDE]) for name in names), np.int64, len(jobs))
    return {tenant.name: np.flatnonzero(of == at) for at, tenant in enumerate(tenants)}


def tenant_of_jobs(count: int, rows_of: Mapping[str, Ints]) -> tuple[str, ...]:
    """Return the tenant of each of so many jobs. `rows_of`: as `rows_by_tenant` returns it."""
    names = [OUTSIDE] * count
    for name, rows in rows_of.items():
        for row in rows.tolist():
            names[row] = name
    return tuple(names)


def belongs_to_none(tenant_of: Sequence[str]) -> Bools:
    """Return which jobs belong to no virtual cluster, shape (jobs,)."""
    return np.array([name == OUTSIDE for name in tenant_of], np.bool_)


def may_be_opportunistic(jobs: Jobs, tenant_of: Sequence[str], declared: Sequence[DeclaredTenant]) -> Bools:
    """Return which jobs may use GPUs that their tenant does not own, shape (jobs,)."""
    allowed = {tenant.name: tenant.opportunistic for tenant in declared}
    by_tenant = np.array([allowed.get(name, True) for name in tenant_of], np.bool_)
    return by_tenant if jobs.opportunistic is None else by_tenant & jobs.opportunistic
