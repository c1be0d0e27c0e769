"""What `tiresias explain` prints of jobs of virtual clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.scheduler.tenants.shared_cluster import CONFIG, GPUS, LEAVES, tenants_of, with_clusters, with_sockets
from tiresias.scheduler.cell_words import cells_in_words, jobs_in_words
from tiresias.scheduler.model import JobState, Request
from tiresias.scheduler.reasons import in_words
from tiresias.scheduler.tenants.cell_reasons import CellReasons
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

DECLARED = (DeclaredTenant("prod-a", (DeclaredCells("node", 3),)), DeclaredTenant("dev", (DeclaredCells("leaf", 1),)))
FIFO = tenants_of(dict.fromkeys(("prod-a", "dev", OUTSIDE), replace(CONFIG, name="fifo")))
Row = tuple[str, str, int, int | None, str]  # id, virtual cluster, GPUs, first node (None: it waits), type of the cell


def explained(make: Any, rows: Sequence[Row], preempting: Sequence[str] = ()) -> dict[str, str]:
    """Return the text of each job for which there is one in terms of cells."""
    jobs = [
        make.Job(name, gpus, JobState.WAITING if node is None else _state(name, preempting), submit=float(at),
                 placement=None if node is None else _held(node, gpus))
        for at, (name, _, gpus, node, _) in enumerate(rows)
    ]  # fmt: skip
    snapshot = with_clusters(make(jobs, [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]), [row[1] for row in rows])
    cells = tuple(cell for _, _, gpus, node, cell in rows if node is not None for _ in _held(node, gpus))
    snapshot = replace(snapshot, allocations=replace(snapshot.allocations, owned_cell=cells))
    rule = VirtualClusterRule(DECLARED)
    plan, _ = rule.decide(snapshot, FIFO)
    report = rule.report(trees=False)
    assert report is not None
    found = CellReasons(plan, snapshot, report, preempting)
    reasons = {job: found.of(row) for row, job in enumerate(snapshot.jobs.id)}
    return {job: in_words(reason) for job, reason in reasons.items() if reason is not None}


def _state(name: str, preempting: Sequence[str]) -> JobState:
    return JobState.RELEASING if name in preempting else JobState.RUNNING


def _held(node: int, gpus: int) -> tuple[tuple[int, int], ...]:
    return tuple((node + at, min(GPUS, gpus - at * GPUS)) for at in range(-(-gpus // GPUS)))


OTHERS: list[Row] = [("811", "prod-a", 4, 0, "node"), *((f"9{node}", OUTSIDE, 4, node, "") for node in range(2, 6))]


def test_a_job_names_the_opportunistic_job_that_is_preempted_for_it(snapshot_of: Any) -> None:
    found = explained(snapshot_of, [*OTHERS, ("812", "dev", 4, 1, ""), ("913", "prod-a", 4, None, "")])
    (victim,) = [job for job, text in found.items() if "is being preempted:" in text]
    assert found["913"].startswith(
        f"waits: virtual cluster prod-a owns 2 more nodes; job {victim} runs on one of them (n"
    )
    assert found["913"].endswith(") opportunistically and is being preempted")
    assert found[victim] == (
        "runs opportunistically and is being preempted: job 913 of virtual cluster prod-a needs these GPUs for cells that the "
        "virtual cluster owns"
    )
    assert (
        found["811"] == "runs in a node of virtual cluster prod-a: only jobs of this virtual cluster can take its place"
    )


def test_a_preemption_that_has_begun_is_still_the_reason(snapshot_of: Any) -> None:
    rows = [*OTHERS, ("812", "dev", 4, 1, ""), ("913", "prod-a", 4, None, "")]
    found = explained(snapshot_of, rows, preempting=["812"])
    assert found["913"] == (
        "waits: virtual cluster prod-a owns 2 more nodes; job 812 runs on one of them (n1) opportunistically and is being preempted"
    )


def test_a_job_names_the_missing_level_and_who_holds_the_cells(snapshot_of: Any) -> None:
    rows: list[Row] = [(str(node), "prod-a", 4, node, "node") for node in range(3)]
    rows += [("dev", "dev", 8, 4, "leaf"), ("x", OUTSIDE, 4, 3, "")]
    found = explained(
        snapshot_of, [*rows, ("7", "prod-a", 3, None, ""), ("8", "dev", 8, None, ""), ("9", "dev", 12, None, "")]
    )
    assert found["7"] == (
        "waits: it needs 1 node of virtual cluster prod-a, which owns 3 nodes, all in use; its cells are held by jobs 0, 1, 2"
    )
    assert found["8"] == (
        "waits: it needs 1 leaf of virtual cluster dev, which owns 1 leaf, 1 in use; its cells are held by job dev"
    )
    assert found["9"] == (
        "waits: it requests 12 GPUs, and virtual cluster dev owns 8: it can only run opportunistically, where that is permitted "
        "and enough GPUs are idle"
    )
    assert "x" not in found


def test_a_job_that_is_given_or_loses_its_cell_in_this_decision(snapshot_of: Any) -> None:
    found = explained(snapshot_of, [("1", "prod-a", 4, 0, "")])
    assert found == {
        "1": "runs in a node of virtual cluster prod-a: only jobs of this virtual cluster can take its place"
    }
    four: list[Row] = [(str(node), "prod-a", 4, node, "node") for node in range(4)]
    assert len(explained(snapshot_of, four)) == 3, "prod-a owns three nodes"


@pytest.mark.parametrize("may_be_opportunistic", [False, True])
def test_a_job_that_fits_no_cells_of_its_virtual_cluster(snapshot_of: Any, may_be_opportunistic: bool) -> None:
    """Sockets of two GPUs, and a job of four on one node. Beyond the cells there are such nodes."""
    job = snapshot_of.Job("1", GPUS, movable=may_be_opportunistic, request=Request(max_nodes=1))
    snapshot = snapshot_of([job], [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES])
    snapshot = with_sockets(with_clusters(snapshot, ["prod-a"]), [], 2)
    snapshot = replace(snapshot, jobs=replace(snapshot.jobs, opportunistic=np.array([may_be_opportunistic])))
    rule = VirtualClusterRule([DeclaredTenant("prod-a", (DeclaredCells("socket", 3),))])
    plan, _ = rule.decide(snapshot, tenants_of(dict.fromkeys(("prod-a", OUTSIDE), CONFIG)))
    report = rule.report(trees=False)
    assert report is not None
    found = CellReasons(plan, snapshot, report, ()).of(0) or plan.why.get(0)
    assert bool(plan.starts) == may_be_opportunistic
    assert (found and in_words(found)) == (
        None
        if may_be_opportunistic
        else "waits: no cells of virtual cluster prod-a fit what it asks for: it can only run opportunistically, where that is "
        "permitted and enough GPUs are idle"
    )


@pytest.mark.parametrize("feature", ["fast", "unknown"])
def test_a_job_that_its_virtual_cluster_has_no_nodes_for_at_the_moment(snapshot_of: Any, feature: str) -> None:
    """The node of `prod-a` is bound to n0. The nodes with the feature `fast` are in use by jobs that are never preempted."""
    nodes = [snapshot_of.Node(gpus=GPUS, features=frozenset({"fast"} if at else ())) for at in range(2)]
    jobs = [snapshot_of.Job("holds", 1, JobState.RUNNING, placement=((0, 1),))]
    jobs += [snapshot_of.Job("other", GPUS, JobState.RUNNING, movable=False, placement=((1, GPUS),))]
    jobs += [snapshot_of.Job("waits", 1, request=Request(features=frozenset({feature})))]
    snapshot = with_clusters(snapshot_of(jobs, nodes), ["prod-a", OUTSIDE, "prod-a"])
    snapshot = replace(snapshot, allocations=replace(snapshot.allocations, owned_cell=("node", "")))
    rule = VirtualClusterRule([DeclaredTenant("prod-a", (DeclaredCells("node", 1),))])
    plan, _ = rule.decide(snapshot, tenants_of(dict.fromkeys(("prod-a", OUTSIDE), CONFIG)))
    report = rule.report(trees=False)
    assert report is not None
    reason = CellReasons(plan, snapshot, report, ()).of(2) or plan.why[2]
    begin = "waits: no cells of virtual cluster prod-a fit" if feature == "fast" else "can never run here: no nodes"
    assert in_words(reason).startswith(begin)


@pytest.mark.parametrize(
    ("count", "level", "text"),
    [
        (1, "node", "1 node"),
        (2, "leaf", "2 leaves"),
        (1, "leaf#1", "1 cell of type leaf#1"),
        (3, "b", "3 cells of type b"),
    ],
)
def test_cells_are_counted_in_words(count: int, level: str, text: str) -> None:
    assert cells_in_words(count, level) == text


def test_many_jobs_are_counted() -> None:
    assert jobs_in_words(tuple("123456789")) == "jobs 1, 2, 3, 4, 5 and 4 more"
