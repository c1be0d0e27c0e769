"""Indices over the jobs of a snapshot that are kept for the next one, as long as it has the same jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tiresias.scheduler.model import Jobs
from tiresias.scheduler.tenants.tenant_rules import JobTenants, tenants_by_name


class KeptRows:
    """The row of each job, and the tenant of each job, for one snapshot after the other."""

    def __init__(self) -> None:
        self._ids: Sequence[str] = ()
        self._row_of: Mapping[str, int] = {}
        self._clusters: Sequence[str] | None = ()
        self._tenants = JobTenants((), np.empty(0, np.int64))

    def row_of(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return the row of each job by its id."""
        if ids != self._ids:
            self._ids, self._row_of = ids, dict(zip(ids, range(len(ids)), strict=True))
        return self._row_of

    def tenants(self, jobs: Jobs, names: tuple[str, ...]) -> JobTenants:
        """Return the tenant of each job, as `tenants_by_name`."""
        before = self._tenants
        if names != before.names or len(jobs) != len(before.of) or jobs.virtual_cluster != self._clusters:
            self._clusters, self._tenants = jobs.virtual_cluster, tenants_by_name(jobs, names)
        return self._tenants
