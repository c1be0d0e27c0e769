"""The topology of a cluster: levels, groups, parts of nodes and parents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.topology_tree import Division, Topology


def tree() -> Topology:
    """Two pods; leaf switches 0 and 1 are in pod 0, 2 in pod 1. The first node has two sockets with two NVLink islands each."""
    groups = Topology.of_groups([8, 4, 4, 2], [[0, 1, 1, 2], [0, 0, 0, 1]])
    return groups.with_parts(("nvlink", "socket"), [(4, 2), (1, 2), (1, 1), (1, 1)])


def test_levels_are_named_from_top_to_bottom() -> None:
    assert tree().names == ("group2", "leaf", "node", "socket", "nvlink", "gpu")
    assert Topology.of_groups([4]).names == ("leaf", "node", "gpu")


@pytest.mark.parametrize(
    ("level", "parents"),
    [
        ("group2", [0, 0]),
        ("leaf", [0, 0, 1]),
        ("node", [0, 1, 1, 2]),
        ("socket", [0, 0, 1, 1, 2, 3]),
        ("nvlink", [0, 0, 1, 1, 2, 3, 4, 5]),
        ("gpu", [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7]),
    ],
)
def test_parents(level: str, parents: list[int]) -> None:
    """Of the second node no NVLink islands are known: its sockets count as such."""
    assert tree().parents(level).tolist() == parents


@pytest.mark.parametrize(
    ("nodes", "level"),
    [([1], "node"), ([1, 1], "node"), ([1, 2], "leaf"), ([0, 2], "group2"), ([0, 3], "")],
)
def test_common_level(nodes: list[int], level: str) -> None:
    assert tree().common_level(nodes) == level


def test_nodes_and_islands_of_a_level() -> None:
    assert tree().nodes_of("leaf", 1).tolist() == [1, 2]
    assert tree().nodes_of("group2", 1).tolist() == [3]
    assert [tree().islands(node) for node in range(4)] == [4, 2, 1, 1]
    assert Topology.of_groups([4]).islands(0) == 1


def test_some_of_the_nodes() -> None:
    some = tree().of_nodes(np.array([0, 3]))
    assert some.divisions == ((4, 2), (1, 1))
    assert [level.tolist() for level in some.nearest_groups] == [[0, 2], [0, 1]]
    assert (len(some), some.names) == (2, tree().names)


def test_arrays_are_read_only_and_those_of_the_caller_are_not() -> None:
    own = np.array([0, 0])
    found = Topology.of_groups([4, 4], [own])
    own[1] = 1
    for array in (found.gpus, found.groups[0], found.nearest_groups[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_a_level_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name for each level"):
        Topology(np.array([4]), (), ())


DIVISIONS = st.sampled_from([(1, 1), (2, 1), (4, 2), (1, 2), (8, 4)])


@given(st.lists(st.tuples(st.integers(0, 3), DIVISIONS), min_size=1, max_size=6))
def test_every_level_reaches_its_node(nodes: list[tuple[int, Division]]) -> None:
    """From each GPU up through all levels to the node that has it."""
    found = Topology.of_groups([8] * len(nodes), [[leaf for leaf, _ in nodes]])
    found = found.with_parts(("nvlink", "socket"), [division for _, division in nodes])
    at = np.arange(8 * len(nodes))
    for level in ("gpu", "nvlink", "socket"):
        at = found.parents(level)[at]
    assert at.tolist() == np.repeat(np.arange(len(nodes)), 8).tolist()
