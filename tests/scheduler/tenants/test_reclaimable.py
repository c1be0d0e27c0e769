"""What a policy may not preempt can be preempted for the owner of cells, and a confined job stays within its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.scheduler.tenants.shared_cluster import CONFIG, DECLARED, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.model import Effect, JobState, Snapshot
from tiresias.scheduler.reason_codes import ReasonCode
from tiresias.scheduler.reasons import reason
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))
Rule = Callable[[Sequence[DeclaredTenant]], TenantRule]
RULES = (VirtualClusterRule, GpuQuotas)


def full(make: Any, reclaimable: Sequence[bool] | None, movable: Sequence[bool] = (False,) * 6) -> Snapshot:
    """Six jobs of no virtual cluster run on a node each; `one`, which owns a node, has a job that waits."""
    jobs = [
        make.Job(str(at), GPUS, JobState.RUNNING, placement=((at, GPUS),), last_start=0.0, movable=may)
        for at, may in enumerate(movable)
    ]
    nodes = [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    found = with_clusters(make([*jobs, make.Job("owner", GPUS)], nodes), [OUTSIDE] * 6 + ["one"])
    column = None if reclaimable is None else np.array([*reclaimable, False])
    return replace(found, jobs=replace(found.jobs, reclaimable=column))


@pytest.mark.parametrize("rule", RULES)
def test_a_run_that_no_policy_may_preempt_is_preempted_for_the_owner_of_its_cells(snapshot_of: Any, rule: Rule) -> None:
    at_all = [False] * 6
    kept, _ = rule(DECLARED).decide(full(snapshot_of, at_all), tenants_of(FIFO))
    assert (kept.preemptions, kept.reserved) == ((), ())
    neutral, _ = rule(DECLARED).decide(full(snapshot_of, None), tenants_of(FIFO))
    assert neutral.preemptions == (), "without the column it is `movable`"
    plan, _ = rule(DECLARED).decide(full(snapshot_of, [at == 3 for at in range(6)]), tenants_of(FIFO))
    assert [(one.job, one.beneficiary) for one in plan.preemptions] == [("3", "owner")]


@pytest.mark.parametrize("rule", RULES)
def test_no_minimum_run_time_protects_a_run_from_the_owner_of_its_gpus(snapshot_of: Any, rule: Rule) -> None:
    """The runs have just begun."""
    begun = full(snapshot_of, None, [True] * 6)
    begun = replace(begun, jobs=replace(begun.jobs, last_start=np.full(7, begun.time - 1.0)))
    protects = {name: replace(config, min_run=600.0) for name, config in FIFO.items()}
    plan, _ = rule(DECLARED).decide(begun, tenants_of(protects))
    assert [one.beneficiary for one in plan.preemptions] == ["owner"]


def test_a_run_that_saves_is_preempted_before_one_that_loses_its_work(snapshot_of: Any) -> None:
    movable = [at == 4 for at in range(6)]
    plan, _ = VirtualClusterRule(DECLARED).decide(full(snapshot_of, [True] * 6, movable), tenants_of(FIFO))
    assert [one.job for one in plan.preemptions] == ["4"]


@pytest.mark.parametrize("rule", RULES)
def test_a_reclaimable_run_is_not_preempted_for_an_opportunistic_job(snapshot_of: Any, rule: Rule) -> None:
    """Nor, where it is guaranteed, for another job of its virtual cluster."""
    found = full(snapshot_of, [True] * 6)
    other = with_clusters(found, [OUTSIDE] * 7)
    plan, _ = rule(DECLARED).decide(other, tenants_of(FIFO))
    assert plan.preemptions == ()
    las = dict.fromkeys(FIFO, CONFIG)
    jobs = [
        snapshot_of.Job(
            "old", GPUS, JobState.RUNNING, 90.0, 90.0, placement=((2, GPUS),), last_start=0.0, movable=False
        ),
        snapshot_of.Job("new", GPUS),
    ]
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    own = with_clusters(snapshot_of(jobs, nodes), ["one", "one"])
    held = replace(own.allocations, owned_cell=("node",))
    first = np.array([True, False])
    own = replace(own, allocations=held, jobs=replace(own.jobs, reclaimable=first, opportunistic=first))
    plan, _ = rule(DECLARED).decide(own, tenants_of(las))
    assert plan.preemptions == ()
    assert plan.effect.tolist() == [Effect.KEEP, Effect.WAIT]


@pytest.mark.parametrize("rule", RULES)
def test_a_confined_job_starts_in_the_cells_of_its_virtual_cluster_only(snapshot_of: Any, rule: Rule) -> None:
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    jobs = [snapshot_of.Job(name, GPUS) for name in ("first", "second", "none")]
    found = with_clusters(snapshot_of(jobs, nodes), ["one", "one", OUTSIDE])
    found = replace(found, jobs=replace(found.jobs, opportunistic=np.zeros(3, bool)))
    plan, parts = rule(DECLARED).decide(found, tenants_of(FIFO))
    assert [start.job for start in plan.starts] == ["first"]
    assert plan.why[2].code == ReasonCode.CONFINED
    assert reason(plan, found, 2) == "waits: it belongs to no virtual cluster, and may not use the GPUs of any"
    assert sorted(row for part in parts for row in part.pool.jobs.tolist()) == [0, 1, 2], (
        "each job has a place in an order"
    )
