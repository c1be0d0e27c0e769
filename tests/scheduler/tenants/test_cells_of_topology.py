"""Cells are derived from the topology, and what does not fit is refused in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.model import Nodes, Snapshot
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.topology_tree import Topology
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

TWO_RACKS = (("", 4, 0), ("", 4, 0), ("", 4, 1), ("", 4, 1))


def nodes_of(make: Callable[..., Snapshot], described: Sequence[tuple[str, int, int]]) -> Nodes:
    """`described`: GPU type, GPUs and leaf of each node."""
    rows = [make.Node(gpus=gpus, type=kind, leaf=leaf) for kind, gpus, leaf in described]  # type: ignore[attr-defined]
    return make([], rows).nodes


def owner(name: str, *cells: tuple[str, int]) -> DeclaredTenant:
    return DeclaredTenant(name, tuple(DeclaredCells(level, count) for level, count in cells))


def test_two_racks_of_two_nodes(snapshot_of: Callable[..., Snapshot]) -> None:
    nodes = nodes_of(snapshot_of, TWO_RACKS)
    spec = cell_specification(nodes, (owner("one", ("leaf", 1)), owner("two", ("node", 2))))
    assert list(spec.cell_types) == ["node", "leaf"]
    assert [len(cell.children) for cell in spec.physical_cells] == [2, 2]
    assert [cell.address for cell in spec.physical_cells[1].children] == list(nodes.name[2:])
    assert [each.path for vc in spec.virtual_clusters.values() for each in vc.cells] == ["leaf", "leaf.node"]


def test_a_gang_of_a_rack_is_bound_to_one_rack(snapshot_of: Callable[..., Snapshot]) -> None:
    """Two nodes of `two` are in one rack, so that the rack of `one` is always there."""
    nodes = nodes_of(snapshot_of, TWO_RACKS)
    clusters = VirtualClusters(cell_specification(nodes, (owner("one", ("leaf", 1)), owner("two", ("node", 2)))))
    bound = [clusters.schedule(GangRequest(job, vc, 0, ((1, 4),))) for job, vc in (("a", "two"), ("b", "two"))]
    rack = clusters.schedule(GangRequest("c", "one", 0, ((2, 4),)))
    assert isinstance(rack, BoundGang)
    used = [pod.node for each in bound if isinstance(each, BoundGang) for pod in each.pods]
    leaf = dict(zip(nodes.name, nodes.topology.nearest_groups[0].tolist(), strict=True))
    assert len({leaf[node] for node in used}) == 1
    assert {leaf[pod.node] for pod in rack.pods} == {0, 1} - {leaf[node] for node in used}


def test_groups_that_differ_have_types_of_their_own(snapshot_of: Callable[..., Snapshot]) -> None:
    """The third rack has one node, and a node of the second one has 8 GPUs: it is a cell in a rack of its own type."""
    nodes = nodes_of(snapshot_of, (*TWO_RACKS, ("", 8, 1), ("", 4, 2)))
    spec = cell_specification(nodes, (owner("one", ("leaf#1", 2)), owner("two", ("leaf#2.node#2", 1), ("leaf#3", 1))))
    shapes = {cell.cell_type: len(cell.children) for cell in spec.physical_cells}
    assert shapes == {"leaf#1": 2, "leaf#2": 1, "leaf#3": 1}
    CellState(spec)


def test_levels_above_the_leaf(snapshot_of: Callable[..., Snapshot]) -> None:
    nodes = nodes_of(snapshot_of, TWO_RACKS)
    pods = Topology(nodes.gpus, ("pod", "leaf"), (np.zeros(4, np.int64), np.array([0, 0, 1, 1])))
    spec = cell_specification(replace(nodes, topology=pods), (owner("one", ("leaf", 1), ("node", 2)),))
    assert [cell.cell_type for cell in spec.physical_cells] == ["pod"]
    assert [each.path for each in spec.virtual_clusters["one"].cells] == ["pod.leaf", "pod.node"]
    CellState(spec)


def test_a_gpu_type_names_the_cells(snapshot_of: Callable[..., Snapshot]) -> None:
    nodes = nodes_of(snapshot_of, (("a100", 4, 0), ("a100", 4, 0), ("h100", 8, 1)))
    tenant = DeclaredTenant("one", (DeclaredCells("node", 1, "h100"), DeclaredCells("node", 2, "a100")))
    clusters = VirtualClusters(cell_specification(nodes, (tenant,)))
    found = clusters.schedule(GangRequest("a", "one", 0, ((1, 8),), leaf_type="h100"))
    assert isinstance(found, BoundGang)
    assert [pod.node for pod in found.pods] == [nodes.name[2]]


@pytest.mark.parametrize(
    ("tenants", "message"),
    [
        ((owner("one", ("socket", 1)),), "virtual cluster one: no cells of level socket; there are leaf, node"),
        ((owner("one", ("leaf", 1)), owner("one", ("leaf", 1))), "virtual cluster one: it is declared twice"),
        (
            (DeclaredTenant("one", (DeclaredCells("node", 1, "h100"),)),),
            "no cells of level node with GPUs of type h100; there are gpu",
        ),
        ((owner("one", ("leaf", 0)),), "virtual cluster one: leaf: 0 cells; give a number above 0"),
        (
            (owner("one", ("leaf", 1)), owner("two", ("node", 3))),
            "virtual clusters own 3 cells of type node (level 2 of chain leaf); after the larger cells that they own, 2 are left",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(
    snapshot_of: Callable[..., Snapshot], tenants: Sequence[DeclaredTenant], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        CellState(cell_specification(nodes_of(snapshot_of, TWO_RACKS), tenants))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_cells_that_differ_are_to_be_named(snapshot_of: Callable[..., Snapshot]) -> None:
    nodes = nodes_of(snapshot_of, (*TWO_RACKS, ("", 4, 2)))
    for level, several in (("leaf", "leaf#1, leaf#2"), ("node", "leaf#1.node, leaf#2.node")):
        message = f"the cells of level {level} differ; name a GPU type or one of {several}"
        with pytest.raises(UsageError, match=message):
            cell_specification(nodes, (owner("one", (level, 1)),))
    CellState(cell_specification(nodes, (owner("one", ("leaf#1", 1), ("leaf#2.node", 1)),)))
