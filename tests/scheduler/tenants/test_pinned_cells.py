"""Pinned cells: a virtual cluster may own the very hardware that it names, and a mistake is one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.tenants.shared_cluster import CONFIG, GPUS, LEAVES, tenants_of, with_clusters, with_sockets
from tiresias.errors import UsageError
from tiresias.scheduler.model import Effect, JobState, Nodes, Plan, Request, Snapshot
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.private_clusters import PrivateClusters, partition
from tiresias.scheduler.tenants.running_guarantees import lost_guarantees
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.virtual_clusters.cell_state import CellState

# six nodes of 4 GPUs in three leaves: n0 n1 | n2 n3 | n4 n5
PINNED_NODE, PINNED_LEAF = DeclaredCells("node", nodes=("n3",)), DeclaredCells("leaf", nodes=("n4", "n5"))
ONE = DeclaredTenant("one", (DeclaredCells("node", 1), PINNED_NODE))
TWO = DeclaredTenant("two", (PINNED_LEAF,))
DECLARED = (ONE, TWO)
FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))


def cluster(make: Any, jobs: Sequence[Any], clusters: Sequence[str], **nodes: Any) -> Snapshot:
    """`nodes`: other fields of nodes, by name: n3=dict(features=...)."""
    rows = [make.Node(gpus=GPUS, leaf=leaf, **nodes.get(f"n{at}", {})) for at, leaf in enumerate(LEAVES)]
    return with_clusters(make(jobs, rows), clusters)


def decided(snapshot: Snapshot, rule: Callable[[Sequence[DeclaredTenant]], TenantRule] = VirtualClusterRule) -> Plan:
    return rule(DECLARED).decide(snapshot, tenants_of(FIFO))[0]


def nodes_of(plan: Plan, cell: str = "") -> dict[str, list[str]]:
    """Return the nodes of each start in cells, of one type where it is given."""
    return {
        start.job: [node for node, _ in start.nodes]
        for start in (*plan.starts, *plan.reserved)
        if start.owned_cells and cell in ("", *start.owned_cells)
    }


def running(make: Any, name: str, node: int, gpus: int = GPUS) -> Any:
    return make.Job(name, gpus, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((node, gpus),))


def test_a_pinned_cell_is_always_the_hardware_that_it_names(snapshot_of: Any) -> None:
    """Job b of `one` needs its second node, and job c of `two` its leaf."""
    jobs = [snapshot_of.Job("a", 4), snapshot_of.Job("b", 4), snapshot_of.Job("c", 8)]
    found = nodes_of(decided(cluster(snapshot_of, jobs, ["one", "one", "two"])))
    assert found["b"] == ["n3"]
    assert found["c"] == ["n4", "n5"]
    assert found["a"][0] in ("n0", "n1", "n2")


def test_a_pinned_leaf_is_a_leaf_for_the_jobs_of_its_owner(snapshot_of: Any) -> None:
    plan = decided(cluster(snapshot_of, [snapshot_of.Job("a", 2), snapshot_of.Job("b", 6)], ["two", "two"]))
    assert {node for nodes in nodes_of(plan, "leaf").values() for node in nodes} == {"n4", "n5"}


def test_jobs_that_name_no_hardware_use_the_other_cells_first(snapshot_of: Any) -> None:
    """So that n3 is free for job b, which requests its feature, and for a job that names it (-w)."""
    for request in (Request(features=frozenset({"ib"})), Request(nodes=frozenset({"n3"}))):
        jobs = [snapshot_of.Job("a", 4), snapshot_of.Job("b", 4, request=request)]
        found = nodes_of(decided(cluster(snapshot_of, jobs, ["one", "one"], n3={"features": frozenset({"ib"})})))
        assert found["b"] == ["n3"]
        assert found["a"] != ["n3"]


@pytest.mark.parametrize("first", [True, False])
def test_a_job_that_names_a_node_outside_of_pinned_cells_gets_another_cell(snapshot_of: Any, first: bool) -> None:
    """Job a names n1, which no pinned cell of `one` is."""
    named = snapshot_of.Job("a", 4, request=Request(nodes=frozenset({"n1"})), submit=0.0 if first else 2.0)
    jobs = [named, snapshot_of.Job("b", 4, submit=1.0)]
    found = nodes_of(decided(cluster(snapshot_of, jobs, ["one", "one"])))
    if first:
        assert found == {"a": ["n1"], "b": ["n3"]}
    else:  # job b uses the only cell that can be n1
        assert found.keys() == {"b"}


def test_a_job_that_excludes_the_hardware_of_a_pinned_cell_never_gets_it(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job("a", 4), snapshot_of.Job("b", 4, request=Request(excluded=frozenset({"n3"})))]
    plan = decided(cluster(snapshot_of, jobs, ["one", "one"]))
    assert nodes_of(plan).keys() == {"a"}
    jobs = [snapshot_of.Job("c", 4, request=Request(excluded=frozenset({"n4", "n5"})))]
    assert nodes_of(decided(cluster(snapshot_of, jobs, ["two"]))) == {}


def test_other_jobs_use_an_idle_pinned_cell_and_are_preempted_for_its_owner(snapshot_of: Any) -> None:
    six = [snapshot_of.Job(f"o{at}", 4) for at in range(6)]
    plan = decided(cluster(snapshot_of, six, [""] * 6))
    assert {node for start in plan.starts for node, _ in start.nodes} == {f"n{at}" for at in range(6)}
    jobs = [*(running(snapshot_of, f"o{at}", at) for at in range(6)), snapshot_of.Job("c", 8)]
    plan = decided(cluster(snapshot_of, jobs, [*[""] * 6, "two"]))
    assert {each.job for each in plan.preemptions} == {"o4", "o5"}
    assert nodes_of(plan) == {"c": ["n4", "n5"]}


def test_a_running_job_keeps_its_pinned_cell_after_a_restart(snapshot_of: Any) -> None:
    """A new rule reads the type of the cell alone; on n3 it can only be the pinned one, so that job b gets another node."""
    shown = cluster(snapshot_of, [running(snapshot_of, "a", 3), snapshot_of.Job("b", 4)], ["one", "one"])
    held = replace(shown.allocations, owned_cell=("node",))
    plan = decided(replace(shown, allocations=held))
    assert plan.effect[0] == Effect.KEEP
    assert not plan.rebindings
    assert nodes_of(plan)["b"][0] not in ("n3", "n4", "n5")


def test_while_the_hardware_of_a_pinned_cell_is_bad_no_other_replaces_it(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job("a", 4), snapshot_of.Job("b", 4)]
    plan = decided(cluster(snapshot_of, jobs, ["one", "one"], n3={"usable": False}))
    assert nodes_of(plan).keys() == {"a"}


def test_private_clusters_give_a_virtual_cluster_the_hardware_that_it_names(snapshot_of: Any) -> None:
    shown = cluster(snapshot_of, [], [])
    found = {name: rows.tolist() for name, rows in partition(shown.nodes, DECLARED).items()}
    assert found == {"one": [2, 3], "two": [4, 5], OUTSIDE: [0, 1]}
    socket = DeclaredTenant("three", (DeclaredCells("socket", nodes=("n0",), gpus=(0, 1)),))
    with pytest.raises(UsageError, match="virtual cluster three owns cells of type socket, which are parts of nodes"):
        partition(with_sockets(shown, [], 2).nodes, (socket,))


def test_quotas_count_the_gpus_of_pinned_cells(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job("a", 8), *(running(snapshot_of, f"o{at}", at) for at in range(6))]
    for rule in (GpuQuotas, PrivateClusters):
        plan = decided(cluster(snapshot_of, jobs, ["two", *[""] * 6]), rule)
        if rule is GpuQuotas:
            assert len(plan.preemptions) == 2


def test_a_pinned_socket(snapshot_of: Any) -> None:
    """`one` owns the second socket of n3, where an opportunistic job holds both GPUs."""
    one = DeclaredTenant("one", (DeclaredCells("socket", nodes=("n3",), gpus=(2, 3)),))
    jobs = [running(snapshot_of, "o", 3, 2), snapshot_of.Job("a", 2)]
    shown = with_sockets(cluster(snapshot_of, jobs, ["", "one"]), [(0, 2)], 2)
    plan = VirtualClusterRule((one,)).decide(shown, tenants_of({"one": FIFO["one"], OUTSIDE: FIFO[OUTSIDE]}))[0]
    [start] = plan.reserved
    assert (start.nodes, start.parts, start.owned_cells) == ((("n3", 2),), ((0, 2),), ("socket",))
    assert [each.job for each in plan.preemptions] == ["o"]


def test_a_change_that_pins_the_hardware_of_a_running_job_for_another_is_refused(snapshot_of: Any) -> None:
    shown = cluster(snapshot_of, [running(snapshot_of, "a", 2)], ["one"])
    shown = replace(shown, allocations=replace(shown.allocations, owned_cell=("node",)))
    other = DeclaredTenant("two", (DeclaredCells("node", nodes=("n2",)),))
    assert lost_guarantees(shown, (ONE, other), {"a": "one"}) == ("a",)
    assert (
        lost_guarantees(shown, (replace(ONE, cells=(DeclaredCells("node", nodes=("n2",)),)), TWO), {"a": "one"}) == ()
    )
    assert lost_guarantees(shown, (replace(ONE, cells=(PINNED_NODE,)), TWO), {"a": "one"}) == ("a",)


def specified(nodes: Nodes, *tenants: DeclaredTenant) -> None:
    CellState(cell_specification(nodes, tenants))


def pinned(name: str, level: str, *nodes: str, gpus: tuple[int, ...] = ()) -> DeclaredTenant:
    return DeclaredTenant(name, (DeclaredCells(level, nodes=nodes, gpus=gpus),))


@pytest.mark.parametrize(
    ("tenants", "message"),
    [
        ((pinned("one", "node", "n9"),), "virtual cluster one: nodes = n9: there is no node n9 with GPUs"),
        ((pinned("one", "rack", "n3"),), "virtual cluster one: nodes = n3: no level rack; there are leaf, node"),
        (
            (pinned("one", "leaf", "n4"),),
            "virtual cluster one: nodes = n4 is not one cell of level leaf; that of n4 has n[4-5]",
        ),
        (
            (pinned("one", "leaf", "n3", "n4"),),
            "nodes = n[3-4] is not one cell of level leaf; that of n3 has n[2-3]",
        ),
        (
            (pinned("one", "node", "n3", "n4"),),
            "nodes = n[3-4] is not one cell of level node; give each node an entry of its own",
        ),
        (
            (pinned("one", "node", "n3", gpus=(0, 1)),),
            "nodes = n3 GPUs 0-1 is not one cell of level node, which has whole nodes; leave out gpus",
        ),
        ((ONE, pinned("two", "node", "n3")), "virtual cluster two: node n3 belongs to virtual cluster one; give this"),
        (
            (TWO, pinned("one", "node", "n4")),
            "virtual cluster one: node n4 overlaps leaf n[4-5] of virtual cluster two; give this hardware to one of them",
        ),
        (
            (DeclaredTenant("one", (PINNED_NODE, PINNED_NODE)),),
            "virtual cluster one: node n3 is given twice",
        ),
        (
            (
                pinned("one", "node", "n3"),
                pinned("two", "node", "n0"),
                DeclaredTenant("x", (DeclaredCells("leaf", 2),)),
            ),
            "virtual clusters own 2 cells of type leaf (level 3 of chain leaf); after the pinned cells and the larger cells "
            "that they own, 1 are left",
        ),
    ],
)
def test_a_mistake_is_one_line(snapshot_of: Any, tenants: tuple[DeclaredTenant, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        specified(cluster(snapshot_of, [], []).nodes, *tenants)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tenants", "message"),
    [
        (
            (pinned("one", "socket", "n3"),),
            "nodes = n3 is not one cell of level socket; give one node and gpus, the indexes of the part's GPUs",
        ),
        (
            (pinned("one", "socket", "n3", gpus=(1, 2)),),
            "nodes = n3 GPUs 1-2 is not one cell of level socket; n3 has n3 GPUs 0-1 and n3 GPUs 2-3",
        ),
        (
            (pinned("one", "socket", "n3", gpus=(0, 1)), pinned("two", "socket", "n3", gpus=(0, 1))),
            "virtual cluster two: socket n3 GPUs 0-1 belongs to virtual cluster one",
        ),
        (
            (pinned("one", "node", "n3"), pinned("two", "socket", "n3", gpus=(0, 1))),
            "virtual cluster two: socket n3 GPUs 0-1 overlaps node n3 of virtual cluster one",
        ),
    ],
)
def test_a_mistake_below_the_node_is_one_line(
    snapshot_of: Any, tenants: tuple[DeclaredTenant, ...], message: str
) -> None:
    nodes = with_sockets(cluster(snapshot_of, [], []), [], 2).nodes
    specified(nodes, pinned("one", "socket", "n3", gpus=(0, 1)), pinned("two", "socket", "n3", gpus=(2, 3)))
    with pytest.raises(UsageError) as error:
        specified(nodes, *tenants)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_nodes_of_a_leaf_that_differ_are_not_one_cell(snapshot_of: Any) -> None:
    nodes = cluster(snapshot_of, [], [], n5={"type": "h100"}).nodes
    with pytest.raises(UsageError, match=r"nodes = n\[4-5\] is not one cell of level leaf: its nodes differ"):
        specified(nodes, TWO)
    specified(nodes, pinned("one", "leaf", "n4"), pinned("two", "leaf", "n5"))
