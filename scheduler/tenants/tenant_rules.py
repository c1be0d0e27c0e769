"""The rule that a configuration names, and which jobs belong to which tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

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


def tenants_of(jobs: Jobs, tenants: Sequence[TenantPolicy]) -> JobTenants:
    """Return the tenant of each job, as `tenants_by_name`."""
    return tenants_by_name(jobs, tuple(tenant.name for tenant in tenants))


def tenants_by_name(jobs: Jobs, names: tuple[str, ...]) -> JobTenants:
    """Return the tenant of each job. A job of an unknown virtual cluster belongs to `OUTSIDE`, which is one of the names."""
    place = {name: at for at, name in enumerate(names)}
    named = jobs.virtual_cluster or (OUTSIDE,) * len(jobs)
    of = np.fromiter(map(place.get, named, repeat(place[OUTSIDE])), np.int64, len(jobs))
    return JobTenants(names, of)


@dataclass(frozen=True, eq=False)
class JobTenants:
    """The tenants of jobs.

    Attributes:
        names: The tenants.
        of: Index of each job's tenant, shape (jobs,).
    """

    names: tuple[str, ...]
    of: Ints

    def name(self, row: int) -> str:
        """Return the name of a job's tenant."""
        return self.names[int(self.of[row])]

    @cached_property
    def rows(self) -> Mapping[str, Ints]:
        """The rows of the jobs of each tenant, rising."""
        return {name: self.order[rows] for name, rows in self.ranges.items()}

    @cached_property
    def order(self) -> Ints:
        """The rows of all jobs, tenant by tenant."""
        return np.argsort(self.of, kind="stable")

    @cached_property
    def ranges(self) -> Mapping[str, slice]:
        """Where the jobs of each tenant are in `order`."""
        ends = np.cumsum(np.bincount(self.of, minlength=len(self.names))).tolist()
        return {name: slice(first, end) for name, first, end in zip(self.names, (0, *ends), ends, strict=False)}

    @cached_property
    def position(self) -> Ints:
        """The position of each job among those of its tenant, shape (jobs,)."""
        found = np.empty(len(self.of), np.int64)
        for rows in self.ranges.values():
            found[self.order[rows]] = np.arange(rows.stop - rows.start)
        return found

    @property
    def owners(self) -> tuple[str, ...]:
        """The virtual clusters."""
        return tuple(name for name in self.names if name != OUTSIDE)

    @cached_property
    def of_owner(self) -> Ints:
        """Index of each job's virtual cluster in `owners`, shape (jobs,); -1: it belongs to none."""
        place = {name: at for at, name in enumerate(self.owners)}
        return np.array([place.get(name, -1) for name in self.names], np.int64)[self.of]


def may_be_opportunistic(jobs: Jobs, of_jobs: JobTenants, declared: Sequence[DeclaredTenant]) -> Bools:
    """Return which jobs may use GPUs that their tenant does not own, shape (jobs,)."""
    allowed = {tenant.name: tenant.opportunistic for tenant in declared}
    by_tenant: Bools = np.array([allowed.get(name, True) for name in of_jobs.names], np.bool_)[of_jobs.of]
    return by_tenant if jobs.opportunistic is None else by_tenant & jobs.opportunistic
