"""A policy for each tenant of a simulated cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.job_columns import JobColumns
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.tenant_policies import TenantPolicies
from tiresias.simulator.trace import Trace, TraceJob

CONFIG = replace(PolicyConfig.paper(), thresholds=(40.0,))
NODE = (DeclaredCells("node", 1),)
TWO = (DeclaredTenant("a", NODE, opportunistic=False), DeclaredTenant("b", NODE, opportunistic=False))
JOBS = [(0.0, 4, 100.0), (1.0, 4, 5.0)]  # a long job, then a short one, each of a whole node


def finish(trace: Trace, rule: str, default: str, **own: str) -> dict[str, float]:
    rules = Rules(POLICIES[default], CONFIG, tenants=SimulatedTenants(rule, TWO, own))
    done = simulate(trace, ClusterSize(2, 4), rules)
    return dict(zip(trace.job_id, done.finish.tolist(), strict=True))


def of_both() -> Trace:
    return Trace.of(TraceJob(f"{vc}{row}", *job, vc=vc) for vc in "ab" for row, job in enumerate(JOBS))


@pytest.mark.parametrize("rule", TENANT_RULES)
def test_each_tenant_has_its_own_order(rule: str) -> None:
    """fifo leaves the long job of b alone; las preempts that of a at its threshold of 40 GPU-seconds, after 10 s."""
    found = finish(of_both(), rule, "las", b="fifo")
    assert found == {"a0": 105.0, "a1": 15.0, "b0": 100.0, "b1": 105.0}


@pytest.mark.parametrize("own", ["las", "adaptive", "time_sharing", "gittins"])
def test_an_own_policy_does_what_it_does_as_the_policy_of_all(own: str) -> None:
    """Its changes, turns and what it learns come at the same moments."""
    random = np.random.default_rng(3)
    numbers = random.integers([0, 1, 1], [400, 5, 90], size=(60, 3)).tolist()
    trace = Trace.of(
        TraceJob(str(row), submit, gpus, duration, vc="ab"[row % 2])
        for row, (submit, gpus, duration) in enumerate(numbers)
    )
    mine, alone = finish(trace, "private_clusters", "fifo", a=own), finish(trace, "private_clusters", own)
    of_a = [job for job, vc in zip(trace.job_id, trace.vc, strict=True) if vc == "a"]
    assert [mine[job] for job in of_a] == [alone[job] for job in of_a]


def test_only_policies_that_are_due_learn() -> None:
    both = TenantPolicies(POLICIES["las"], {"a": POLICIES["adaptive"]}, ())
    assert both.refit_at == POLICIES["adaptive"].refit_at
    assert not both.of("").refit_at < float("inf")
    learned = both.fitted(NO_JOBS_COMPLETED, JobColumns())
    assert isinstance(learned, TenantPolicies)
    assert learned.of("b") is POLICIES["las"]
