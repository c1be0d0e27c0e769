"""Invalid specifications, requests and reconfigurations: one line each, and nothing changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest, PodPlacement
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters

TYPES = {"SOCKET": CellType("GPU", 2), "NODE": CellType("SOCKET", 2, is_node=True), "RACK": CellType("NODE", 2)}
NODES = tuple(DeclaredCell(address=f"n{number}", pinned="mine" if number == 3 else "") for number in range(4))
PINNED = tuple(
    DeclaredCell(
        "RACK",
        pinned=f"r{at}",
        children=tuple(DeclaredCell(address=f"n{at}{node}", pinned=f"n{at}" * (not node)) for node in range(2)),
    )
    for at in (1, 2)
)
RACKS = (DeclaredCell("RACK", children=NODES[:2]), DeclaredCell("RACK", children=NODES[2:]))


def vc(*cells: tuple[str, int], pinned: tuple[str, ...] = ()) -> DeclaredVirtualCluster:
    return DeclaredVirtualCluster(tuple(OwnedCells(*each) for each in cells), pinned)


SPEC = CellSpecification(
    TYPES, RACKS, {"prod": vc(("RACK.NODE", 2), pinned=("mine",)), "research": vc(("RACK.NODE.SOCKET", 2))}
)


def test_the_example_is_valid() -> None:
    clusters = VirtualClusters(SPEC)
    assert list(violations(clusters)) == []
    assert isinstance(clusters.schedule(GangRequest("a", "prod", 0, ((2, 4),))), BoundGang)


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (replace(SPEC, cell_types={**TYPES, "NODE": CellType("SOCKET", 0, is_node=True)}), "NODE: 0 children"),
        (replace(SPEC, cell_types={**TYPES, "NODE": CellType("SOCKET", -3, is_node=True)}), "NODE: -3 children"),
        (replace(SPEC, cell_types={**TYPES, "SOCKET": CellType("RACK", 2)}), "cell type RACK contains itself"),
        (replace(SPEC, cell_types={**TYPES, "NODE": CellType("SOCKET", 2)}), "cell chain RACK: 0 node levels"),
        (replace(SPEC, cell_types={**TYPES, "RACK": CellType("NODE", 2, is_node=True)}), "RACK: 2 node levels"),
        (replace(SPEC, cell_types={**TYPES, "NODE": CellType("GPU", 1 << 40, is_node=True)}), "is the most"),
        (replace(SPEC, physical_cells=(DeclaredCell("ROW"),)), "no such cell type 'ROW'"),
        (replace(SPEC, physical_cells=(DeclaredCell("RACK", children=NODES),)), "4 children, where its type has 2"),
        (replace(SPEC, physical_cells=(*RACKS, RACKS[0])), "two cells of chain RACK are its GPU 0"),
        (
            replace(SPEC, physical_cells=(DeclaredCell("RACK", children=(NODES[3], NODES[3])),)),
            "mine: two physical cells",
        ),
        (
            replace(SPEC, virtual_clusters={"a": vc(("RACK.NODE", 5))}),
            "own 5 cells of type NODE .level 3 of chain RACK.*4",
        ),
        (
            replace(SPEC, virtual_clusters={"a": vc(("RACK", 1), ("RACK.NODE", 3))}),
            "own 3 cells of type NODE.* 2 are left",
        ),
        (replace(SPEC, virtual_clusters={"a": vc(("RACK", 0))}), "a: RACK: 0 cells; give a number above 0"),
        (replace(SPEC, virtual_clusters={"a": vc(("RACK", -1))}), "a: RACK: -1 cells"),
        (replace(SPEC, virtual_clusters={"a": vc(("ROW", 1))}), "no physical cells of the chain ROW"),
        (replace(SPEC, virtual_clusters={"a": vc(("RACK.GPU.NODE", 1))}), "RACK.GPU.NODE is no path in the chain"),
        (replace(SPEC, virtual_clusters={"a": vc(pinned=("other",))}), "no physical cell is pinned as other"),
        (
            replace(SPEC, virtual_clusters={"a": vc(pinned=("mine",)), "b": vc(pinned=("mine",))}),
            "b: the pinned cell mine belongs to a already",
        ),
        (
            CellSpecification(TYPES, PINNED, {"a": vc(pinned=("n1", "n2")), "b": vc(("RACK", 1))}),
            "own 1 cells of type RACK .*after the pinned cells and the larger cells that they own, 0 are left",
        ),
        (
            CellSpecification(TYPES, PINNED, {"a": vc(pinned=("n1", "n2")), "b": vc(pinned=("r1",))}),
            "b: the pinned cell r1 overlaps another one",
        ),
    ],
)
def test_an_invalid_specification_is_refused_in_one_line(spec: CellSpecification, line: str) -> None:
    with pytest.raises(UsageError, match=line) as refused:
        VirtualClusters(spec)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (GangRequest("g", "nobody", 0, ((1, 1),)), "no virtual cluster nobody"),
        (GangRequest("g", "prod", 1001, ((1, 1),)), "priority 1001; give 0 to 1000, or -1"),
        (GangRequest("g", "prod", -2, ((1, 1),)), "priority -2"),
        (GangRequest("g", "prod", 0, ()), "one pod and one GPU at least"),
        (GangRequest("g", "prod", 0, ((1, 0),)), "one pod and one GPU at least"),
        (GangRequest("g", "prod", 0, ((-1, 2),)), "one pod and one GPU at least"),
        (GangRequest("g", "prod", 0, ((1, 1),), "TPU"), "no GPUs of type TPU; there are GPU"),
        (GangRequest("g", "research", 0, ((1, 1),), "", "mine"), "research has no pinned cell mine"),
        (GangRequest("g", "prod", -1, ((1, 1),), "", "mine"), "an opportunistic gang cannot use a pinned cell"),
    ],
)
def test_an_impossible_request_is_refused_in_one_line(request_: GangRequest, line: str) -> None:
    clusters = VirtualClusters(SPEC)
    with pytest.raises(UsageError, match=line) as refused:
        clusters.schedule(request_)
    assert "\n" not in str(refused.value)
    assert not clusters.groups


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            replace(SPEC, virtual_clusters={"prod": vc(("RACK.NODE", 1))}),
            "prod keeps too few cells for its running gang a",
        ),
        (
            replace(SPEC, virtual_clusters={"other": vc(("RACK.NODE", 1))}),
            "prod keeps too few cells for its running gang a",
        ),
        (
            replace(SPEC, physical_cells=(DeclaredCell("NODE", "x"),), virtual_clusters={}),
            "lack GPUs that gang a of prod",
        ),
        (replace(SPEC, virtual_clusters={"prod": vc(("RACK.NODE", 9))}), "own 9 cells"),
    ],
)
def test_a_reconfiguration_that_takes_from_running_gangs_is_refused_whole(spec: CellSpecification, line: str) -> None:
    clusters = VirtualClusters(SPEC)
    clusters.schedule(GangRequest("a", "prod", 0, ((2, 4),)))
    clusters.node_bad("n2")
    before = clusters.cells
    with pytest.raises(UsageError, match=line) as refused:
        clusters.reconfigure(spec)
    assert "\n" not in str(refused.value)
    assert clusters.cells is before
    assert list(violations(clusters)) == []


def test_a_pinned_cell_that_no_vc_owns_is_an_ordinary_one() -> None:
    clusters = VirtualClusters(replace(SPEC, virtual_clusters={"a": vc(("RACK", 2))}))
    clusters.node_bad("n3")
    clusters.schedule(GangRequest("g", "a", 0, ((3, 4),)))
    clusters.node_healthy("n3")
    clusters.delete("g")
    assert list(violations(clusters)) == []


def test_a_reconfiguration_keeps_gangs_their_gpus_and_bad_nodes() -> None:
    clusters = VirtualClusters(SPEC)
    clusters.schedule(GangRequest("a", "prod", 0, ((1, 4),)))
    opportunistic = clusters.schedule(GangRequest("b", "research", -1, ((1, 2),)))
    clusters.node_bad("n2")
    clusters.reconfigure(replace(SPEC, virtual_clusters={"prod": vc(("RACK.NODE", 1)), "research": vc()}))
    assert clusters.schedule(GangRequest("b", "research", -1, ((1, 2),))) == opportunistic
    assert clusters.groups["a"].virtual is not None
    assert clusters.cells.bad.nodes == {"n2"}
    assert list(violations(clusters)) == []


def test_running_gangs_that_contradict_each_other_are_refused() -> None:
    clusters = VirtualClusters(SPEC)
    first = BoundGang(GangRequest("a", "prod", -1, ((1, 1),)), "RACK", (PodPlacement("n0", (0,), ("",)),))
    with pytest.raises(UsageError, match="gang a is there twice"):
        clusters.recover([first, first])
    with pytest.raises(UsageError, match="gang b: GPU 0 of node n0 is used by a"):
        clusters.recover([first, replace(first, request=replace(first.request, gang="b"))])
    assert not clusters.groups


def test_a_recovered_gang_without_hardware_or_guarantee_is_reported() -> None:
    clusters = VirtualClusters(SPEC)
    asked = GangRequest("a", "research", 0, ((1, 4),))
    gone = BoundGang(replace(asked, gang="gone"), "RACK", (PodPlacement("n9", (0, 1, 2, 3), ("NODE",) * 4),))
    lost = BoundGang(asked, "RACK", (PodPlacement("n0", (0, 1, 2, 3), ("NODE",) * 4),))
    assert set(clusters.recover([gone, lost])) == {"gone", "a"}
    assert clusters.groups["a"].virtual is None
    assert sum(1 for _ in clusters.groups["a"].leaves()) == 4
    assert list(violations(clusters)) == []
