"""The cells that tenants need: small histories whose answer is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.tenants.declarations import DeclaredCells
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.cell_levels import CellLevels
from tiresias.simulator.experiments.cell_suggestion import Question, Suggestion, suggest, tenants_of
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.experiments.held_out import halves, held_out
from tiresias.simulator.experiments.private_size import PrivateCluster, WaitTarget, peak_gpus
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.trace import Trace, TraceJob

Job = tuple[float, int, float, str]  # submit, GPUs, duration, tenant


def trace(*jobs: Job) -> Trace:
    return Trace.of(TraceJob(str(row), *job[:3], vc=job[3]) for row, job in enumerate(jobs, start=1))


def question(jobs: Trace, cluster: ClusterSize, seconds: float = 50.0, percentile: float = 95.0) -> Question:
    setup = Setup("site", jobs, cluster, PolicyConfig.paper())
    return Question(setup, tenants_of(jobs, "vc"), "fifo", WaitTarget(seconds, percentile))


def cells(found: Suggestion, tenant: str = "a") -> list[tuple[str, int]]:
    return [(each.level, each.count) for each in found.fitting[tenant].cells]


# Each job takes two whole nodes of 8 GPUs for 100 s; the next one is submitted when it ends.
PAIRS = [(100.0 * at, 16, 100.0, "a") for at in range(10)]


@pytest.mark.parametrize(
    ("nodes_per_leaf", "expected"), [(0, [("node", 2)]), (2, [("leaf", 1)]), (4, [("node", 2)]), (1, [("leaf", 2)])]
)
def test_jobs_of_two_nodes_need_two_nodes_or_a_leaf_of_two(
    nodes_per_leaf: int, expected: list[tuple[str, int]]
) -> None:
    found = suggest(question(trace(*PAIRS), ClusterSize(8, 8, nodes_per_leaf)))
    assert cells(found) == expected
    assert found.fitting["a"].waits == (0.0, 0.0, 0.0)
    assert not found.obstacle


def test_leaves_are_for_the_jobs_of_several_nodes_alone() -> None:
    """Beside the pairs, three jobs of one node run at any time: a leaf of two nodes, and three nodes."""
    singles = [(100.0 * at, 8, 100.0, "a") for at in range(10) for _ in range(3)]
    assert cells(suggest(question(trace(*PAIRS, *singles), ClusterSize(8, 8, 2)))) == [("leaf", 1), ("node", 3)]
    assert cells(suggest(question(trace(*singles), ClusterSize(8, 8, 2)))) == [("node", 3)]


@pytest.mark.parametrize(("seconds", "percentile", "nodes"), [(99.0, 100.0, 2), (100.0, 100.0, 1), (1.0, 50.0, 1)])
def test_the_target_decides(seconds: float, percentile: float, nodes: int) -> None:
    """Each 1,000 s two jobs of a node come at once. On one node, every other one waits for 100 s."""
    jobs = trace(*[(1000.0 * at, 4, 100.0, "a") for at in range(11) for _ in range(2 if at else 1)])
    found = suggest(question(jobs, ClusterSize(8, 4), seconds, percentile))
    assert cells(found) == [("node", nodes)]
    assert found.fitting["a"].waits.total == (0.0 if nodes == 2 else 1000.0)


def test_nodes_are_taken_from_the_tenant_whose_waits_grow_the_least() -> None:
    """Each of a and b needs two nodes. On one, a job of a waits for 100 s, and a job of b for 300 s."""
    jobs = trace(*[(0.0, 4, 100.0, "a")] * 2, *[(0.0, 4, 300.0, "b")] * 2)
    found = suggest(question(jobs, ClusterSize(3, 4)))
    assert found.obstacle.startswith("virtual clusters own 4 cells of type node (level 2 of chain leaf)")
    assert found.obstacle.endswith("3 are left")
    assert {name: each.nodes for name, each in found.for_target.items()} == {"a": 2, "b": 2}
    assert {name: each.nodes for name, each in found.fitting.items()} == {"a": 1, "b": 2}
    assert found.fitting["a"].waits == (50.0, 95.0, 100.0)
    assert [each.cells for each in found.declared] == [(DeclaredCells("node", 2),), (DeclaredCells("node", 1),)]


def test_a_tenant_keeps_what_its_largest_job_needs() -> None:
    """The waits of a grow less, but its job takes two nodes."""
    jobs = trace((0.0, 8, 10.0, "a"), *[(0.0, 4, 300.0, "b")] * 2)
    found = suggest(question(jobs, ClusterSize(3, 4)))
    assert {name: each.nodes for name, each in found.fitting.items()} == {"a": 2, "b": 1}


def test_largest_jobs_that_do_not_fit_together_are_refused() -> None:
    jobs = trace((0.0, 8, 10.0, "a"), (0.0, 8, 10.0, "b"))
    with pytest.raises(UsageError, match=r"each of the 2 tenants needs 4 nodes together, .* own 3; name fewer tenants"):
        suggest(question(jobs, ClusterSize(3, 4)))


def test_nodes_under_a_smaller_leaf_are_left_to_others() -> None:
    """Five nodes, two under a leaf: the names of the levels are those of the whole leaves."""
    jobs = trace(*PAIRS, *[(100.0 * at, 16, 100.0, "b") for at in range(10)])
    found = suggest(question(jobs, ClusterSize(5, 8, 2)))
    assert cells(found) == cells(found, "b") == [("leaf#1", 1)]
    singles = trace(*[(0.0, 8, 100.0, "a")] * 5)
    fewer = suggest(question(singles, ClusterSize(5, 8, 2)))
    assert fewer.obstacle
    assert cells(fewer) == [("leaf#1.node", 4)]


def test_a_leaf_switch_that_is_larger_than_the_cluster_is_none() -> None:
    assert CellLevels.of(ClusterSize(4, 8, 16)).nodes_per_leaf == 0


def test_the_peak_is_of_jobs_that_start_at_once() -> None:
    assert peak_gpus(trace((0.0, 4, 10.0, "a"), (5.0, 2, 10.0, "a"), (11.0, 1, 1.0, "a"))) == 6


def test_tenants_are_in_the_order_of_their_gpu_time() -> None:
    jobs = trace((0.0, 1, 10.0, "a"), (0.0, 2, 10.0, "b"), (0.0, 8, 10.0, ""))
    assert list(tenants_of(jobs, "vc")) == ["b", "a"]
    assert list(tenants_of(jobs, "vc", ["a"])) == ["a"]


@pytest.mark.parametrize(
    ("by", "only", "message"),
    [("vc", ["c"], "no job is of vc 'c'; there are a, b"), ("account", [], "no job has the name of its account")],
)
def test_unknown_tenants_are_refused(by: str, only: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tenants_of(trace((0.0, 1, 10.0, "a"), (0.0, 2, 10.0, "b")), by, only)


def test_a_history_that_repeats_itself_waits_as_predicted() -> None:
    """The second half is the first one again: private clusters do as predicted, and shared ones no worse."""
    week = [(100.0 * at, 4, 150.0, name) for at in range(10) for name in "aab"]
    jobs = trace(*week, *[(5000.0 + submit, *rest) for submit, *rest in week])  # type: ignore[arg-type]
    first, second = halves(jobs)
    assert len(first) == len(second) == len(week)
    found = suggest(question(first, ClusterSize(6, 4)))
    later = held_out(found, "vc", second, shared=True)
    assert later.jobs == {"a": 20, "b": 10}
    assert later.dropped == 0
    assert later.shared
    for name, suggested in found.fitting.items():
        assert later.private[name] == suggested.waits
        assert later.shared[name].total <= suggested.waits.total


def test_later_jobs_that_are_larger_than_their_cells_are_counted() -> None:
    jobs = trace((0.0, 4, 10.0, "a"), (100.0, 8, 10.0, "a"), (101.0, 4, 10.0, "a"), (102.0, 4, 10.0, "new"))
    first, second = halves(jobs)
    later = held_out(suggest(question(first, ClusterSize(2, 4))), "vc", second, shared=False)
    assert (later.jobs, later.dropped, later.shared) == ({"a": 1}, 2, None)


def test_one_moment_has_no_halves() -> None:
    with pytest.raises(UsageError, match="all jobs were submitted at one time"):
        halves(trace((5.0, 1, 10.0, "a"), (5.0, 1, 10.0, "a")))


jobs_of_one = st.lists(
    st.tuples(st.integers(0, 200).map(float), st.integers(1, 9), st.integers(1, 90).map(float), st.just("a")),
    min_size=1,
    max_size=30,
)


@settings(max_examples=examples(60), deadline=None)
@given(jobs_of_one, st.sampled_from(["las", "fifo", "best_effort"]), st.sampled_from([1.0, 30.0, 200.0]))
def test_the_number_of_cells_meets_the_target_and_one_less_does_not(
    jobs: list[Job], policy: str, seconds: float
) -> None:
    target = WaitTarget(seconds, 90.0)
    private = PrivateCluster(Setup("site", trace(*jobs), ClusterSize(1, 1), PolicyConfig.paper()), policy, 4, target)
    found = private.smallest()
    assert private.figures(found).percentile <= seconds
    assert found == private.least or private.figures(found - 1).percentile > seconds
    assert np.isclose(private.figures(private.most).total, 0.0)


several = st.lists(
    st.tuples(st.integers(0, 60).map(float), st.integers(1, 8), st.integers(1, 60).map(float), st.sampled_from("abc")),
    min_size=3,
    max_size=40,
)


@settings(max_examples=examples(25), deadline=None)
@given(several, st.integers(6, 9), st.integers(0, 4))
def test_what_is_suggested_fits_and_waits_as_stated(jobs: list[Job], nodes: int, nodes_per_leaf: int) -> None:
    """Six nodes suffice for the largest jobs of all tenants."""
    cluster = ClusterSize(nodes, 4, nodes_per_leaf)
    asked = question(trace(*jobs), cluster, 10.0)
    levels = CellLevels.of(cluster)
    if levels.nodes < 6:
        return
    found = suggest(asked)
    SimulatedTenants("virtual_clusters", found.declared).check(Occupancy(cluster).nodes())
    assert bool(found.obstacle) == (sum(each.nodes for each in found.for_target.values()) > levels.nodes)
    if found.obstacle:
        assert sum(each.nodes for each in found.fitting.values()) == levels.nodes
    for name, each in found.fitting.items():
        assert each.waits == asked.private(name).figures(each.nodes)
