"""What is read from the jobs and the nodes of a snapshot one by one, kept for the next snapshot as long as it has the same ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.model import Jobs, Request
from tiresias.scheduler.tenants.node_conditions import FeatureSets
from tiresias.scheduler.tenants.tenant_rules import JobTenants, tenants_by_name


class KeptRows:
    """The tenants and the requests of the jobs, and the features of the nodes, for one snapshot after the other."""

    def __init__(self) -> None:
        self._clusters: Sequence[str] | None = ()
        self._tenants = JobTenants((), np.empty(0, np.int64))
        self._requests: Sequence[Request] = ()
        self._distinct: Sequence[Request] = ()
        self._features: Sequence[frozenset[str]] = ()
        self._sets = FeatureSets.of(())

    def tenants(self, jobs: Jobs, names: tuple[str, ...]) -> JobTenants:
        """Return the tenant of each job, as `tenants_by_name`."""
        before = self._tenants
        if names != before.names or len(jobs) != len(before.of) or jobs.virtual_cluster != self._clusters:
            self._clusters, self._tenants = jobs.virtual_cluster, tenants_by_name(jobs, names)
        return self._tenants

    def distinct(self, requests: Sequence[Request]) -> Sequence[Request]:
        """Return the different requests. Equal ones that are several objects may be there several times."""
        if requests != self._requests:
            self._requests, self._distinct = requests, tuple({id(each): each for each in requests}.values())
        return self._distinct

    def features(self, features: Sequence[frozenset[str]]) -> FeatureSets:
        """Return the features of the nodes as sets. `features`: of each node."""
        if features != self._features:
            self._features, self._sets = features, FeatureSets.of(features)
        return self._sets
