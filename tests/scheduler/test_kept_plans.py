"""Plans that are kept from one decision to the next are those that `decide` would make."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_jobs, any_nodes, build, many, policies, styled_jobs
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.kept_plans import KeptPlans
from tiresias.scheduler.model import Jobs, JobState, Plan, Snapshot
from tiresias.scheduler.rank.policies import POLICIES

COLUMNS = tuple(each.name for each in fields(Jobs))
FIFO = PolicyConfig("fifo", min_run=0.0, min_run_cost_factor=0.0)
changes = st.lists(
    st.tuples(st.sampled_from([0.0, 60.0, 1000.0]), st.sampled_from(COLUMNS), st.integers(0, 13)),
    min_size=1,
    max_size=5,
)


def decided(kept: KeptPlans, snapshot: Snapshot, config: PolicyConfig) -> Plan:
    policy = POLICIES[config.name]
    return kept.decide(0, snapshot, config, policy, policy.rank(snapshot, config))


def shown(plan: Plan) -> list[Any]:
    columns = [plan.effect.tolist(), plan.queue.tolist(), plan.rank.tolist()]
    return [*columns, plan.actions, plan.reserved, plan.promoted, plan.why]


def later(snapshot: Snapshot, seconds: float, column: str, row: int) -> Snapshot:
    """The snapshot after a while, with another value in a column of one job."""
    values, found = getattr(snapshot.jobs, column), replace(snapshot, time=snapshot.time + seconds)
    if not isinstance(values, np.ndarray) or row >= len(values):
        return found
    values = values.copy()
    values[row] = not values[row] if values.dtype == np.bool_ else np.nan_to_num(values[row]) + 1
    if column == "state":
        values[row] %= len(JobState)
    return replace(found, jobs=replace(found.jobs, **{column: values}))


@many
@given(st.one_of(any_jobs, styled_jobs), any_nodes, policies, changes)
def test_a_kept_plan_is_that_of_decide(
    snapshot_of: Any, jobs: Any, nodes: Any, config: PolicyConfig, changed: list[tuple[float, str, int]]
) -> None:
    snapshot, kept = build(snapshot_of, jobs, nodes), KeptPlans()
    decided(kept, snapshot, config)
    for change in changed:
        snapshot = later(snapshot, *change)
        assert shown(decided(kept, snapshot, config)) == shown(decided(KeptPlans(), snapshot, config))


def test_a_plan_is_kept_until_a_job_or_a_node_changes(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job("a", 4, JobState.RUNNING, placement=((0, 4),)), snapshot_of.Job("b", 2)]
    snapshot, kept = snapshot_of(jobs, [snapshot_of.Node(gpus=4), snapshot_of.Node(gpus=4)]), KeptPlans()
    first = decided(kept, snapshot, FIFO)
    assert [start.job for start in first.starts] == ["b"]
    runs_on = later(later(snapshot, 60.0, "attained", 0), 0.0, "ran", 0)
    assert decided(kept, runs_on, FIFO) is first
    full = replace(runs_on, nodes=replace(runs_on.nodes, usable=np.array([True, False])))
    assert not decided(kept, full, FIFO).starts
    assert decided(kept, later(runs_on, 0.0, "eligible", 1), FIFO) is not first


def test_nothing_is_kept_where_jobs_are_preempted_to_defragment(snapshot_of: Any) -> None:
    """The choice depends on what each preemption costs."""
    snapshot, config, kept = (
        snapshot_of([snapshot_of.Job("a", 2)], [snapshot_of.Node()]),
        replace(FIFO, defragment=2),
        KeptPlans(),
    )
    assert decided(kept, snapshot, config) is not decided(kept, snapshot, config)
