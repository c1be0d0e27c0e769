"""Which node suits a job best where it may have GPUs of one socket or one NVLink island, and which GPUs it is taken to get."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.conftest import Builder
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import ANYWHERE, Request, Style
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.gpu_islands import IslandGpus, Islands, alike, choose
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.topology_tree import Division, Topology, island_count

many = settings(max_examples=examples(200), deadline=None)
island_gpus = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("free", "division", "gpus", "taken"),
    [
        ((2, 1), (2,), 1, (1, 0)),  # as Slurm does: the socket with the most idle cores
        ((2, 1), (2,), 3, (2, 1)),
        ((1, 3, 2, 2), (4, 2), 3, (0, 3, 0, 0)),  # one island of the nearest level
        ((2, 1, 1, 2), (4, 2), 3, (2, 1, 0, 0)),  # two of them in one of the level above
        ((0, 0), (2,), 2, (0, 0)),  # not as many are known to be free
        ((), (), 2, ()),
    ],
)
def test_what_slurm_takes(free: IslandGpus, division: Division, gpus: int, taken: IslandGpus) -> None:
    assert choose(free, division, gpus).taken == taken


@many
@given(island_gpus, st.integers(1, 17))
def test_the_fewest_islands(free: IslandGpus, gpus: int) -> None:
    choice = choose(free, (len(free),), gpus)
    assert all(0 <= taken <= free for taken, free in zip(choice.taken, free, strict=True))
    assert sum(choice.taken) == min(gpus, sum(free))
    if sum(free) >= gpus:
        largest = sorted(free, reverse=True)
        fewest = next(count for count in range(1, len(free) + 1) if sum(largest[:count]) >= gpus)
        assert np.count_nonzero(choice.taken) <= choice.cost[0] == fewest


@pytest.mark.parametrize(
    ("division", "islands"),
    [
        ((2,), 2),
        ((4, 2), 4),
        ((2, 4), 4),
        ((1, 1), 1),
        ((3, 2), 1),
        ((6, 3, 2), 1),
        ((8, 4, 2), 8),
        ((16,), 1),
        ((), 1),
    ],
)
def test_levels_that_do_not_fit_into_each_other_are_not_known(division: Division, islands: int) -> None:
    assert island_count(division) == islands


@many
@given(st.lists(st.integers(0, 2), min_size=8, max_size=8), st.integers(1, 16), st.data())
def test_the_order_of_islands_does_not_count(free: list[int], gpus: int, data: st.DataObject) -> None:
    """Of two sockets with two NVLink islands each, which are of two GPUs or of one."""
    halves = [free[:4], free[4:]]
    pairs = [[half[:2], half[2:]] for half in halves]
    mixed = [
        data.draw(st.permutations(pair))
        for half in data.draw(st.permutations(pairs))
        for pair in data.draw(st.permutations(half))
    ]
    other = tuple(free for pair in mixed for free in pair)
    assert alike(other, (8, 4, 2)) == alike(tuple(free), (8, 4, 2))
    assert choose(other, (8, 4, 2), gpus).cost == choose(tuple(free), (8, 4, 2), gpus).cost


@many
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=8), st.data())
def test_tightest_and_fragments(some: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Against looking at every node, while nodes change. A node gives less than is free on its islands where CPUs are short."""
    columns = np.array(some, float).T.copy()
    halves = Topology.of_groups([4] * len(some)).with_parts(("socket",), [(2,)] * len(some))
    islands = Islands(halves, [memoryview(column) for column in columns[:2]])
    candidates = CandidateNodes(np.minimum(columns[2], columns[:2].sum(axis=0)).astype(np.int64), (), islands)
    candidates.tightest(1)
    for node, one, other in data.draw(st.lists(st.tuples(st.integers(0, len(some) - 1), *[st.integers(0, 2)] * 2))):
        columns[:2, node] = one, other
        candidates.update(node, one + other)
    shapes = [islands.shape(node, gpus) for node, gpus in enumerate(candidates.fit.tolist())]
    for gpus in (1, 2, 3):
        enough = [(shape.cost(gpus), node) for node, shape in enumerate(shapes) if shape.gpus >= gpus]
        best = [cost for cost, _ in enough]
        found = candidates.tightest(gpus)
        assert (found is None) == (not enough)
        assert found is None or shapes[found].cost(gpus) == min(best)
        broken = sorted((shape.wholeness, node) for node, shape in enumerate(shapes) if shape.gpus)
        expected, left = [], gpus
        for (free, *_), node in broken:
            if left:
                expected.append((node, min(free, left)))
                left -= expected[-1][1]
        assert candidates.fragments(gpus) == (None if left else tuple(sorted(expected)))


@pytest.mark.parametrize(
    ("free", "gpus", "style", "expected"),
    [
        ([(1, 1), (2, 2)], 2, Style.CONSOLIDATE, ((1, 2),)),  # one socket before the tighter node
        ([(2, 2), (2, 1)], 2, Style.CONSOLIDATE, ((1, 2),)),  # of two with a socket the tighter one
        ([(1, 1), (1, 1)], 2, Style.CONSOLIDATE, ((0, 2),)),  # one node before anything else
        ([(2, 1), (1, 0)], 1, Style.CONSOLIDATE, ((1, 1),)),
        ([(2, 0), (1, 1)], 1, Style.SPREAD, ((1, 1),)),  # what is broken already
        ([(2, 0), (1, 1)], 3, Style.SPREAD, ((0, 1), (1, 2))),
    ],
)
def test_where(snapshot_of: Builder, free: list[tuple[int, int]], gpus: int, style: Style, expected: Placement) -> None:
    """Nodes of two islands with two GPUs each."""
    placer = Placer(snapshot_of([], [snapshot_of.Node(gpus=4, islands=2)] * len(free)))
    amount = np.array([(sum(each), 64.0, 1e6, *each) for each in free])
    space, kind = placer.space(amount), placer.kind(ANYWHERE, style)
    found = placer.place(kind, gpus, space)
    assert found is not None
    assert found == expected
    space.take(kind, found)
    assert (space.amount[:, 3:].sum(axis=1) == space.amount[:, 0]).all(), "of the islands as many as of the node"


def test_a_decision_counts_what_its_starts_take(snapshot_of: Builder) -> None:
    """Four jobs of two GPUs on two nodes of two islands: none lies across."""
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of([job(str(row), gpus=2) for row in range(4)], [node(gpus=4, islands=2)] * 2)
    starts = decide(snapshot, PolicyConfig("las")).starts
    assert [start.nodes for start in starts] == [(("n0", 2),), (("n0", 2),), (("n1", 2),), (("n1", 2),)]


def test_a_type_is_an_island_of_its_own(snapshot_of: Builder) -> None:
    """Three GPUs of a type that each node has two of; then a pair of it, for which there is one left, and one of the other type."""
    job, node = snapshot_of.Job, snapshot_of.Node
    first, second = Request(gpu_type="s0"), Request(gpu_type="s1")
    snapshot = snapshot_of(
        [job("1", gpus=3, request=first), job("2", gpus=2, request=first), job("3", gpus=2, request=second)],
        [node(gpus=4, islands=2, type="s0,s1")] * 2,
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert [(start.job, start.nodes) for start in plan.starts] == [("1", (("n0", 2), ("n1", 1))), ("3", (("n0", 2),))]
    placer = Placer(snapshot)
    assert [placer.possible(placer.kind(first), gpus) for gpus in (4, 5)] == [True, False]
    assert placer.possible(placer.kind(Request(gpu_type="s2")), 1) is False


def test_types_that_are_no_islands_count_as_the_node(snapshot_of: Builder) -> None:
    snapshot = snapshot_of(
        [snapshot_of.Job("1", gpus=2, request=Request(gpu_type="b"))], [snapshot_of.Node(gpus=5, type="a,b")]
    )
    assert len(decide(snapshot, PolicyConfig("las")).starts) == 1


@pytest.mark.parametrize("sizes", list(product((1, 2, 3), repeat=3)))
def test_one_island_changes_nothing(snapshot_of: Builder, sizes: tuple[int, int, int]) -> None:
    """Nodes with one island, and nodes without known islands."""
    job, node = snapshot_of.Job, snapshot_of.Node
    jobs = [job(str(row), gpus=gpus) for row, gpus in enumerate(sizes)]
    silent = [node(gpus=4), node(gpus=2), node(gpus=3)]
    one_island = [*silent, node(gpus=0, islands=2)]
    assert (
        decide(snapshot_of(jobs, one_island), PolicyConfig("las")).starts
        == decide(snapshot_of(jobs, silent), PolicyConfig("las")).starts
    )
