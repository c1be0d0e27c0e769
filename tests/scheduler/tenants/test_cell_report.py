"""The report of cells: states, bindings, free cells and what each virtual cluster could start, from the newest snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from hypothesis import given

from tests.scheduler.tenants.shared_cluster import (
    CONFIG,
    DECLARED,
    GPUS,
    LEAVES,
    Drawn,
    cluster_of,
    drawn_jobs,
    tenants_of,
    with_clusters,
)
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.tenants.cell_occupancy import CellOccupancy
from tiresias.scheduler.tenants.cell_report import CellReport, VirtualClusterReport, cell_report
from tiresias.scheduler.tenants.cell_trees import ShownCell, ShownState
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest
from tiresias.scheduler.virtual_clusters.specification import (
    CellSpecification,
    CellType,
    DeclaredCell,
    DeclaredVirtualCluster,
    OwnedCells,
)

FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))


def running(
    make: Any, rows: Sequence[tuple[str, str, int, int, str]], down: Iterable[int] = (), unmanaged: int | None = None
) -> Snapshot:
    """Return jobs on the six nodes. `rows`: id, virtual cluster, GPUs, node and type of the owned cell of each."""
    jobs = [make.Job(name, gpus, JobState.RUNNING, placement=((node, gpus),)) for name, _, gpus, node, _ in rows]
    nodes = [make.Node(gpus=GPUS, leaf=leaf, usable=at not in down) for at, leaf in enumerate(LEAVES)]
    snapshot = with_clusters(make(jobs, nodes), [cluster for _, cluster, *_ in rows])
    if unmanaged is not None:
        snapshot.nodes.free.amount[unmanaged, 0] -= 1
    cells = tuple(cell for *_, cell in rows)
    return replace(snapshot, allocations=replace(snapshot.allocations, owned_cell=cells))


def reported(snapshot: Snapshot) -> CellReport:
    rule = VirtualClusterRule(DECLARED)
    assert rule.report() is None
    rule.decide(snapshot, tenants_of(FIFO))
    found = rule.report()
    assert found is not None
    return found


def by_name(report: CellReport) -> dict[str, VirtualClusterReport]:
    return {each.name: each for each in report.clusters}


def all_of(cells: Iterable[ShownCell]) -> Iterator[ShownCell]:
    for cell in cells:
        yield cell
        yield from all_of(cell.children)


def test_each_state_of_hardware_is_shown(snapshot_of: Any) -> None:
    rows = [("1", "one", 4, 2, "node"), ("2", "one", 2, 4, ""), ("3", "two", 1, 0, "leaf")]
    report = reported(running(snapshot_of, rows, down=(5,), unmanaged=3))
    shown = {cell.name: cell for cell in all_of(report.hardware) if cell.cell_type == "node"}
    states = {name: (cell.state.value, cell.cluster) for name, cell in shown.items()}
    assert states == {
        "n0": ("owned", "two"), "n1": ("owned", "two"), "n2": ("owned", "one"), "n3": ("unmanaged", ""),
        "n4": ("opportunistic", ""), "n5": ("bad", ""),
    }  # fmt: skip
    assert (shown["n0"].jobs, shown["n0"].bound) == ((("3", 1),), "two/0/0")
    assert (shown["n4"].jobs, shown["n4"].opportunistic) == ((("2", 2),), 2)
    assert [cell.state for cell in report.hardware] == [ShownState.OWNED, ShownState.MIXED, ShownState.MIXED]
    assert (report.outside, report.unmanaged) == (0, 1)


def test_a_virtual_cluster_has_its_bindings_and_free_cells(snapshot_of: Any) -> None:
    rows = [("1", "one", 4, 2, "node"), ("2", "one", 2, 4, ""), ("3", "two", 1, 0, "leaf")]
    clusters = by_name(reported(running(snapshot_of, rows)))
    one, two = clusters["one"], clusters["two"]
    assert (one.gpus, one.guaranteed, one.free, one.opportunistic, one.fragmented) == (4, 4, 0, 2, 0)
    assert (two.gpus, two.guaranteed, two.free, two.nodes, two.fragmented) == (12, 1, 11, 3, 1)
    assert [(each.cell_type, each.owned, each.cells, each.free, each.largest) for each in two.levels] == [
        ("leaf", 1, 1, 0, 7),
        ("node", 1, 3, 2, 4),
    ]
    leaf, node = two.cells
    assert (leaf.bound, [child.bound for child in leaf.children]) == ("0", ["0/n0", ""])
    assert (node.state, node.nodes) == (ShownState.FREE, ())


def test_equal_parts_without_jobs_are_left_out(snapshot_of: Any) -> None:
    report = reported(running(snapshot_of, []))
    assert [(cell.state, cell.children) for cell in report.hardware] == [(ShownState.FREE, ())] * 3
    assert all(not cell.children for each in report.clusters for cell in each.cells)


def test_pinned_cells_are_shown_with_their_hardware(snapshot_of: Any) -> None:
    """`one` owns n2 and n3 of one rack, in which they have a line each; `two` owns the rack of n0 and n1."""
    one = DeclaredTenant("one", tuple(DeclaredCells("node", nodes=(name,)) for name in ("n2", "n3")))
    two = DeclaredTenant("two", (DeclaredCells("leaf", nodes=("n0", "n1")),))
    rule = VirtualClusterRule((one, two))
    rule.decide(running(snapshot_of, []), tenants_of())
    report = rule.report()
    assert report is not None
    cells = {each.name: [(cell.pinned, cell.state.value) for cell in each.cells] for each in report.clusters}
    assert cells == {"one": [("n2", "free"), ("n3", "free")], "two": [("n[0-1]", "free")]}
    first, second, third = report.hardware
    assert (first.pinned, first.cluster, first.children) == ("n[0-1]", "two", ())
    assert [(cell.pinned, cell.bound, cell.state.value) for cell in second.children] == [
        ("n2", "one/0", "owned"), ("n3", "one/1", "owned"),
    ]  # fmt: skip
    assert (third.pinned, third.state.value) == ("", "free")


def test_a_doomed_cell_is_shown_in_both_trees(snapshot_of: Any) -> None:
    """`two` owns a rack, and each rack has a bad node."""
    report = reported(running(snapshot_of, [], down=(0, 2, 3, 4)))
    assert any(cell.state == ShownState.DOOMED for cell in all_of(report.hardware))
    doomed = [cell for each in report.clusters for cell in all_of(each.cells) if cell.state == ShownState.DOOMED]
    assert doomed
    assert all(cell.bound for cell in doomed)
    leaf = next(level for level in by_name(report)["two"].levels if level.cell_type == "leaf")
    assert (leaf.owned, leaf.free) == (1, 0)


@given(drawn=drawn_jobs)
def test_both_trees_and_the_sums_agree(snapshot_of: Any, drawn: list[Drawn]) -> None:
    snapshot = cluster_of(snapshot_of, drawn)
    report = reported(snapshot)
    gpus = snapshot.nodes.gpus.sum()
    assert sum(cell.gpus for cell in report.hardware) == gpus
    used = sum(cell.guaranteed + cell.opportunistic + cell.unmanaged for cell in report.hardware)
    assert used == gpus - snapshot.nodes.free["gpus"].sum()
    assert sum(cell.guaranteed for cell in report.hardware) == sum(each.guaranteed for each in report.clusters)
    beyond = sum(each.opportunistic for each in report.clusters) + report.outside
    assert sum(cell.opportunistic for cell in report.hardware) == beyond
    for each in report.clusters:
        assert each.gpus == sum(cell.gpus for cell in each.cells)
        assert each.guaranteed == sum(cell.guaranteed for cell in each.cells)
        assert each.free == each.gpus - each.guaranteed
        assert all(level.free <= level.cells and level.largest <= min(level.gpus, each.free) for level in each.levels)


@given(drawn=drawn_jobs)
def test_a_report_without_trees_has_the_same_sums(snapshot_of: Any, drawn: list[Drawn]) -> None:
    rule = VirtualClusterRule(DECLARED)
    rule.decide(cluster_of(snapshot_of, drawn), tenants_of())
    whole, brief = rule.report(), rule.report(trees=False)
    assert whole is not None
    assert brief == replace(
        whole, hardware=(), levels=(), clusters=tuple(replace(each, cells=()) for each in whole.clusters)
    )


def test_a_report_changes_nothing_and_is_plain_data(snapshot_of: Any) -> None:
    snapshot = running(snapshot_of, [("1", "one", 4, 2, "node")])
    report = reported(snapshot)
    assert report == reported(snapshot)
    assert json.dumps(asdict(report)), "no object of another module"
    assert report.hardware[1].children[0].jobs == (("1", 4),)


SOCKETS = CellSpecification(
    {"leaf": CellType("node", 2), "node": CellType("socket", 2, is_node=True), "socket": CellType("gpu", 2)},
    (DeclaredCell("leaf", children=(DeclaredCell(address="n0"), DeclaredCell(address="n1"))),),
    {"one": DeclaredVirtualCluster((OwnedCells("leaf.node.socket", 1), OwnedCells("leaf.node", 1)))},
)


def test_parts_of_nodes_are_shown_where_they_differ() -> None:
    """A job uses a socket of one node, another one both sockets of the other node."""
    occupancy = CellOccupancy(SOCKETS)
    for name, gpus in (("node", 4), ("socket", 2)):
        assert isinstance(occupancy.clusters.schedule(GangRequest(name, "one", 0, ((1, gpus),))), BoundGang)
    (leaf,) = cell_report(occupancy).hardware
    by_job = {cell.jobs: cell for cell in all_of([leaf]) if cell.jobs}
    assert by_job[("node", 4),].cell_type == "node", "one job on all parts of a node has one line"
    assert by_job[("socket", 2),].cell_type == "socket"
    parted = next(cell for cell in leaf.children if cell.children)
    assert sorted((part.state.value, part.cluster) for part in parted.children) == [("free", ""), ("owned", "one")]
    (one,) = cell_report(occupancy).clusters
    assert [(each.cell_type, each.owned, each.cells, each.free) for each in one.levels] == [
        ("node", 1, 1, 0),
        ("socket", 1, 3, 0),
    ]
    assert (one.gpus, one.guaranteed, one.nodes, one.fragmented) == (6, 6, 2, 0)
