"""What an `CandidateNodes` keeps, and what `consolidate` finds by it, against sorting all nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.model import Request
from tiresias.scheduler.place import consolidate
from tiresias.scheduler.place.candidate_nodes import CandidateNodes, Placement

many = settings(max_examples=examples(300), deadline=None)
free_gpus = st.lists(st.integers(0, 5), min_size=1, max_size=14)
numbers = st.integers(0, 4)
requests = st.builds(Request, min_nodes=numbers, max_nodes=numbers)


def levels(data: st.DataObject, nodes: int) -> tuple[list[int], list[int]]:
    """A leaf of each node, and a pod of each leaf."""
    leaves = data.draw(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes))
    pods = data.draw(st.lists(st.integers(0, 1), min_size=5, max_size=5))
    return leaves, [pods[leaf] for leaf in leaves]


def candidates_of(fit: npt.ArrayLike, groups: Sequence[npt.ArrayLike]) -> CandidateNodes:
    return CandidateNodes(np.array(fit, np.int64), [np.asarray(level, np.int64) for level in groups])


def changed(data: st.DataObject, candidates: CandidateNodes) -> None:
    """Some nodes give more or less; first the candidates is asked, so that it has something to keep."""
    candidates.tightest(1)
    assert list(candidates.levels())
    for node, gpus in data.draw(
        st.lists(st.tuples(st.integers(0, len(candidates.fit) - 1), st.integers(0, 7)), max_size=12)
    ):
        candidates.update(node, gpus)


@many
@given(free_gpus, st.integers(1, 8), st.data())
def test_the_tightest_node(fit: list[int], gpus: int, data: st.DataObject) -> None:
    candidates = candidates_of(fit, levels(data, len(fit)))
    changed(data, candidates)
    enough = [(free, node) for node, free in enumerate(candidates.fit.tolist()) if free >= gpus]
    assert candidates.tightest(gpus) == min(enough, default=(0, None))[1]


@many
@given(free_gpus, st.data())
def test_a_census_counts(fit: list[int], data: st.DataObject) -> None:
    candidates = candidates_of(fit, levels(data, len(fit)))
    changed(data, candidates)
    for level in candidates.levels():
        for (less, group), nodes in np.ndenumerate(level.at_least):
            assert nodes == np.count_nonzero((level.of == group) & (candidates.fit > less))
        assert level.free.tolist() == np.bincount(level.of, candidates.fit).tolist()
        assert level.in_all == [np.count_nonzero(candidates.fit > less) for less in range(len(level.at_least))]
        assert len(level.at_least) >= candidates.fit.max()


def test_many_nodes_change_at_once() -> None:
    """And some are roomier again than any when it was counted last."""
    rng = np.random.default_rng(3)
    candidates = candidates_of(rng.integers(0, 9, 200), (np.arange(200) % 7,))
    for most in (9, 3, 9, 1, 12, 2, 12):
        for node in rng.choice(200, rng.integers(1, 200), replace=False).tolist():
            candidates.update(node, int(rng.integers(0, most)))
        fresh = CandidateNodes(candidates.fit.copy(), (np.arange(200) % 7,))
        for gpus in (1, 5, 40):
            assert candidates.tightest(gpus) == fresh.tightest(gpus)
            assert candidates.fragments(gpus) == fresh.fragments(gpus)
            assert consolidate.uneven(Request(), gpus, candidates) == consolidate.uneven(Request(), gpus, fresh)


@many
@given(free_gpus, st.integers(1, 30), requests, st.data())
def test_consolidate_takes_what_sorting_finds(fit: list[int], gpus: int, request: Request, data: st.DataObject) -> None:
    groups = levels(data, len(fit))
    candidates = candidates_of(fit, groups)
    changed(data, candidates)
    expected = by_sorting(candidates.fit.tolist(), gpus, request, groups)
    assert consolidate.uneven(request, gpus, candidates) == expected


def by_sorting(fit: list[int], gpus: int, request: Request, groups: Sequence[list[int]]) -> Placement | None:
    """The same words as `consolidate`'s, node by node."""
    roomiest = sorted((node for node in range(len(fit)) if fit[node]), key=lambda node: -fit[node])
    counts = range(max(request.min_nodes, 1), min(request.max_nodes or gpus, gpus) + 1)
    count = next((count for count in counts if enough(roomiest, fit, count, gpus)), None)
    if count is None:
        return None
    for level in groups:
        inside = [[node for node in roomiest if level[node] == group] for group in range(max(level) + 1)]
        able = [nodes for nodes in inside if enough(nodes, fit, count, gpus)]
        if able:
            return filled(min(able, key=lambda nodes: sum(fit[node] for node in nodes)), fit, count, gpus)
    return filled(over_leaves(roomiest, fit, count, gpus, groups[0]), fit, count, gpus)


def enough(nodes: list[int], fit: list[int], count: int, gpus: int) -> bool:
    """`nodes`: the roomiest first."""
    return len(nodes) >= count and sum(fit[node] for node in nodes[:count]) >= gpus


def over_leaves(roomiest: list[int], fit: list[int], count: int, gpus: int, leaf: list[int]) -> list[int]:
    def best(one: int) -> int:
        return sum([fit[node] for node in roomiest if leaf[node] == one][:count])

    order = sorted({leaf[node] for node in roomiest}, key=lambda one: (-best(one), one))
    few = next(
        nodes
        for upto in range(1, len(order) + 1)
        if enough(nodes := [node for node in roomiest if leaf[node] in order[:upto]], fit, count, gpus)
    )
    on_leaf = dict.fromkeys(order, 0)
    for node in few:
        on_leaf[leaf[node]] += fit[node] if fit[node] >= fit[few[count - 1]] else 0
    return sorted(few, key=lambda node: (-fit[node], -on_leaf[leaf[node]], leaf[node]))


def filled(nodes: list[int], fit: list[int], count: int, gpus: int) -> Placement:
    shares = []
    for after in range(count - 1, 0, -1):
        node = nodes[count - 1 - after]
        shares.append((node, min(fit[node], gpus - after)))
        gpus -= shares[-1][1]
    last = min((node for node in nodes[count - 1 :] if fit[node] >= gpus), key=lambda node: fit[node])
    return tuple(sorted([*shares, (last, gpus)]))
