"""Which nodes are near each other, from Slurm's own words and from features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.cluster.topology import Level, from_features, from_slurm, groups

# As Slurm 26.05 prints them.
TREE = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-02]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu[03-04]
SwitchName=leaf3 Level=0 LinkSpeed=1 Nodes=gpu05
SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=gpu[01-04] Switches=leaf1,leaf2
SwitchName=spine2 Level=1 LinkSpeed=1 Nodes=gpu05 Switches=leaf3
SwitchName=core Level=2 LinkSpeed=1 Nodes=gpu[01-05] Switches=spine1,spine2
"""
BLOCKS = """BlockName=b1 BlockIndex=0 Nodes=gpu01,gpu02 BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=gpu03,gpu04 BlockSize=2
BlockName=b12 BlockIndex=3 Nodes=gpu[01-04] BlockSize=4
"""


def node(number: int, *features: str) -> SlurmNode:
    return SlurmNode(
        name=f"gpu{number:02}", state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
        cpus_allocated=0, memory=64000, memory_allocated=0, features=features, partitions=("gpu",),
    )  # fmt: skip


NODES = [node(number) for number in range(1, 6)]


def indexes(levels: Sequence[Level]) -> list[list[int]]:
    return [group.tolist() for group in groups(NODES, levels)]


def test_switches() -> None:
    assert indexes(from_slurm(TREE)) == [[0, 0, 1, 1, 2], [0, 0, 0, 0, 1]], (
        "the core switch connects all nodes and is no level"
    )


def test_blocks_and_blocks_of_blocks() -> None:
    """gpu05 is in none of them: a group of its own."""
    assert indexes(from_slurm(BLOCKS)) == [[1, 1, 2, 2, 0], [1, 1, 1, 1, 0]]


def test_blocks_that_slurm_aggregates() -> None:
    """As 26.05 prints a block topology of topology.yaml with two block sizes."""
    text = BLOCKS.replace("BlockName=b12 BlockIndex=3", "AggregatedBlock=b[1-2] BlockIndex=2")
    assert indexes(from_slurm(text)) == indexes(from_slurm(BLOCKS))


@pytest.mark.parametrize(
    "text", ["", "No topology information available", "SwitchName=x Level=high Nodes=gpu01", "Level=0"]
)
def test_without_a_topology_all_nodes_are_near_each_other(text: str) -> None:
    assert from_slurm(text) == ()
    assert indexes(from_slurm(text)) == [[0] * 5]


@given(st.text())
def test_whatever_slurm_prints(text: str) -> None:
    assert all(len(level) == 5 for level in indexes(from_slurm(text)))


def test_features() -> None:
    places = [("ib", "rack1", "pod1"), ("leaf2", "pod1"), ("rack1", "pod1"), ("rack3", "row2"), ()]
    nodes = [replace(one, features=features) for one, features in zip(NODES, places, strict=True)]
    levels = from_features(nodes, ["rack|leaf", "pod|row"])
    assert [group.tolist() for group in groups(nodes, levels)] == [[2, 1, 2, 3, 0], [1, 1, 1, 2, 0]]


def test_no_nodes() -> None:
    assert [len(group) for group in groups([], from_slurm(TREE))] == [0]
