"""Elastic jobs of virtual clusters change their size in the free cells of their own, and beyond these on GPUs that are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.tenants.shared_cluster import (
    CONFIG,
    DECLARED,
    GPUS,
    LEAVES,
    Drawn,
    cluster_of,
    drawn_jobs,
    tenants_of,
    with_clusters,
)
from tiresias.scheduler.model import JobState, Plan, Resize, Snapshot
from tiresias.scheduler.size.elastic_jobs import is_size
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

SIZING = replace(CONFIG, name="fifo", sizing="minimum_first", preemption_cost=60.0)
ELASTIC, FIXED = (4, 16, 4), (4, 4, 0)  # fewest, most, step
OWNED = {"one": 4, "two": 12}  # GPUs
Row = tuple[str, tuple[int, ...], str, tuple[int, int, int]]  # VC, nodes (none: it waits), levels of its cells, sizes


def decided(make: Any, *drawn: Row) -> Plan:
    """Return the plan; "one" owns a node, "two" a rack and a node, and two nodes belong to none."""
    rows = [_job(make, str(at), nodes) for at, (_, nodes, _, _) in enumerate(drawn)]
    found = with_clusters(make(rows, [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]), [each[0] for each in drawn])
    least, most, step = np.array([each[3] for each in drawn], np.int64).T
    cells = tuple(cell for _, nodes, levels, _ in drawn for cell in levels.split() or ("",) * len(nodes))
    jobs = replace(found.jobs, min_gpus=least, max_gpus=most, gpu_step=step)
    snapshot = replace(found, jobs=jobs, allocations=replace(found.allocations, owned_cell=cells))
    configs = dict.fromkeys(("one", "two", OUTSIDE), SIZING)
    return VirtualClusterRule(DECLARED).decide(snapshot, tenants_of(configs))[0]


def _job(make: Any, name: str, nodes: tuple[int, ...]) -> Any:
    """Return a job of whole nodes, but for the opportunistic one on nodes 4 and 5."""
    if not nodes:
        return make.Job(name, GPUS, submit=float(name))
    times = {"first_start": 1.0, "last_start": 1.0, "ran": 600.0, "submit": float(name)}
    each = GPUS // 2 if nodes == (4, 5) else GPUS
    placement = tuple((node, each) for node in nodes)
    return make.Job(name, each * len(nodes), JobState.RUNNING, movable=True, placement=placement, **times)


def sizes(plan: Plan) -> list[tuple[str, int]]:
    return [(one.job, one.gpus) for one in plan.resizes]


def test_a_job_in_cells_grows_into_the_free_cells_of_its_virtual_cluster(snapshot_of: Any) -> None:
    """Its virtual cluster owns three nodes of four GPUs; two more nodes are idle and belong to none."""
    plan = decided(snapshot_of, ("two", (0,), "leaf", ELASTIC))
    assert sizes(plan) == [("0", 12)]
    assert plan.preemptions == ()


def test_a_job_in_the_only_cell_of_its_virtual_cluster_keeps_its_size(snapshot_of: Any) -> None:
    assert sizes(decided(snapshot_of, ("one", (2,), "node", ELASTIC))) == []


def test_a_job_of_no_virtual_cluster_grows_into_what_is_left(snapshot_of: Any) -> None:
    """Five nodes are free, of which four are owned and not used."""
    assert sizes(decided(snapshot_of, ("nobody", (4,), "", ELASTIC))) == [("0", 16)]


def test_a_job_shrinks_for_one_of_its_virtual_cluster_that_waits(snapshot_of: Any) -> None:
    """It holds all three nodes, and jobs of no virtual cluster all others."""
    others: list[Row] = [("nobody", (node,), "", FIXED) for node in (2, 4, 5)]
    plan = decided(snapshot_of, ("two", (0, 1, 3), "leaf leaf node", ELASTIC), ("two", (), "", FIXED), *others)
    assert sizes(plan) == [("0", 8)]
    assert plan.starts == ()
    assert plan.preemptions == ()


def test_a_job_keeps_its_size_where_the_other_one_starts_without_cells(snapshot_of: Any) -> None:
    """The same with three idle nodes."""
    plan = decided(snapshot_of, ("two", (0, 1, 3), "leaf leaf node", ELASTIC), ("two", (), "", FIXED))
    assert [start.job for start in plan.starts] == ["1"]
    assert sizes(plan) == []


def test_a_job_that_is_given_cells_keeps_its_size(snapshot_of: Any) -> None:
    """It runs opportunistically where the only cell of its virtual cluster can be bound; five nodes are free."""
    plan = decided(snapshot_of, ("one", (4,), "", ELASTIC))
    assert [(one.job, one.owned_cells) for one in plan.rebindings] == [("0", ("node",))]
    assert sizes(plan) == []


def test_a_job_for_which_cells_are_kept_free_keeps_its_size(snapshot_of: Any) -> None:
    """It has two GPUs on each of two nodes, and its virtual cluster owns one."""
    plan = decided(snapshot_of, ("one", (4, 5), "", ELASTIC))
    assert plan.rebindings == ()
    assert sizes(plan) == []


@given(drawn=drawn_jobs, spread=st.integers(0, 3))
def test_only_running_jobs_that_keep_their_gpus_change_their_size(
    snapshot_of: Any, drawn: list[Drawn], spread: int
) -> None:
    """To a stated size, and in cells to no more than the virtual cluster owns. The second decision sees cells of the first one."""
    found = cluster_of(snapshot_of, drawn)
    gpus = found.jobs.gpus
    sizes: dict[str, Any] = {
        "min_gpus": np.maximum(gpus - spread, 1),
        "max_gpus": gpus + 2 * spread,
        "gpu_step": np.full(len(gpus), min(spread, 1)),
        "ran": np.full(len(gpus), 600.0),
    }
    found = replace(found, jobs=replace(found.jobs, **sizes))
    rule, tenants = VirtualClusterRule(DECLARED), tenants_of(dict.fromkeys(("one", "two", OUTSIDE), SIZING))
    for _ in range(2):
        plan = rule.decide(found, tenants)[0]
        _checked(found, plan)
        found = _rebound(found, plan)


def test_jobs_with_predicted_times_are_compared_with_those_of_the_decision_before(snapshot_of: Any) -> None:
    """The times by size are arrays, made anew for each snapshot. A job that may end sooner with more GPUs gets them."""
    found = cluster_of(
        snapshot_of,
        [Drawn("one", 4, JobState.RUNNING, 20.0, 2, False), Drawn("two", 4, JobState.RUNNING, 20.0, 0, False)],
    )
    sizes: dict[str, Any] = {"min_gpus": np.array([4, 4]), "max_gpus": np.array([4, 12]), "gpu_step": np.array([0, 4])}
    rule, tenants = VirtualClusterRule(DECLARED), tenants_of(dict.fromkeys(("one", "two", OUTSIDE), SIZING))
    plans = list[Plan]()
    for seconds in (9000.0, 9000.0, 100.0):
        times = (None, seconds / np.maximum(np.arange(13), 1)[None])
        jobs = replace(found.jobs, **sizes, movable=np.ones(2, np.bool_), ran=np.full(2, 600.0), seconds_by_size=times)
        found = replace(found, jobs=jobs)
        plans.append(rule.decide(found, tenants)[0])
        found = _rebound(found, plans[-1])
    assert [[(one.job, one.gpus) for one in plan.resizes] for plan in plans] == [[], [("1", 12)], []]


def _checked(found: Snapshot, plan: Plan) -> None:
    of = found.jobs.virtual_cluster or ()
    row = {name: at for at, name in enumerate(found.jobs.id)}
    others = [action.job for action in plan.actions if not isinstance(action, Resize)]
    in_cells = {job for job, cell in _cells(found) if cell}
    assert not {one.job for one in plan.resizes} & set(others)
    for one in plan.resizes:
        at = row[one.job]
        assert found.jobs.state[at] == JobState.RUNNING
        assert one.gpus != found.jobs.gpus[at]
        assert is_size(found.jobs, at, one.gpus)
        assert one.job not in in_cells or one.gpus <= OWNED[of[at]]


def _cells(found: Snapshot) -> list[tuple[str, str]]:
    rows = found.allocations.job.tolist()
    return [
        (found.jobs.id[at], cell)
        for at, cell in zip(rows, found.allocations.owned_cell or ("",) * len(rows), strict=True)
    ]


def _rebound(found: Snapshot, plan: Plan) -> Snapshot:
    """Return the snapshot with the cells that running jobs were given."""
    given = {one.job: one.owned_cells[0] if one.owned_cells else "" for one in plan.rebindings}
    cells = tuple(given.get(job, cell) for job, cell in _cells(found))
    return replace(found, allocations=replace(found.allocations, owned_cell=cells))
