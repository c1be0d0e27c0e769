from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.conftest import Builder
from tiresias.scheduler.model import ANYWHERE, Floats, Nodes, Request, Style
from tiresias.scheduler.place import spread
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement
from tiresias.scheduler.place.free_capacity import FreeCapacity
from tiresias.scheduler.place.placements import PLACEMENTS, style_code, style_name
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.topology_tree import Topology

REQUESTS = st.builds(
    Request,
    min_nodes=st.integers(0, 4),
    max_nodes=st.integers(0, 4),
    gpus_per_node=st.sampled_from([0, 0, 1, 2, 3]),
)


@dataclass(frozen=True)
class Placed:
    """(GPUs free on each node, GPUs asked for, request, leaves) -> placement; nodes have 8 GPUs and plenty of the rest."""

    snapshot_of: Builder

    def __call__(
        self,
        free: Floats,
        gpus: int,
        request: Request = ANYWHERE,
        leaves: Sequence[int] | None = None,
        style: int = Style.CONSOLIDATE,
        packed: bool = False,
        above: Sequence[Sequence[int]] = (),
    ) -> Placement | None:
        nodes = [
            self.snapshot_of.Node(gpus=8, leaf=leaf) for leaf in (leaves if leaves is not None else [0] * len(free))
        ]
        empty = self.snapshot_of([], nodes)
        placer = Placer(replace(empty, nodes=_grouped(empty.nodes, above)))
        space = np.stack((free, [node.cpus for node in nodes], [node.memory for node in nodes]), axis=1).astype(float)
        return placer.place(placer.kind(request, style, packed), gpus, FreeCapacity(space))


def _grouped(nodes: Nodes, above: Sequence[Sequence[int]]) -> Nodes:
    """above: the index of each node's pod, then of the group above it, and so on."""
    groups: list[npt.ArrayLike] = [*nodes.topology.nearest_groups, *above]
    return replace(nodes, topology=Topology.of_groups(nodes.gpus, groups)) if above else nodes


@pytest.fixture(scope="session")
def placed(snapshot_of: Builder) -> Placed:
    return Placed(snapshot_of)


@pytest.mark.parametrize(
    ("free", "leaves", "gpus", "expected"),
    [
        ([8, 3, 2], None, 2, ((2, 2),)),  # best fit
        ([8, 3, 2, 2], None, 2, ((2, 2),)),  # ties by row
        ([8, 3, 2], None, 4, ((0, 4),)),  # fewest nodes before fragments
        ([8, 8, 3], None, 10, ((0, 8), (2, 2))),  # two nodes; the rest on the tightest that is enough
        ([3, 3, 3], None, 8, ((0, 3), (1, 3), (2, 2))),  # over fragments where it must be
        ([8, 2, 4, 6], [0, 0, 1, 1], 10, ((0, 8), (1, 2))),  # either leaf needs two nodes: the fuller one
        ([8, 8, 8, 4], [0, 1, 1, 0], 16, ((1, 8), (2, 8))),  # one leaf
        ([8, 1, 8, 1], [0, 0, 1, 1], 16, ((0, 8), (2, 8))),  # fewest nodes before one leaf
        ([3, 3], None, 7, None),
        ([], None, 1, None),
    ],
)
def test_where(
    placed: Placed, free: list[int], leaves: list[int] | None, gpus: int, expected: Placement | None
) -> None:
    assert placed(np.array(free, dtype=float), gpus, leaves=leaves) == expected


@pytest.mark.parametrize(
    ("request_", "gpus", "expected"),
    [
        (Request(gpus_per_node=2), 4, ((1, 2), (2, 2))),
        (Request(gpus_per_node=3), 4, None),
        (Request(min_nodes=3), 4, ((0, 2), (1, 1), (2, 1))),
        (Request(min_nodes=3), 2, None),
        (Request(max_nodes=1), 8, ((0, 8),)),
        (Request(max_nodes=1), 9, None),
        (Request(nodes=frozenset({"n1", "n2"})), 1, ((2, 1),)),
        (Request(nodes=frozenset({"n2"})), 4, ((1, 2), (2, 2))),  # too few: all of these, and others
        (Request(nodes=frozenset({"n1"}), max_nodes=1), 4, None),
        (Request(nodes=frozenset({"n1"}), min_nodes=2, gpus_per_node=2), 4, ((1, 2), (2, 2))),
        (Request(nodes=frozenset({"n1", "n2"})), 8, None),
        (Request(excluded=frozenset({"n2"})), 1, ((1, 1),)),
        (Request(features=frozenset({"ib"})), 1, None),
        (Request(gpu_type="h100"), 1, None),
        (Request(cpus_per_gpu=32.0), 4, ((0, 2), (1, 2))),
        (Request(cpus_per_gpu=65.0), 1, None),
        (Request(memory_per_gpu=6e5), 2, ((0, 1), (1, 1))),
        (Request(memory_per_node=2e6), 1, None),
    ],
)
def test_requests(placed: Placed, request_: Request, gpus: int, expected: Placement | None) -> None:
    assert placed(np.array([8.0, 3.0, 2.0]), gpus, request_) == expected


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.integers(1, 20),
    REQUESTS,
    st.data(),
)
def test_finds_nodes_whenever_there_are_any(
    placed: Placed, free: list[int], gpus: int, request: Request, data: st.DataObject
) -> None:
    """Against trying all sets of nodes; and never on more nodes than the smallest set that does."""
    leaves = data.draw(st.lists(st.integers(0, 2), min_size=len(free), max_size=len(free)))
    found = placed(np.array(free, dtype=float), gpus, request, leaves)
    smallest = _smallest(free, gpus, request)
    assert (None if found is None else len(found)) == smallest


def _smallest(free: list[int], gpus: int, request: Request) -> int | None:
    for count in range(max(request.min_nodes, 1), min(request.max_nodes or len(free), len(free), gpus) + 1):
        for nodes in combinations([gpus for gpus in free if gpus], count):
            each = request.gpus_per_node
            if each and each * count == gpus and min(nodes) >= each:
                return count
            if not each and sum(nodes) >= gpus:
                return count
    return None


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([8, 3, 2], 2, ((2, 2),)),
        ([8, 3, 2], 4, ((1, 2), (2, 2))),  # fragments before a whole node
        ([8, 8, 1, 1], 4, ((0, 2), (2, 1), (3, 1))),
        ([8, 8], 10, ((0, 8), (1, 2))),
        ([1, 1], 3, None),
    ],
)
def test_spread_fills_fragments(placed: Placed, free: list[int], gpus: int, expected: Placement | None) -> None:
    assert placed(np.array(free, dtype=float), gpus, style=Style.SPREAD) == expected


def test_spread_takes_larger_fragments_where_the_smallest_would_be_too_many(placed: Placed) -> None:
    limited = Request(max_nodes=2)
    assert placed(np.array([1.0, 1, 2, 3, 8]), 4, limited, style=Style.SPREAD) == ((2, 2), (3, 2))
    assert placed(np.array([4.0, 2, 8]), 4, Request(gpus_per_node=2), style=Style.SPREAD) == ((0, 2), (1, 2))


def test_a_code_is_the_place_of_its_style_in_the_registry() -> None:
    assert [style_name(style_code(name)) for name in PLACEMENTS.built_in] == [*PLACEMENTS.built_in]
    assert {style.name.lower(): int(style) for style in Style} == {
        one.name.lower(): style_code(one.name.lower()) for one in Style
    }


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (style_code("first_fit"), ((0, 1), (1, 3))),
        (style_code("load_balancing"), ((3, 4),)),
    ],
)
def test_baselines(placed: Placed, style: int, expected: Placement) -> None:
    assert placed(np.array([1.0, 3, 2, 8]), 4, style=style) == expected


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.integers(1, 20),
    REQUESTS,
    st.sampled_from(Style),
)
def test_every_style_finds_nodes_whenever_there_are_any(
    placed: Placed, free: list[int], gpus: int, request: Request, style: Style
) -> None:
    """And never more GPUs on a node than are free there, never fewer or more nodes than are asked for."""
    found = placed(np.array(free, dtype=float), gpus, request, style=style)
    assert (found is not None) == (_smallest(free, gpus, request) is not None)
    if found:
        shares = dict(found)
        assert sum(shares.values()) == gpus
        assert all(0 < share <= free[node] for node, share in shares.items())
        assert max(request.min_nodes, 1) <= len(shares) <= (request.max_nodes or len(free))
        assert set(shares.values()) <= {request.gpus_per_node} or not request.gpus_per_node


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 25))
def test_load_balancing_is_gpu_by_gpu_on_the_emptiest(placed: Placed, free: list[int], gpus: int) -> None:
    left = list(free)
    if sum(left) >= gpus:
        for _ in range(gpus):
            left[left.index(max(left))] -= 1
        found = placed(np.array(free, dtype=float), gpus, style=style_code("load_balancing"))
        assert found is not None
        shares = dict(found)
        assert sorted(before - shares.get(node, 0) for node, before in enumerate(free)) == sorted(left)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6), st.integers(1, 20))
def test_load_balancing_is_the_papers_where_nodes_are_alike(placed: Placed, used: list[int], gpus: int) -> None:
    """marl-placement, section VI: each worker goes to the node with the least sum of normalised uses of its resources. Here each
    GPU in use takes 8 of 64 CPUs and 100,000 of 1,000,000 MiB; then the nodes with the most free GPUs have the least load."""
    capacity, taken = np.array([8.0, 64.0, 1e6]), np.array([1.0, 8.0, 1e5])
    load, expected = [float((taken * each / capacity).sum()) for each in used], [0] * len(used)
    if len(used) * 8 - sum(used) < gpus:
        return
    for _ in range(gpus):
        open_ = [node for node in range(len(used)) if used[node] + expected[node] < 8]
        least = min(open_, key=lambda node: round(load[node], 6))
        load[least] += float((taken / capacity).sum())
        expected[least] += 1
    found = placed(
        8.0 - np.array(used), gpus, Request(cpus_per_gpu=8.0, memory_per_gpu=1e5), style=style_code("load_balancing")
    )
    assert found is not None
    shares = dict(found)
    after = [(each, each + shares.get(node, 0)) for node, each in enumerate(used)]
    assert sorted(after) == sorted((each, each + more) for each, more in zip(used, expected, strict=True))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 25))
def test_the_way_by_shelves_and_the_way_by_sorting_agree(free: list[int], gpus: int) -> None:
    """What a space remembers of its fragments, and `spread` on all nodes."""
    candidates = CandidateNodes(np.array(free, np.int64), ())
    assert candidates.fragments(gpus) == spread.uneven(ANYWHERE, gpus, candidates)
    assert candidates.fragments(gpus) == spread.uneven(ANYWHERE, gpus, candidates), "a second time"


@pytest.mark.parametrize(
    ("free", "gpus", "packed", "expected"),
    [
        ([8, 4, 4], 8, True, ((0, 8),)),
        ([4, 4, 0], 8, True, None),  # one node could have them all
        ([4, 4, 0], 8, False, ((0, 4), (1, 4))),
        ([8, 4, 4], 16, True, None),
        ([8, 8, 4], 16, True, ((0, 8), (1, 8))),
    ],
)
def test_packed_is_the_fewest_nodes_or_none(
    placed: Placed, free: list[int], gpus: int, packed: bool, expected: Placement | None
) -> None:
    assert placed(np.array(free, dtype=float), gpus, packed=packed) == expected


@pytest.mark.parametrize(
    ("leaves", "pods", "gpus", "expected"),
    [
        ([0, 1, 1, 2, 2, 2], None, 16, {1, 2}),  # the leaf that is enough, and has the least
        ([0, 1, 1, 2, 2, 2], None, 24, {3, 4, 5}),
        ([0, 0, 1, 1, 2, 3], None, 32, {0, 1, 2, 3}),  # two leaves, not four
        ([0, 1, 2, 3], [0, 1, 1, 0], 16, {0, 3}),  # no leaf has two: one pod
        ([0, 1, 2, 3, 4], [0, 1, 1, 1, 0], 16, {0, 4}),  # the smaller pod
    ],
)
def test_few_switches(placed: Placed, leaves: list[int], pods: list[int] | None, gpus: int, expected: set[int]) -> None:
    found = placed(np.full(len(leaves), 8.0), gpus, leaves=leaves, above=(pods,) if pods else ())
    assert found is not None
    assert {node for node, _ in found} == expected


def test_what_is_remembered_of_a_space_follows_its_changes(snapshot_of: Builder) -> None:
    """`CandidateNodes` against a fresh count, over many takes and gifts."""
    rng = np.random.default_rng(1)
    nodes = [snapshot_of.Node(gpus=8, cpus=16.0) for _ in range(40)]
    placer = Placer(snapshot_of([], nodes))
    kinds = [placer.kind(ANYWHERE), placer.kind(Request(cpus_per_gpu=2.5)), placer.kind(Request(memory_per_node=100.0))]
    space = FreeCapacity(np.tile(np.array([8.0, 16.0, 300.0]), (40, 1)))
    for turn in range(200):
        kind = kinds[rng.integers(len(kinds))]
        placement = placer.place(kind, int(rng.integers(1, 12)), space)
        fresh = FreeCapacity(space.amount.copy()).candidates(kind)
        assert (space.candidates(kind).fit == fresh.fit).all()
        if placement is None or turn % 7 == 0:
            gift = np.zeros((40, 3))
            gift[rng.integers(40)] = (4.0, 8.0, 100.0)
            space.add(gift)
            continue
        gpus = sum(count for _, count in placement)
        assert placement == placer.place(kind, gpus, FreeCapacity(space.amount.copy()))
        space.take(kind, placement)


@pytest.mark.parametrize(
    ("free", "gpus", "request_", "expected"),
    [
        ([8, 8], 4, ANYWHERE, ((0, 3), (1, 1))),
        ([8, 0], 4, ANYWHERE, ((0, 4),)),  # rather on one node than not at all
        ([8, 8], 4, Request(max_nodes=1), ((0, 4),)),
        ([8, 8], 1, ANYWHERE, ((0, 1),)),
    ],
)
def test_a_trial_run_is_on_two_nodes_if_it_may(
    placed: Placed, free: list[int], gpus: int, request_: Request, expected: Placement
) -> None:
    assert placed(np.array(free, dtype=float), gpus, request_, style=Style.APART) == expected
