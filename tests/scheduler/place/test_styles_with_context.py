"""Placement styles that use the jobs and the free resources of nodes, as decisions use them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.conftest import Builder, JobRow
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.interference_table import MOST_EXPECTED, InterferenceTable
from tiresias.scheduler.model import ANYWHERE, JobState, Request, Snapshot, Style
from tiresias.scheduler.place.free_capacity import FreeCapacity
from tiresias.scheduler.place.placement_context import NodeInterference, Surroundings
from tiresias.scheduler.place.placements import PLACEMENTS, style_code, uses_interference
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.place.tetris import alignment

LEAST, TETRIS = style_code("least_interference"), style_code("tetris")
LAS = PolicyConfig("las")
TABLE = InterferenceTable.of(("loader", "matrix"), [[1.5, 1.2], [1.01, 1.0]])
LOADER, MATRIX = range(2)


def with_kinds(
    snapshot: Snapshot, kinds: list[int], style: int = LEAST, table: InterferenceTable | None = TABLE
) -> Snapshot:
    styles = np.full(len(kinds), style, np.int64)
    jobs = replace(snapshot.jobs, style=styles, interference_kind=np.array(kinds, np.int64))
    return replace(snapshot, jobs=jobs, interference=table)


def running(snapshot_of: Builder, id_: str, node: int, gpus: int = 2) -> JobRow:
    return snapshot_of.Job(id_, gpus=gpus, state=JobState.RUNNING, placement=((node, gpus),))


def nodes_of(snapshot: Snapshot) -> dict[str, tuple[tuple[str, int], ...]]:
    return {start.job: start.nodes for start in decide(snapshot, LAS).starts}


def test_a_job_starts_beside_the_job_that_it_suits(snapshot_of: Builder) -> None:
    """A loader runs on n0, a matrix on n1; both have two free GPUs."""
    jobs = [running(snapshot_of, "1", 0), running(snapshot_of, "2", 1), snapshot_of.Job("3", gpus=2)]
    plain = snapshot_of(jobs, [snapshot_of.Node()] * 2)
    assert nodes_of(plain)["3"] == (("n0", 2),)
    assert nodes_of(with_kinds(plain, [LOADER, MATRIX, LOADER]))["3"] == (("n1", 2),)
    assert nodes_of(with_kinds(plain, [MATRIX, LOADER, LOADER]))["3"] == (("n0", 2),)
    assert nodes_of(with_kinds(plain, [LOADER, MATRIX, LOADER], style=Style.CONSOLIDATE))["3"] == (("n0", 2),)


def test_the_starts_of_a_decision_count(snapshot_of: Builder) -> None:
    """Two loaders start on two empty nodes; one of the matrices joins each, as consolidation alone would not arrange."""
    plain = snapshot_of([snapshot_of.Job(str(row), gpus=2) for row in range(4)], [snapshot_of.Node()] * 2)
    found = nodes_of(with_kinds(plain, [LOADER, LOADER, MATRIX, MATRIX]))
    assert [found[each][0][0] for each in "0123"] == ["n0", "n1", "n0", "n1"]


@pytest.mark.parametrize("table", [None, TABLE])
def test_nothing_expected_means_consolidate(snapshot_of: Builder, table: InterferenceTable | None) -> None:
    jobs = [running(snapshot_of, "1", 0, 3), *(snapshot_of.Job(str(gpus), gpus=gpus) for gpus in (2, 3, 4, 6))]
    plain = snapshot_of(jobs, [snapshot_of.Node(leaf=leaf) for leaf in (0, 0, 1, 1, 1)])
    unknown = with_kinds(plain, [-1] * 5, table=table)
    assert nodes_of(unknown) == nodes_of(plain)


def test_a_job_that_releases_its_gpus_is_no_neighbour(snapshot_of: Builder) -> None:
    releasing = replace(running(snapshot_of, "1", 0), state=JobState.RELEASING)
    jobs = [releasing, running(snapshot_of, "2", 1), snapshot_of.Job("3", gpus=2)]
    plain = snapshot_of(jobs, [snapshot_of.Node()] * 2)
    assert nodes_of(with_kinds(plain, [LOADER, MATRIX, LOADER]))["3"] == (("n0", 2),)


def test_a_restart_does_not_return_to_a_node_with_other_neighbours(snapshot_of: Builder) -> None:
    """Its last node is as free as the other one, but has the worse neighbour."""
    jobs = [running(snapshot_of, "1", 0), running(snapshot_of, "2", 1), snapshot_of.Job("3", gpus=2)]
    found = with_kinds(snapshot_of(jobs, [snapshot_of.Node()] * 2), [LOADER, MATRIX, LOADER])
    last = (frozenset[str](), frozenset[str](), frozenset({"n0"}))
    assert nodes_of(replace(found, jobs=replace(found.jobs, last_nodes=last)))["3"] == (("n1", 2),)


def test_a_table_has_no_absurd_slowdown() -> None:
    found = InterferenceTable.of("abc", [[np.nan, -1.0, 0.0], [np.inf, 1e300, 1.2], [1.0, -np.inf, 0.5]])
    assert found.slowdown.tolist() == [[1.0, 1.0, 1.0], [1.0, MOST_EXPECTED, 1.2], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("name", PLACEMENTS.built_in)
def test_the_styles_that_read_interference_are_named(
    snapshot_of: Builder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    read, original = list[int](), Surroundings.interference

    def noted(surroundings: Surroundings, kind: int, space: FreeCapacity) -> NodeInterference:
        read.append(kind)
        return original(surroundings, kind, space)

    monkeypatch.setattr(Surroundings, "interference", noted)
    rows = [running(snapshot_of, "1", 0), running(snapshot_of, "2", 1), snapshot_of.Job("3", gpus=2)]
    snapshot = with_kinds(snapshot_of(rows, [snapshot_of.Node()] * 2), [LOADER, MATRIX, LOADER], style_code(name))
    assert "3" in nodes_of(snapshot)
    assert bool(read) is uses_interference(name)


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [(2.0, "n1"), (16.0, "n0")],  # few CPUs: the node that has few left; many: the one that has many
)
def test_tetris_takes_the_node_whose_free_resources_are_like_the_demand(
    snapshot_of: Builder, cpus: float, expected: str
) -> None:
    taken = Request(cpus_per_gpu=16.0)
    jobs = [
        replace(running(snapshot_of, "1", 0), request=Request(cpus_per_gpu=1.0)),
        replace(running(snapshot_of, "2", 1), request=taken),
        snapshot_of.Job("3", gpus=2, request=Request(cpus_per_gpu=cpus, memory_per_gpu=1e5)),
    ]
    plain = snapshot_of(jobs, [snapshot_of.Node()] * 2)
    assert nodes_of(with_kinds(plain, [-1] * 3, style=TETRIS))["3"] == ((expected, 2),)


def test_tetris_counts_no_resource_without_limit() -> None:
    free, capacity = (
        np.array([[4.0, np.inf, 1e5], [2.0, np.inf, 1e6], [0.0, np.inf, 0.0]]),
        np.array([4.0, np.inf, 1e6]),
    )
    found = alignment(np.array([2.0, 8.0, 1e6]), free, capacity)
    assert found.tolist() == pytest.approx([0.534, 1.0, 0.0], abs=0.001)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 64)), min_size=1, max_size=5),
    st.integers(1, 12),
    st.sampled_from([LEAST, TETRIS]),
    st.builds(
        Request, min_nodes=st.integers(0, 3), max_nodes=st.integers(0, 3), gpus_per_node=st.sampled_from([0, 0, 1, 2]),
        cpus_per_gpu=st.sampled_from([0.0, 4.0, 16.0]), excluded=st.sampled_from([frozenset(), frozenset({"n0"})]),
    ),
)  # fmt: skip
def test_a_style_places_whenever_consolidate_does_on_as_many_nodes(
    snapshot_of: Builder, free: list[tuple[int, int]], gpus: int, style: int, request: Request
) -> None:
    snapshot = snapshot_of([], [snapshot_of.Node()] * len(free))
    placer = Placer(replace(snapshot, interference=TABLE))
    amount = np.array([(gpus, cpus, 1e6) for gpus, cpus in free], float)
    expected = placer.place(placer.kind(request), gpus, placer.space(amount))
    space = placer.space(amount)
    space.started += [(0, LOADER), (len(free) - 1, MATRIX)]
    kind = placer.kind(request, style, job_kind=LOADER)
    found = placer.place(kind, gpus, space)
    assert (found and len(found)) == (expected and len(expected))
    if found:
        fit = space.candidates(kind).fit
        assert all(0 < share <= fit[node] for node, share in found)
        assert sum(share for _, share in found) == gpus
        assert not request.gpus_per_node or {share for _, share in found} == {request.gpus_per_node}
    assert placer.place(placer.kind(ANYWHERE, style), 1000, space) is None
